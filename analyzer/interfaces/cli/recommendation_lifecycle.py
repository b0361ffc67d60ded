"""`gpuledger recommendations accept` and `reject`: on a store that no server has, or on a running server."""

import argparse
from textwrap import fill

from analyzer.findings.judgement import reason_of
from analyzer.interfaces.cli.by_command import target_of, word_parser
from analyzer.recommendations.lifecycle.status import Decision

_OK = 0
_COLUMNS = 78
_ADVICE = "the recommendation's id, as gpuledger recommendations lists it"


def accept(argv: list[str]) -> int:
    """Say that a recommendation is to be done. From then on it is looked at whether it is, and what it saves."""
    parser = word_parser("recommendations accept", accept.__doc__, _ADVICE)
    parser.add_argument(
        "--applied-at",
        metavar="WHEN",
        help="2026-11-12 or 2026-11-12T08:00: it has been done then; for what cannot be seen from allocations",
    )
    parser.add_argument("--because", metavar="WHY", default="", help="one sentence; kept with it")
    options = parser.parse_args(argv)
    known, applied_at = _decided(options, "accepted", options.applied_at)
    if applied_at is None:
        told = "accepted. gpuledger recommendations savings says once it is seen to be applied, and what it saves"
    else:
        told = f"accepted, and applied on {applied_at}. gpuledger recommendations savings says what it saves"
    print(fill(f"{known}: {told}.", _COLUMNS))
    return _OK


def reject(argv: list[str]) -> int:
    """Say that a recommendation is not to be done, and why. It is kept, and not made again for a while."""
    parser = word_parser("recommendations reject", reject.__doc__, _ADVICE)
    parser.add_argument("--because", required=True, metavar="WHY", help="one sentence; kept with it")
    known, _ = _decided(parser.parse_args(argv), "rejected", None)
    print(fill(f"{known}: rejected, and kept with its reason. accept takes it back.", _COLUMNS))
    return _OK


def _decided(options: argparse.Namespace, word: Decision, applied: str | None) -> tuple[str, str | None]:
    """Keep the decision; return the whole id, and in words when the change was made."""
    because = reason_of(options.because) if word == "rejected" or options.because else ""
    return target_of(options).decide(options.id, word, because, applied, options.since)
