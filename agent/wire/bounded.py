"""The door through which JSON, TOML and metrics pages that others wrote come in: bounded before a parser sees them.

Python's own readers know no bounds. Of a key with 100,000 dots tomllib makes the square of them: 200 kB took 23 GB.
What a text holds is counted without its strings, by expressions that look at each letter once (a string without an end
reaches to the end), and only then it is parsed.
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:  # the same code for older Pythons, by its author
    import tomli as tomllib

_BYTES_MOST = 4 * 2**20
_VALUES_MOST = 300_000
_DEEPEST = 64
DIGITS_MOST = 400  # of a number: a double needs fewer, and what a decimal of more is worth takes the square of them
TOML_BYTES_MOST = 2**20
_TOML_VALUES_MOST = 50_000
_TOML_LINES_MOST = 100_000
_KEY_PARTS_MOST = 8  # that dots join


def compiled(expression: str, flags: re.RegexFlag = re.DOTALL) -> re.Pattern[str]:
    """Compile an expression whose repeats give nothing back (`++`, `*+`); Python 3.10 has none such, and takes others.

    Where those of a string end, all of the expression does: others find the same, and remember more meanwhile (two
    million escapes in one string: 331 MB).
    """
    return re.compile(expression if sys.version_info >= (3, 11) else re.sub(r"([+*])\+", r"\1", expression), flags)


_JSON_STRINGS = compiled(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)')
_TOML_STRINGS = compiled(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+(?:"{3,5}|\\?\Z)'
    r"|'''(?:[^']++|'(?!''))*+(?:'{3,5}|\Z)"
    r'|"(?:[^"\\\n]++|\\[^\n])*+(?:"|\\?(?=\n|\Z))'
    r"|'[^'\n]*+(?:'|(?=\n|\Z))"
    r"|#[^\n]*+"
)
_BRACKETS = re.compile(r"[\[{]+|[\]}]+")
_NUMBER = re.compile(rf"(?<![\w.+-])[+-]?[0-9][\w.:+-]{{{DIGITS_MOST}}}", re.ASCII)
_LONG_KEY = compiled(rf"(?<![\w.-])[\w-]++(?:[ \t]*+\.[ \t]*+[\w-]++){{{_KEY_PARTS_MOST}}}", re.ASCII)


# A sample of Prometheus's text format: its name, labels, value and time. What nearly is one must not take long either.
EXPOSED = compiled(
    r'([a-zA-Z_:][a-zA-Z0-9_:]*+)(?:[ \t]*+\{((?:[^"}]|"(?:[^"\\]|\\.)*+")*+)\})?[ \t]++(\S++)(?:[ \t]++(-?[\d.]++))?'
)
_LABEL = compiled(r'([a-zA-Z_]\w*+)[ \t]*+=[ \t]*+"((?:[^"\\]|\\.)*+)"')
_ESCAPE = re.compile(r"\\(.)")


def exposed_labels(said: str | None) -> dict[str, str]:
    """Return the labels of a sample, unescaped."""
    return {name: _unescaped(value) for name, value in _LABEL.findall(said or "")}


def _unescaped(value: str) -> str:
    return _ESCAPE.sub(lambda one: "\n" if one[1] == "n" else one[1], value) if "\\" in value else value


class TooMuchError(ValueError):
    """It is larger, deeper or has more in it than anything that is meant; it was not parsed."""


class TooDeepError(TooMuchError):
    """It has lists or tables within each other, or parts of a key, deeper than anything that is meant."""


def json_said(
    content: str | bytes,
    *,
    most_bytes: int = _BYTES_MOST,
    most_values: int = _VALUES_MOST,
    deepest: int = _DEEPEST,
    object_pairs_hook: Callable[[list[tuple[str, Any]]], Any] | None = None,
    parse_float: Callable[[str], Any] | None = None,
    parse_constant: Callable[[str], Any] | None = None,
) -> Any:  # noqa: ANN401 - whatever JSON can say
    """Return what JSON says.

    Raises:
        TooMuchError: it is beyond a bound.
        ValueError: it is no JSON, or no UTF-8; or a hook of the caller's refuses it.
    """
    text = bounded_json(content, most_bytes=most_bytes, most_values=most_values, deepest=deepest)
    return json.loads(text, object_pairs_hook=object_pairs_hook, parse_float=parse_float, parse_constant=parse_constant)


def bounded_json(
    content: str | bytes, *, most_bytes: int = _BYTES_MOST, most_values: int = _VALUES_MOST, deepest: int = _DEEPEST
) -> str:
    """Return the text of what may be JSON, for who parses it with a reader of its own.

    Raises:
        TooMuchError: it is beyond a bound.
        UnicodeDecodeError: it is no UTF-8.
    """
    text = _text(content, most_bytes)
    bare = _JSON_STRINGS.sub('"', text)
    _require(sum(map(bare.count, ",:[{")), most_values, bare, deepest)
    return text


def toml_said(
    content: str | bytes, *, most_bytes: int = TOML_BYTES_MOST, parse_float: Callable[[str], Any] = float
) -> dict[str, Any]:
    """Return what TOML says.

    Raises:
        TooMuchError: it is beyond a bound.
        ValueError: it is no TOML, or no UTF-8.
    """
    text = _text(content, most_bytes)
    bare = _TOML_STRINGS.sub("s", text)
    if (lines := bare.count("\n")) > _TOML_LINES_MOST:
        raise TooMuchError(f"it has {lines:,} lines; the maximum is {_TOML_LINES_MOST:,}")
    if _LONG_KEY.search(bare) is not None:
        raise TooDeepError(f"a key is nested over {_KEY_PARTS_MOST} deep: it has so many parts with dots between them")
    _require(sum(map(bare.count, "=,.[{")), _TOML_VALUES_MOST, bare, _DEEPEST)
    return tomllib.loads(text, parse_float=parse_float)


def read_bounded(path: Path, most_bytes: int) -> bytes:
    """Return a file's content, or of a larger one so much that its reader refuses it.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        return file.read(most_bytes + 1)


