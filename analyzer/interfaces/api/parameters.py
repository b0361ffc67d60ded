"""What requests name (periods, cursors, filters), and what each endpoint may answer beside its document."""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, WithJsonSchema
from pydantic.json_schema import SkipJsonSchema

from agent.wire.bounded import json_said
from analyzer.errors import AnalyzerError, ConfigError, LedgerError
from analyzer.period import WEEKDAYS, Calendar, Period
from analyzer.reports.document import Model, Status
from analyzer.states import BOOKINGS, STATES, Class


class MeaninglessError(LedgerError):
    """What was asked can be read, and is none that can be answered: a command that asks ends as on a store, with 2."""


class GoneError(LedgerError):
    """There is no such page or period."""


class PeopleError(AnalyzerError):
    """Who asks may read money, and not who spent it."""


class WholeError(AnalyzerError):
    """What was asked is of the whole site, and who asks may see the runs of some teams alone."""


class BusyError(AnalyzerError):
    """As many read the ledger as may at once, and none of them was done in time."""


LENGTH_MAX = 2000
_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_799_000_000  # of the years 1 to 9999
PATTERN = "^[A-Za-z0-9_-]+$"
CursorKey = tuple[str | int | bool | None, ...]


@dataclass(frozen=True, slots=True)
class CursorPosition:
    """After which key the page begins, and of which period; None where the listing has none."""

    key: CursorKey
    period: Period | None = None


def cursor_text(query: str, place: CursorPosition) -> str:
    """Return a place as text that fits into an address."""
    period = place.period and [place.period.start, place.period.end, place.period.label, place.period.timezone]
    content = json.dumps([_digest(query), period, place.key], separators=(",", ":"))
    return base64.urlsafe_b64encode(content.encode()).decode().rstrip("=")


