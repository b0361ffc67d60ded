"""Tables and times as the commands of the collector print them."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime


def table_lines(rows: Sequence[Sequence[str]], numbers: Collection[int] = ()) -> list[str]:
    """Return rows as lines, two spaces between columns; `numbers` are the columns that stand to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(_cells(row, widths, numbers)).rstrip() for row in rows]


def _cells(row: Sequence[str], widths: Sequence[int], numbers: Collection[int]) -> list[str]:
    padded = enumerate(zip(row, widths, strict=True))
    return [cell.rjust(width) if place in numbers else cell.ljust(width) for place, (cell, width) in padded]


def utc_text(microseconds: int, *, seconds: bool = True) -> str:
    """Return a time as people read it, to the second or to the minute."""
    return datetime.fromtimestamp(microseconds / 1e6, UTC).strftime(
        "%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M"
    )
