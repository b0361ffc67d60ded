"""A file's columns to the contract's types: what cannot be converted costs its row, and only that."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from agent.wire.contract import Column
from collector.pipeline.decoding.range_checks import Array, Mask, pc

_TYPES: dict[str, Any] = {"string": pa.string(), "int64": pa.int64(), "float64": pa.float64(), "bool": pa.bool_()}
_WHOLE = r"^[+-]?\d{1,18}$"
_FORMS = {
    "int64": (_WHOLE, "not a whole number"),
    "float64": (r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?$", "not a number"),
    "bool": (r"^(?i:true|false|0|1)$", "neither true nor false"),
}
_DATE = r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?"
_ZONE = r"(Z|[+-]\d\d:?\d\d)$"
_NO_TIME = "neither whole microseconds nor an ISO 8601 time"


@dataclass(frozen=True, slots=True)
class Converted:
    """A column in its type; `bad` marks the rows whose value could not be converted, or is None where all could."""

    values: Array
    bad: Mask | None = None
    says: str = ""


def convert(column: Column, raw: Array) -> Converted:
    """Return a column of a file in the type of the contract. NaN is how some tools write "missing": it becomes null."""
    if column.unit == "microseconds" and pa.types.is_timestamp(raw.type):
        return Converted(_microseconds(raw))
    if pa.types.is_dictionary(raw.type):
        raw = raw.dictionary_decode()
    if pa.types.is_floating(raw.type):
        raw = pc.if_else(pc.is_nan(raw), pa.scalar(None, raw.type), raw)
    if not pa.types.is_string(raw.type) or column.type == "string":
        try:
            return Converted(raw.cast(_TYPES[column.type]))
        except pa.ArrowException:
            pass  # at least one value does not fit; as text it can be told which
    text = _as_text(raw)
    if text is None:
        return Converted(pa.nulls(len(raw), _TYPES[column.type]), pc.is_valid(raw), f"a {raw.type}")
    return _times(text) if column.unit == "microseconds" else _parsed(column, text)


def _as_text(raw: Array) -> Array | None:
    try:
        return pc.utf8_trim_whitespace(raw.cast(pa.string()))
    except pa.ArrowException:
        return None


def _parsed(column: Column, text: Array) -> Converted:
    if column.type == "int64":
        text = pc.replace_substring_regex(text, r"\.0*$", "")  # tools write whole numbers beside nulls as 5.0
    form, says = _FORMS[column.type]
    return _where(text, form, says, lambda good: _unsigned(good).cast(_TYPES[column.type]), _TYPES[column.type])


def _unsigned(text: Array) -> Array:
    return pc.replace_substring_regex(text, r"^\+", "")


def _where(text: Array, form: str, says: str, parse: Callable[[Array], Array], kind: pa.DataType) -> Converted:
    """Parse what has the form; the rest is null and marked."""
    fits = pc.match_substring_regex(text, form)
    if pc.all(fits).as_py() is not False:
        return Converted(parse(text))
    good = pc.if_else(fits, text, pa.scalar(None, pa.string()))
    return Converted(parse(good).cast(kind), pc.fill_null(pc.invert(fits), False), says)


def _times(text: Array) -> Converted:
    """Read whole microseconds and ISO 8601 times, also mixed; a time without a zone is UTC."""
    text = pc.replace_substring_regex(text, r"(\.\d{6})\d+", r"\1")
    whole = pc.match_substring_regex(text, _WHOLE)
    if pc.all(whole).as_py() is not False:
        return Converted(_unsigned(text).cast(pa.int64()))
    zoned = pc.match_substring_regex(text, _DATE + _ZONE)
    plain = pc.match_substring_regex(text, _DATE + "$")
    parsed = [
        _only(text, whole).cast(pa.int64()),
        *(
            _iso(_only(text, mask), kind)
            for mask, kind in ((zoned, pa.timestamp("us", "UTC")), (plain, pa.timestamp("us")))
        ),
    ]
    values = pc.coalesce(*parsed)
    return Converted(values, pc.and_(pc.is_valid(text), pc.is_null(values)), _NO_TIME)


def _only(text: Array, mask: Mask) -> Array:
    return pc.if_else(mask, text, pa.scalar(None, pa.string()))


def _iso(text: Array, kind: Any) -> Array:  # noqa: ANN401 - a timestamp with or without a zone
    """Parse ISO times of one kind; a day such as 31 February has the form and is none, so these go one by one."""
    try:
        return _microseconds(text.cast(kind))
    except pa.ArrowException:
        return pa.array([_iso_one(value, kind) for value in text], pa.int64())


def _iso_one(value: Any, kind: Any) -> int | None:  # noqa: ANN401
    try:
        found: int | None = value.cast(kind).cast(pa.int64()).as_py()
    except pa.ArrowException:
        return None
    return found


def _microseconds(times: Array) -> Array:
    return times.cast(pa.timestamp("us", times.type.tz), safe=False).cast(pa.int64())
