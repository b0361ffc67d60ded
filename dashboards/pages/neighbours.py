"""The weeks (or months) beside the one that a page shows."""

import re
from typing import TYPE_CHECKING

from analyzer.period import Period

if TYPE_CHECKING:
    from analyzer.reports.reader import Reader

_NAMED = r"\d{4}-(W\d{2}|\d{2})"  # the periods that have a next one


def neighbours(reader: "Reader", period: Period) -> tuple[str | None, str | None]:
    """Return the labels of the periods before and after, where the ledger has hours of them."""
    if not re.fullmatch(_NAMED, period.label):
        return None, None
    oldest, newest = reader.session.row("SELECT min(hour), max(hour) FROM ledger_hours")
    before = reader.calendar.before(period) if oldest is not None and oldest < period.start else None
    kind = reader.calendar.week_of if "W" in period.label else reader.calendar.month_of
    after = kind(period.end) if newest is not None and newest >= period.end else None
    return before.label if before else None, after.label if after else None
