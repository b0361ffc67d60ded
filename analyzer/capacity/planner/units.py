"""Amounts as people write them: 128 GB, 1 h 30 min, 20 GB in 30 min. Exact; what is not whole is rounded up."""

import re
from decimal import Decimal
from fractions import Fraction
from math import ceil
from typing import Final

from analyzer.capacity.planner.errors import TaskFileError
from analyzer.capacity.planner.problem import TransferRate

_BYTES: Final[dict[str, int]] = {
    "B": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate("kMGTP", 1)},
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGTP", 1)},
}
_SECONDS: Final[dict[str, int]] = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86_400}
_NUMBER = r"[0-9]{1,15}(?:\.[0-9]{1,9})?"
_SIZE = re.compile(rf"({_NUMBER})\s*({'|'.join(_BYTES)})")
_PART = re.compile(rf"({_NUMBER})\s*(min|s|m|h|d)\s*")
_RATE = re.compile(r"(.+?)(?:\s*/\s*s|\s+in\s+(.+))")
_SIZE_HINT, _SPAN_HINT = "a size with its unit, as in 128 GB", "a duration with its unit, as in 3 h or 1 h 30 min"


def size_bytes(where: str, said: object) -> int:
    """Return a size in bytes; GB is 10⁹, GiB 2³⁰.

    Raises:
        TaskFileError: it is none.
    """
    if said == 0 and not isinstance(said, bool):
        return 0
    found = _SIZE.fullmatch(said.strip()) if isinstance(said, str) else None
    if found is None:
        raise TaskFileError(f"{where} must be {_SIZE_HINT}")
    return ceil(Fraction(Decimal(found[1])) * _BYTES[found[2]])


def span_seconds(where: str, said: object) -> int:
    """Return a duration in seconds, rounded up.

    Raises:
        TaskFileError: it is none.
    """
    if said == 0 and not isinstance(said, bool):
        return 0
    total, at = Fraction(0), 0
    text = said.strip() if isinstance(said, str) else ""
    while found := _PART.match(text, at):
        total, at = total + Fraction(Decimal(found[1])) * _SECONDS[found[2]], found.end()
    if not text or at < len(text):
        raise TaskFileError(f"{where} must be {_SPAN_HINT}")
    return ceil(total)


def transfer_rate(where: str, said: object) -> TransferRate:
    """Return a transfer rate: 1 GB/s, or 20 GB in 30 min.

    Raises:
        TaskFileError: it is none, or 0.
    """
    found = _RATE.fullmatch(said.strip()) if isinstance(said, str) else None
    if found is None:
        raise TaskFileError(f"{where} must be a rate, as in 1 GB/s or 20 GB in 30 min")
    amount, seconds = size_bytes(where, found[1]), span_seconds(where, found[2] or "1 s")
    if not amount or not seconds:
        raise TaskFileError(f"{where} must be more than nothing")
    return TransferRate(amount, seconds)