def too_long_a_number(text: str) -> bool:
    """Say whether a number in a text has more digits than any that is meant."""
    return _NUMBER.search(text) is not None


def _text(content: str | bytes, most_bytes: int) -> str:
    if len(content) > most_bytes:
        raise TooMuchError(f"it has {len(content):,} bytes; the maximum is {most_bytes:,}")
    return content if isinstance(content, str) else content.decode("utf-8")


def _require(values: int, most_values: int, bare: str, deepest: int) -> None:
    depth = 0
    for run in _BRACKETS.findall(bare):
        depth += len(run) if run[0] in "[{" else -len(run)
        if depth > deepest:
            raise TooDeepError(f"it is nested over {deepest} deep")
    if values > most_values:
        raise TooMuchError(f"it has {values:,} values; the maximum is {most_values:,}")
    if too_long_a_number(bare):
        raise TooMuchError(f"a number has over {DIGITS_MOST} digits")


_PRINTED = re.compile(
    r"(?P<whole>\d{1,3}(?P<sign>[,_'\u2019\u00a0\u202f ])\d{3}(?:(?P=sign)\d{3})*|\d*)"
    r"(?P<rest>(?:\.\d*)?(?:e[+-]?\d{1,2})?)",
    re.IGNORECASE,
)
_PRINTED_CHARACTERS_MOST = 40


_COLORS = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")  # source: ECMA-48, control sequences


def as_seen(line: bytes) -> bytes:
    """Return a line without what colors it on a terminal: patterns are written after what one sees."""
    return _COLORS.sub(b"", line) if b"\x1b" in line else line


def number_said(text: str) -> float | None:
    """Return a number as people and progress bars print it, 39.00, 2e+3 or 1,000; None where it is not one.

    Beyond 2**53 nobody knows whether one more was meant.
    """
    text = text.strip()
    found = _PRINTED.fullmatch(text) if len(text) <= _PRINTED_CHARACTERS_MOST else None
    if found is None or not any(letter.isdigit() for letter in found["whole"] + found["rest"].partition("e")[0]):
        return None
    whole = found["whole"].replace(found["sign"], "") if found["sign"] else found["whole"]
    try:
        value = float(whole + found["rest"])
    except ValueError:
        return None
    return value if value <= 2**53 else None
