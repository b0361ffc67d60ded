"""Single fields of the API's JSON: any of them may be absent or of another kind; unknown is None."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from agent.wire.units import SECOND_US

_TEXT_MAX = 512  # characters of one text that is kept

Json = Mapping[str, Any]


def at(thing: object, *path: str) -> object:
    """Return what lies below these names, or None where there is nothing."""
    for name in path:
        if not isinstance(thing, Mapping):
            return None
        thing = thing.get(name)
    return thing


def text(thing: object, *path: str) -> str | None:
    """Return a text that is not empty, what is no Unicode as question marks, and not too long."""
    found = at(thing, *path)
    if not isinstance(found, str) or not found:
        return None
    return found[:_TEXT_MAX].encode("utf-8", "replace").decode()


def whole_number(thing: object, *path: str) -> int | None:
    """Return a number that counts something; a flag is none."""
    found = at(thing, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def objects(thing: object, *path: str) -> Iterator[Json]:
    """Yield the objects of a list."""
    found = at(thing, *path)
    if isinstance(found, list):
        yield from (one for one in found if isinstance(one, Mapping))


def texts(thing: object, *path: str) -> dict[str, str]:
    """Return an object of texts, as labels are."""
    found = at(thing, *path)
    if not isinstance(found, Mapping):
        return {}
    known = {key: text(found, key) for key in found if isinstance(key, str)}
    return {key: value for key, value in known.items() if value is not None}


def timestamp_us(thing: object, *path: str) -> int | None:
    """Return a time like 2026-11-21T08:15:00Z or with parts of seconds, in microseconds UTC."""
    found = text(thing, *path)
    if found is None:
        return None
    try:
        when = datetime.fromisoformat(found)
    except ValueError:
        return None
    if when.tzinfo is None:
        return None
    return int(when.timestamp()) * SECOND_US + when.microsecond if when.year > 1970 else None


def condition(thing: object, kind: str) -> Json | None:
    """Return the condition of this type in an object's status."""
    return next((one for one in objects(thing, "status", "conditions") if one.get("type") == kind), None)
