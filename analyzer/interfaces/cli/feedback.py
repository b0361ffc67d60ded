"""`gpuledger findings judge` and `gpuledger findings mute`: on a store that no server has, or on a running server."""

from textwrap import fill

from analyzer.findings.judgement import VERDICTS, reason_of
from analyzer.interfaces.cli.by_command import target_of, word_parser

_OK = 0
_COLUMNS = 78
_FINDING = "the finding's id"
_SAYS = {
    "right": "counted: it was right",
    "wrong": "counted: it was wrong. The ledger stays as it was measured; what changes is our accuracy",
    "planned": "counted: it was right, and is accepted",
}


def judge(argv: list[str]) -> int:
    """Say whether a finding is right, wrong, or right and planned. It is kept, and counted."""
    parser = word_parser("findings judge", judge.__doc__, _FINDING)
    parser.add_argument("verdict", choices=VERDICTS, metavar=" | ".join(VERDICTS))
    parser.add_argument("--because", required=True, metavar="WHY", help="one sentence; kept with it")
    options = parser.parse_args(argv)
    label = target_of(options).judge(options.id, options.verdict, reason_of(options.because), options.since)
    print(fill(f"{options.id}, {label}: {_SAYS[options.verdict]}.", _COLUMNS))
    return _OK


def mute(argv: list[str]) -> int:
    """Leave a finding out of the list until a date. Its time stays in every sum, and the list says how many."""
    parser = word_parser("findings mute", mute.__doc__, _FINDING)
    parser.add_argument("--until", required=True, metavar="DATE", dest="end", help="2026-12-01, the day included")
    parser.add_argument("--because", required=True, metavar="WHY", help="one sentence; kept with it")
    options = parser.parse_args(argv)
    until = target_of(options).mute(options.id, options.end, reason_of(options.because), options.since)
    print(fill(f"{options.id} is muted until {until}; gpuledger findings --all lists it meanwhile.", _COLUMNS))
    return _OK
