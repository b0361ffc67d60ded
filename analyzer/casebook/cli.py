"""`gpuledger findings judge` and `gpuledger findings mute`: on a store that no server has, or on a running server."""

import argparse
import os
import pwd
import time
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from analyzer.asking import asked_json
from analyzer.casebook.judgement import VERDICTS, mute_until, reason_of, verdict_of
from analyzer.casebook.kept import Said
from analyzer.casebook.say import judge as judge_one
from analyzer.casebook.say import mute as mute_one
from analyzer.config import Settings
from analyzer.reading import Reader
from analyzer.report.words import until_words
from collector.config import load
from collector.store.books import mirror_findings
from collector.store.database import Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from analyzer.period import Period

OK = 0
COLUMNS = 78
SAYS = {
    "right": "counted: it was right",
    "wrong": "counted: it was wrong. The ledger stays as it was measured; what changes is our record",
    "planned": "counted: it was right, and is accepted",
}


def judge(argv: list[str]) -> int:
    """Say whether a finding is right, wrong, or right and planned. It is kept, and counted into our record."""
    parser = _parser("judge", judge.__doc__)
    parser.add_argument("verdict", choices=VERDICTS, metavar=" | ".join(VERDICTS))
    parser.add_argument("--because", required=True, metavar="WHY", help="one sentence; kept with it")
    options = parser.parse_args(argv)
    body = {"verdict": verdict_of(options.verdict), "because": reason_of(options.because)}
    if options.server:
        told = asked_json(options.server, f"/v1/findings/{options.id}/judgement", body | _period(options))
        label = str(told["judgement"]["period_label"])
    else:
        label = _on_store(
            options,
            lambda reader, period, said: (
                judge_one(
                    reader.session, reader.findings(period), period, options.id, options.verdict, said
                ).period_label
            ),
        )
    print(fill(f"{options.id}, {label}: {SAYS[options.verdict]}.", COLUMNS))
    return OK


def mute(argv: list[str]) -> int:
    """Leave a finding out of the list until a date. Its time stays in every sum, and the list says how many."""
    parser = _parser("mute", mute.__doc__)
    parser.add_argument("--until", required=True, metavar="DATE", dest="end", help="2026-12-01, the day included")
    parser.add_argument("--because", required=True, metavar="WHY", help="one sentence; kept with it")
    options = parser.parse_args(argv)
    body = {"until": options.end, "because": reason_of(options.because)}
    if options.server:
        told = asked_json(options.server, f"/v1/findings/{options.id}/mute", body | _period(options))
        until = str(told["mute"]["until_iso"])
    else:
        zone = _settings(options)[1].timezone
        mute_until(options.end, zone, time.time_ns() // 1000)  # what is refused is refused before a store is opened
        until = _on_store(
            options,
            lambda reader, period, said: until_words(
                mute_one(reader.session, reader.findings(period), period, options.id, options.end, zone, said).until,
                zone,
            ),
        )
    print(fill(f"{options.id} is muted until {until}; gpuledger findings --all lists it meanwhile.", COLUMNS))
    return OK


def _parser(name: str, about: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"gpuledger findings {name}", description=about)
    parser.add_argument("id", metavar="ID", help="the finding's id")
    parser.add_argument("--since", metavar="WHEN", help="the period it is of, where it is not the last complete week")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--store", type=Path, metavar="FILE", help="the store; no server may run on it")
    where.add_argument("--server", metavar="URL", help="tell a running server (its token: GPULEDGER_TOKEN)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML (default: beside the store)")
    return parser


def _period(options: argparse.Namespace) -> dict[str, object]:
    return {"since": options.since} if options.since else {}


def _settings(options: argparse.Namespace) -> tuple[Path, Settings]:
    path: Path = options.store or load(options.config, os.environ).store
    return path, Settings.read(options.config) if options.config else Settings.beside(path)


def _on_store(options: argparse.Namespace, tell: "Callable[[Reader, Period, Said], str]") -> str:
    path, settings = _settings(options)
    said = Said(options.because, _who(), time.time_ns() // 1000)
    with Store.open(path, memory_limit=settings.memory_limit, threads=settings.threads) as store:
        with store.session() as session:
            reader = Reader(session, settings)
            with session.transaction():
                answer = tell(reader, reader.period(options.since), said)
        mirror_findings(store)
    return answer


def _who() -> str:
    try:
        return f"cli:{pwd.getpwuid(os.getuid()).pw_name}"
    except KeyError:
        return f"cli:{os.getuid()}"
