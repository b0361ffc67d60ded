"""Cursors: where the next page of one listing begins. Opaque, good for as long as the listing is, and for it alone.

A cursor holds the key of the last item that was shown, not a count of items: rows that come meanwhile move nothing.
It also holds the period, so that "the last week" means the same on every page.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from agent.wire.bounded import json_said
from analyzer.interfaces.api.faults import GoneError
from analyzer.period import Period

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
            raise GoneError("this cursor belongs to another listing: ask with the parameters of its first page")
        return CursorPosition(_key(key, kinds), None if period is None else _period(*period))
    except (ValueError, TypeError, binascii.Error) as error:
        raise GoneError("this cursor is none of ours: begin without one") from error


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
