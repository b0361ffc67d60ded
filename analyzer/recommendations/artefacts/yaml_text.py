"""Mappings, lists, texts and numbers as YAML: enough for patches, and no dependency for it."""

import re
from collections.abc import Iterator, Mapping, Sequence

Yaml = Mapping[str, "Yaml"] | Sequence["Yaml"] | str | int

_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})  # which YAML 1.1 reads as others


def as_yaml(value: Mapping[str, Yaml]) -> str:
    """Return a mapping as YAML, in its own order."""
    return "\n".join(_lines(value))


def _lines(value: Yaml) -> Iterator[str]:
    if isinstance(value, Mapping | Sequence) and not value and not isinstance(value, str):
        yield "{}" if isinstance(value, Mapping) else "[]"
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _under(f"{_scalar(key)}:", each)
    elif isinstance(value, str | int):
        yield _scalar(value)
    else:
        for each in value:
            first, *rest = _lines(each)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)


def _under(key: str, value: Yaml) -> Iterator[str]:
    if isinstance(value, str | int) or not value:
        yield f"{key} {next(_lines(value))}"
        return
    yield key
    yield from (f"  {line}" for line in _lines(value))


def _scalar(value: str | int) -> str:
    if isinstance(value, int):
        return str(value)
    is_plain = _PLAIN.fullmatch(value) is not None and value.lower() not in _WORDS
    return value if is_plain else f'"{"".join(map(_character, value))}"'


def _character(one: str) -> str:
    """Return a character as double quotes take it; YAML has no pairs of surrogates as JSON has."""
    if one in ('"', "\\"):
        return f"\\{one}"
    return one if one.isascii() and one.isprintable() else f"\\U{ord(one):08x}"