def cursor_position(text: str, query: str, kinds: Sequence[type]) -> CursorPosition:
    """Return the place that a cursor names in this listing, whose keys are of these types or None.

    Raises:
        GoneError: it is of another listing, or no cursor of ours.
    """
    try:
        digest, period, key = json_said(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        if isinstance(digest, str) and digest != _digest(query):
            raise GoneError("this cursor belongs to another listing; repeat the parameters of its first page")
        return CursorPosition(_key(key, kinds), None if period is None else _period(*period))
    except (ValueError, TypeError, binascii.Error) as error:
        raise GoneError("this is not a valid cursor: start again without one") from error


def _key(key: Sequence[str | int | bool | None], kinds: Sequence[type]) -> CursorKey:
    if not all(_fits(part, kind) for part, kind in zip(key, kinds, strict=True)):
        raise TypeError
    return tuple(key)


def _period(start: object, end: object, label: object, timezone: object) -> Period:
    if type(start) is not int or type(end) is not int or type(label) is not str or type(timezone) is not str:
        raise TypeError
    if not _FIRST_US <= start < end <= _LAST_US:  # what a calendar can name
        raise ValueError
    return Period(start, end, label.encode().decode(), timezone.encode().decode())


def _fits(part: object, kind: type) -> bool:
    if isinstance(part, str):
        part.encode()  # half of a pair of surrogates is no text
    return part is None or (type(part) is kind and (not isinstance(part, int) or abs(part) < 2**63))


def _digest(query: str) -> str:
    return hashlib.sha256(query.encode()).hexdigest()[:12]


_DAYS = ("today", "yesterday", *WEEKDAYS)
_WEEK = r"20[0-9]{2}-W(0[1-9]|[1-4][0-9]|5[0-3])"
_MONTH = r"20[0-9]{2}-(0[1-9]|1[0-2])"
_BACK = r"[1-9][0-9]{0,3}[hdw]"
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"[Tt ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?([Zz]|[+-][0-9]{2}:[0-9]{2})?"
# The command line's words too: 2026w46, Monday.
_WRITTEN = re.compile(
    rf"[0-9]{{4}}-?W[0-9]{{1,2}}|[0-9]{{4}}-[0-9]{{2}}|[0-9]{{1,4}}[hdw]|{'|'.join(_DAYS)}|{_DATE}({_TIME})?",
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
        {"type": "string", "enum": list(_DAYS)},
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
        raise GoneError(f"no hour of the ledger lies in {label}: it ends before it starts, or has not started")
    return Period(start, end, label, calendar.timezone)


def _is_time(text: str) -> bool:
    return len(text) > len("2026-11-09")


def _parsed(calendar: Calendar, text: str, newest: int) -> Period:
    return calendar.parse(text.upper(), max(newest, _LAST_INSTANT)) if _is_time(text) else calendar.parse(text, newest)


_LIMIT, LIMIT_MAX = 100, 1000
VALUES_MAX = 50
_CAUSES = tuple(sorted({each.cause for each in BOOKINGS if each.cause}))

Text = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Texts = Annotated[list[Text], Field(max_length=VALUES_MAX)]
State = Literal[STATES]  # type: ignore[valid-type]  # the table of states, once
Cause = Literal[_CAUSES]  # type: ignore[valid-type]
Opt = SkipJsonSchema[None]  # left out of an address, never written there as null


class Parameters(BaseModel):
    """The parameters of a request; one that is not known is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Paged(Parameters):
    """Of a listing."""

    limit: int = Field(_LIMIT, ge=1, le=LIMIT_MAX, description="Maximum number of items on a page.")
    cursor: Annotated[str, StringConstraints(pattern=PATTERN, max_length=LENGTH_MAX)] | Opt = Field(
        None, description="`next_cursor` of the previous page; all other parameters must be the same."
    )


class Spanned(Parameters):
    """Of a reading of a period."""

    since: When | Opt = Field(
        None,
        description="The period, or its start: without `until`, a day, a week or a month is the whole period; 7d, "
        "monday or a time extends to the end of the ledger. Default: the last complete week of the ledger.",
    )
    until: When | Opt = Field(
        None, description="The end of the period: a day, a week or a month is inclusive, a time is exclusive."
    )


class Selected(Spanned):
    """Of a reading of a part of the ledger. Several values of one parameter are alternatives."""

    team: Texts = Field([])
    project: Texts = Field([])
    model: Texts = Field([])
    queue: Texts = Field([])
    stage: Texts = Field([])
    node_group: Texts = Field([])
    run: Texts = Field([], description="A run's id, any unique end of it, its name, or `last`.")
    state: Annotated[list[State], Field(max_length=VALUES_MAX)] = Field([])
    cause: Annotated[list[Cause], Field(max_length=VALUES_MAX)] = Field([])
    klass: Annotated[list[Class], Field(max_length=VALUES_MAX)] = Field([], alias="class")
    held: bool | Opt = Field(None, description="Whether a run held the GPU.")
    status: Annotated[list[Status], Field(max_length=VALUES_MAX)] = Field(
        [], description="Only hours with this status; closed and final ones do not change."
    )


class Fault(Model):
    """One parameter that is not valid."""

    in_: str = Field(serialization_alias="in")
    name: str
    says: str


class Problem(Model):
    """RFC 9457. `detail` is a sentence for a person."""

    type: str
    title: str
    status: int
    detail: str
    reason: str = Field("", description="A code for programs, such as `usage`: the request itself is not valid.")
    errors: list[Fault] = Field([], description="Of 422: each parameter that is not valid, and why.")


_WORDS = {
    400: "A parameter is not valid.",
    401: "No key, or not a valid one.",
    403: "This key does not have access.",
    404: "No such item, period or page.",
    408: "The request took too long to arrive.",
    409: "It conflicts with the current state.",
    412: "It was changed since it was read.",
    413: "The body is too large.",
    415: "The content type is not supported.",
    421: "It belongs to another collector; Location says which.",
    422: "A parameter is unknown, or its value is not valid.",
    426: "A newer collector is required.",
    428: "If-Match must say what is to be replaced.",
    429: "Too many requests; retry after Retry-After seconds.",
    500: "Internal error.",
    503: "The store is not available now.",
}


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the problems that an endpoint may answer with, for its OpenAPI document."""
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": _WORDS[status], "content": content} for status in statuses}


READS: dict[int | str, dict[str, Any]] = {
    304: {"description": "Not modified: If-None-Match names the current state of the ledger."},
    **refusals(400, 401, 403, 404, 422, 429, 500, 503),
}
