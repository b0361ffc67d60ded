"""`gpuledger findings judge` and `gpuledger findings mute`: on a store that no server has, or on a running server."""

import argparse
import time
from collections.abc import Callable
from textwrap import fill

from analyzer.asking import asked_json, zone_of
from analyzer.findings.history.judgement import VERDICTS, mute_until, reason_of, verdict_of
from analyzer.findings.history.kept import Said
from analyzer.findings.history.say import judge as judge_one
from analyzer.findings.history.say import mute as mute_one
from analyzer.interfaces.cli.by_command import on_store, where, who, word_parser
from analyzer.period import Period
from analyzer.reports.reader import Reader
from analyzer.text.words import until_words

_OK = 0
_COLUMNS = 78
_FINDING = "the finding's id"
_SAYS = {
    "right": "counted: it was right",
    "wrong": "counted: it was wrong. The ledger stays as it was measured; what changes is our record",
    "planned": "counted: it was right, and is accepted",
}


def judge(argv: list[str]) -> int:
    """Say whether a finding is right, wrong, or right and planned. It is kept, and counted into our record."""
    parser = word_parser("findings judge", judge.__doc__, _FINDING)
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
    print(fill(f"{options.id}, {label}: {_SAYS[options.verdict]}.", _COLUMNS))
    return _OK


def mute(argv: list[str]) -> int:
    """Leave a finding out of the list until a date. Its time stays in every sum, and the list says how many."""
    parser = word_parser("findings mute", mute.__doc__, _FINDING)
    parser.add_argument("--until", required=True, metavar="DATE", dest="end", help="2026-12-01, the day included")
    parser.add_argument("--because", required=True, metavar="WHY", help="one sentence; kept with it")
    options = parser.parse_args(argv)
    body = {"until": options.end, "because": reason_of(options.because)}
    if options.server:
        told = asked_json(options.server, f"/v1/findings/{options.id}/mute", body | _period(options))
        until = until_words(int(told["mute"]["until"]), zone_of(told))
    else:
        zone = where(options)[1].timezone
        mute_until(options.end, zone, time.time_ns() // 1000)  # what is refused is refused before a store is opened
        until = _on_store(
            options,
            lambda reader, period, said: until_words(
                mute_one(reader.session, reader.findings(period), period, options.id, options.end, zone, said).until,
                zone,
            ),
        )
    print(fill(f"{options.id} is muted until {until}; gpuledger findings --all lists it meanwhile.", _COLUMNS))
    return _OK


def _period(options: argparse.Namespace) -> dict[str, object]:
    return {"since": options.since} if options.since else {}


def _on_store(options: argparse.Namespace, tell: Callable[[Reader, Period, Said], str]) -> str:
    said = Said(options.because, who(), time.time_ns() // 1000)
    return on_store(*where(options), options.since, lambda reader, period: tell(reader, period, said))
