"""`gpuledger accept` and `gpuledger reject`: on a store that no server has, or on a running server."""

import argparse
import os
import pwd
import time
from pathlib import Path
from textwrap import fill

from analyzer.asking import asked_json
from analyzer.casebook.judgement import reason_of
from analyzer.casebook.kept import Said
from analyzer.config import Settings
from analyzer.placement.life.say import decide
from analyzer.placement.life.word import Decision, moment_of
from analyzer.reading import Reader
from analyzer.report.words import moment
from collector.config import load
from collector.store.books import mirror_findings
from collector.store.database import Store

OK = 0
COLUMNS = 78


def accept(argv: list[str]) -> int:
    """Say that a recommendation is to be done. From then on it is looked at whether it is, and what it saves."""
    parser = _parser("accept", accept.__doc__)
    parser.add_argument(
        "--applied-at",
        metavar="WHEN",
        help="2026-11-12 or 2026-11-12T08:00: it has been done then; for what cannot be seen from allocations",
    )
    parser.add_argument("--because", metavar="WHY", default="", help="one sentence; kept with it")
    options = parser.parse_args(argv)
    known, applied_at = _decided(options, "accepted", options.applied_at)
    if applied_at is None:
        told = "accepted. gpuledger savings says once it is seen to be applied, and what it saves"
    else:
        told = f"accepted, and applied on {applied_at}. gpuledger savings says what it saves"
    print(fill(f"{known}: {told}.", COLUMNS))
    return OK


def reject(argv: list[str]) -> int:
    """Say that a recommendation is not to be done, and why. It is kept, and not made again for a while."""
    parser = _parser("reject", reject.__doc__)
    parser.add_argument("--because", required=True, metavar="WHY", help="one sentence; kept with it")
    known, _ = _decided(parser.parse_args(argv), "rejected", None)
    print(fill(f"{known}: rejected, and kept with its reason. accept takes it back.", COLUMNS))
    return OK


def _parser(name: str, about: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"gpuledger {name}", description=about)
    parser.add_argument("id", metavar="ID", help="the recommendation's id, as gpuledger recommend lists it")
    parser.add_argument("--since", metavar="WHEN", help="the period it is of, where it is not the last complete week")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--store", type=Path, metavar="FILE", help="the store; no server may run on it")
    where.add_argument("--server", metavar="URL", help="tell a running server (its token: GPULEDGER_TOKEN)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML (default: beside the store)")
    return parser


def _decided(options: argparse.Namespace, word: Decision, applied: str | None) -> tuple[str, str | None]:
    """Keep the decision; return the whole id, and in words when the change was made."""
    because = reason_of(options.because) if word == "rejected" or options.because else ""
    if options.server:
        body: dict[str, object] = {"because": because} if because else {}
        body |= {"since": options.since} if options.since else {}
        body |= {"applied_at": applied} if applied else {}
        path = "acceptance" if word == "accepted" else "rejection"
        kept = asked_json(options.server, f"/v1/recommendations/{options.id}/{path}", body)["decision"]
        return str(kept["recommendation_id"]), kept["applied_at_iso"]
    path_of, settings = _where(options)
    said = Said(because, _who(), time.time_ns() // 1000)
    applied_at = moment_of(applied, settings.timezone, said.recorded_at) if applied else None
    with Store.open(path_of, memory_limit=settings.memory_limit, threads=settings.threads) as store:
        with store.session() as session:
            reader = Reader(session, settings)
            with session.transaction():
                period = reader.period(options.since)
                found = reader.findings(period)
                seen = (reader.advice(found, period), found, period)
                kept_word = decide(session, seen, lambda _: True, options.id, word, said, applied_at)
        mirror_findings(store)
    told = None if applied_at is None else moment(applied_at, settings.timezone)
    return kept_word.recommendation_id, told


def _where(options: argparse.Namespace) -> tuple[Path, Settings]:
    path: Path = options.store or load(options.config, os.environ).store
    return path, Settings.read(options.config) if options.config else Settings.beside(path)


def _who() -> str:
    try:
        return f"cli:{pwd.getpwuid(os.getuid()).pw_name}"
    except KeyError:
        return f"cli:{os.getuid()}"
