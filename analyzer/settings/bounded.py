"""Read JSON, YAML and CSV that may come from anybody: YAML of safe types, CSV by rows that are bounded.

YAML has each key once, no anchors, no tags, and is bounded in depth and values. PyYAML by itself takes the last of two
equal keys, and a few lines of its aliases can stand for more than any memory holds. It is looked at as it is scanned:
of deep nesting PyYAML takes the square of its depth in time. libyaml scans ten times as fast as PyYAML's own scanner.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn, TextIO

import yaml

from agent.wire.bounded import DIGITS_MOST, json_said, too_long_a_number
from analyzer.errors import ConfigError

_VALUES_MOST = 60_000
_LETTERS_MOST = 4 * 2**20
_LINE = 250  # letters; what is quoted is folded beyond them, and a folded name is hard to read


def strict_json(content: str | bytes, most_bytes: int, parse_float: Callable[[str], Any] | None = None) -> Any:  # noqa: ANN401 - whatever JSON can say
    """Return what JSON says, each key once and every number finite.

    Raises:
        TooMuchError: it is beyond a bound.
        ValueError: it is no JSON, or no UTF-8; a key occurs twice, or a number is NaN or infinite.
    """
    return json_said(
        content,
        most_bytes=most_bytes,
        object_pairs_hook=_object,
        parse_float=parse_float,
        parse_constant=_no_number,
    )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a key occurs twice")
    return values


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a valid number")


def yaml_said(text: str, deepest: int) -> object:
    """Return what YAML says, of mappings and lists within each other at most so deep.

    Raises:
        ValueError: it is nested deeper, has anchors, tags or too many values, or says a key twice.
        yaml.YAMLError: it is no YAML.
    """
    if len(text) > _LETTERS_MOST:
        raise ValueError(f"it has {len(text):,} characters; the maximum is {_LETTERS_MOST:,}")
    if too_long_a_number(text):
        raise ValueError(f"a number has more than {DIGITS_MOST} digits")
    depth = values = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        values += isinstance(event, yaml.NodeEvent)
        if depth > deepest:
            raise ValueError(f"it is nested more than {deepest} levels deep")
        if values > _VALUES_MOST:
            raise ValueError(f"it has more than {_VALUES_MOST:,} values")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise ValueError("anchors and aliases are not supported; write each value out")
        if getattr(event, "tag", None) is not None:
            raise ValueError("leave the tag (!) out; what a value is follows from how it is written")
    return yaml.load(text, Loader=_Once)  # noqa: S506 - a CSafeLoader that refuses a key that is said twice


def respelled_yaml(text: str) -> str:
    """Return the same YAML without comments, and with every letter that cannot be seen written as an escape.

    It says what `yaml_said` reads, in the same order and no more: nothing stands in it for the eye alone. The text must
    have been read before.
    """
    node = yaml.compose(text, Loader=yaml.CSafeLoader)
    if node is None:
        return ""
    flat = text.replace("\n", "")
    return str(yaml.serialize(node, Dumper=yaml.SafeDumper, allow_unicode=flat.isprintable(), width=_LINE))


class _Once(yaml.CSafeLoader):
    """PyYAML's safe loader, which by itself would take the last of two equal keys, and 12:30:00 for 45,000."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:  # noqa: ANN401, ARG002 - as PyYAML has it
        if not all(isinstance(key, yaml.ScalarNode) for key, _ in node.value):
            raise ValueError("a key is one word or text")
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        if len({str(key) for key in keys}) < len(keys):
            raise ValueError("a key is given twice")
        return {key: self.construct_object(value, deep=True) for key, (_, value) in zip(keys, node.value, strict=True)}

    def construct_number(self, node: Any) -> object:  # noqa: ANN401 - as PyYAML has it
        """Return a number; what has colons is a time of somebody's clock, and stays as it is written."""
        if ":" in node.value:
            return node.value
        return self.construct_yaml_float(node) if node.tag.endswith("float") else self.construct_yaml_int(node)


for _kind in ("int", "float"):
    _Once.add_constructor(f"tag:yaml.org,2002:{_kind}", _Once.construct_number)


ROW_MOST = 1_000_000  # characters of a row, line breaks inside quotes included; rows of bills have some thousands


class BoundedLines:
    """Yields a file's lines as csv.reader wants them; whoever reads says with `next_row` that a row is complete."""

    def __init__(self, path: Path, file: TextIO, most: int = ROW_MOST) -> None:
        self._path = path
        self._file = file
        self._most = most
        self._number = 0
        self._taken = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        """Return the next line.

        Raises:
            ConfigError: the row that it belongs to is longer than may be.
        """
        line = self._file.readline(self._most - self._taken + 1)
        if not line:
            raise StopIteration
        self._number += 1
        self._taken += len(line)
        if self._taken > self._most:
            raise ConfigError(
                f"{self._path}, line {self._number}: a row of more than {self._most:,} characters; is it CSV, with a "
                "line a row?"
            )
        return line

    def next_row(self) -> None:
        """Begin to count anew: the row was read whole."""
        self._taken = 0
