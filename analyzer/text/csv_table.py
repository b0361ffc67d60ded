"""A table as CSV: exact values, and no cell that a spreadsheet would take for a formula."""

import csv
import io
from collections.abc import Iterable, Sequence

from analyzer.text.words import plain

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how a cell begins that a spreadsheet would compute


def csv_text(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return the rows below their head; None is an empty cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    for row in rows:
        writer.writerow([_cell(value) for value in row])
    return out.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, str):
        text = plain(value)
        return f"'{text}" if text.startswith(_FORMULA) else text
    return value
