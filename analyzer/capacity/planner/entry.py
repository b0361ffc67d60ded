"""One table of a task file: its keys are known, its values have units, and what is wrong is named with its place."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches

from analyzer.capacity.planner.errors import TaskFileError
from analyzer.capacity.planner.units import size_bytes
from analyzer.settings.toml_entry import whole_micros
from analyzer.text.words import plain

_NAME_LETTERS_MOST = 200
_COUNT_MOST = 10**9


@dataclass(frozen=True, slots=True)
class TaskEntry:
    """A table, and where it stands: "the task file, task prep"."""

    where: str
    _values: Mapping[str, object]

    @classmethod
    def of(cls, where: str, said: object, known: Collection[str] | None) -> "TaskEntry":
        """Return a table whose keys are all known; with None its keys are names.

        Raises:
            TaskFileError: it is no table, or has another key.
        """
        if not isinstance(said, Mapping):
            hint = "keys and values" if known is None else f"keys and values: {', '.join(known)}"
            raise TaskFileError(f"{where} must be {hint}")
        for key in said:
            if known is None:
                _name(where, key)
            elif key not in known:
                near = get_close_matches(str(key), known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"it may have {', '.join(known)}"
                raise TaskFileError(f"{where}: unknown key {plain(str(key))!r}; {hint}")
        return cls(where, said)

    @property
    def keys_said(self) -> tuple[str, ...]:
        """Its keys, in the file's order."""
        return tuple(self._values)

    def has(self, key: str) -> bool:
        """Say whether the key was given."""
        return key in self._values

    def said(self, key: str) -> object:
        """Return a value as it was read.

        Raises:
            TaskFileError: it is missing.
        """
        if key not in self._values or self._values[key] is None:
            raise TaskFileError(f"{self.where}: {key} is missing")
        return self._values[key]

    def entry(self, key: str, known: Collection[str] | None) -> "TaskEntry":
        """Return the table of a key. Raises as of()."""
        return TaskEntry.of(f"{self.where}, {plain(key)}", self.said(key), known)

    def entries(self, key: str, known: Collection[str], most: int) -> Iterator[tuple[str, "TaskEntry"]]:
        """Yield the tables of a key by their names, in the file's order.

        Raises:
            TaskFileError: it is missing or no table of tables, or there are too many.
        """
        named = TaskEntry.of(f"{self.where}: {key}", self.said(key), None)
        if len(named.keys_said) > most:
            raise TaskFileError(f"{self.where} has {len(named.keys_said):,} {key}; plan at most {most:,} at once")
        for name in named.keys_said:
            yield name, TaskEntry.of(f"{self.where}, {key[:-1]} {name}", named.said(name), known)

    def name(self, key: str) -> str:
        """Return a name."""
        return _name(f"{self.where}: {key}", self.said(key))

    def names(self, key: str) -> tuple[str, ...]:
        """Return names: of a list, or one alone."""
        said = self.said(key)
        listed = said if isinstance(said, list) else [said]
        return tuple(_name(f"{self.where}: {key}", each) for each in listed)

    def one_of(self, key: str, words: Collection[str]) -> str:
        """Return one of a few words."""
        said = self.said(key)
        if said not in words or not isinstance(said, str):
            raise TaskFileError(f"{self.where}: {key} must be {' or '.join(words)}")
        return said

    def count(self, key: str) -> int:
        """Return a whole number, 0 or more."""
        said = self.said(key)
        if isinstance(said, bool) or not isinstance(said, int) or not 0 <= said <= _COUNT_MOST:
            raise TaskFileError(f"{self.where}: {key} must be a whole number, 0 or more")
        return said

    def size(self, key: str) -> int:
        """Return a size in bytes."""
        return size_bytes(f"{self.where}: {key}", self.said(key))

    def micros(self, key: str) -> int:
        """Return an amount of money in millionths."""
        said = self.said(key)
        try:
            amount = Decimal(str(said)) if isinstance(said, (int, float, str)) and not isinstance(said, bool) else None
        except InvalidOperation:
            amount = None
        micros = whole_micros(amount) if amount is not None and amount.is_finite() else None
        if micros is None:
            raise TaskFileError(f"{self.where}: {key} must be an amount such as 2.60, with at most six decimals")
        return micros


def _name(where: str, said: object) -> str:
    if not isinstance(said, str) or not 0 < len(said) <= _NAME_LETTERS_MOST or not said.isprintable():
        shown = plain(str(said))
        raise TaskFileError(
            f"{where}: {shown!r} must be a name of 1 to {_NAME_LETTERS_MOST} letters that can be printed; "
            "write a number in quotes"
        )
    return said
