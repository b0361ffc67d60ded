"""A decision as plain data and back: what the registry keeps, the API answers and --json prints."""

from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from analyzer.capacity.gate.decided import SCHEMA, Decided
from analyzer.errors import LedgerError


def data_of(value: object) -> Any:  # noqa: ANN401 - whatever JSON can say
    """Return dataclasses as objects and tuples as lists; None stays null."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: data_of(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, list | tuple):
        return [data_of(item) for item in value]
    return value


def decided_of(document: object) -> Decided:
    """Return the decision that plain data says.

    Raises:
        LedgerError: it is none, or of another version.
    """
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise LedgerError(f"a decision of schema {str(schema)[:40]!r} is none that this version reads")
    try:
        made: Decided = _made(Decided, document)
    except (KeyError, TypeError, ValueError) as error:
        raise LedgerError(f"a decision cannot be read: {error}") from error
    return made


def _dataclass(kind: Any, value: Any) -> Any:  # noqa: ANN401 - the kind decides
    """Return one object. What a decision that was kept before does not have yet has its default."""
    hints = get_type_hints(kind)
    there = [each for each in fields(kind) if each.name in value or each.default is MISSING]
    return kind(**{each.name: _made(hints[each.name], value[each.name]) for each in there})


def _made(kind: Any, value: Any) -> Any:  # noqa: ANN401 - the kind decides
    if is_dataclass(kind):
        return _dataclass(kind, value)
    origin = get_origin(kind)
    if origin is UnionType:
        inner = next(each for each in get_args(kind) if each is not NoneType)
        return None if value is None else _made(inner, value)
    if origin is tuple:
        return tuple(_made(get_args(kind)[0], item) for item in value)
    if origin is Literal:
        if value not in get_args(kind):
            raise ValueError(f"{value!r} is none of {get_args(kind)}")
        return value
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value
