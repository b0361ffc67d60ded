"""`since` and `until` of a request: the words of the command line, as a period of whole hours."""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, WithJsonSchema

from analyzer.errors import ConfigError
from analyzer.interfaces.api.faults import GoneError
from analyzer.period import WEEKDAYS, Calendar, Period

_WORDS = ("today", "yesterday", *WEEKDAYS)
_WEEK = r"20[0-9]{2}-W(0[1-9]|[1-4][0-9]|5[0-3])"
_MONTH = r"20[0-9]{2}-(0[1-9]|1[0-2])"
_BACK = r"[1-9][0-9]{0,3}[hdw]"
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"[Tt ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?([Zz]|[+-][0-9]{2}:[0-9]{2})?"
# The command line's words too: 2026w46, Monday.
_WRITTEN = re.compile(
    rf"[0-9]{{4}}-?W[0-9]{{1,2}}|[0-9]{{4}}-[0-9]{{2}}|[0-9]{{1,4}}[hdw]|{'|'.join(_WORDS)}|{_DATE}({_TIME})?",
    re.ASCII | re.IGNORECASE,
)
_LAST_INSTANT = 4_102_444_800_000_000  # 2100: what lies beyond has not begun
_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "string", "format": "date", "example": "2026-11-09"},
        {"type": "string", "format": "date-time", "example": "2026-11-09T08:00:00Z"},
        {"type": "string", "pattern": f"^{_WEEK}$", "example": "2026-W46"},
        {"type": "string", "pattern": f"^{_MONTH}$", "example": "2026-11"},
        {"type": "string", "pattern": f"^{_BACK}$", "example": "7d"},
        {"type": "string", "enum": list(_WORDS)},
    ]
}


def _checked(text: str) -> str:
    if len(text) > 40 or not _WRITTEN.fullmatch(text):
        raise ValueError(
            "not a date, a time, a week like 2026-W46, a month like 2026-11, a span like 7d, or a day like monday"
        )
    return text


When = Annotated[str, AfterValidator(_checked), WithJsonSchema(_SCHEMA)]


def period_of(calendar: Calendar, since: str | None, until: str | None, first: int, newest: int) -> Period:
    """Return the period that is meant, in a ledger of the hours from `first` until `newest`.

    Without `since` it begins with the ledger. A day, a week or a month as `until` is included; a time is not.

    Raises:
        GoneError: there is no such day or week, or it ends before it begins.
    """
    try:
        start, end = first, newest
        if since is not None:
            span = _parsed(calendar, since, newest)
            start, end = span.start, newest if _is_time(since) else span.end
        if until is not None:
            span = _parsed(calendar, until, newest)
            end = span.start if _is_time(until) else span.end
    except ConfigError as error:
        raise GoneError(str(error)) from error
    except (OverflowError, ValueError) as error:
        raise GoneError(f"the calendar has no {since or until}") from error
    label = " to ".join(filter(None, (since, until)))
    if end <= start:
        raise GoneError(f"no hour of the ledger lies in {label}: it ends before it begins, or has not begun")
    return Period(start, end, label, calendar.timezone)


def _is_time(text: str) -> bool:
    return len(text) > len("2026-11-09")


def _parsed(calendar: Calendar, text: str, newest: int) -> Period:
    return calendar.parse(text.upper(), max(newest, _LAST_INSTANT)) if _is_time(text) else calendar.parse(text, newest)
