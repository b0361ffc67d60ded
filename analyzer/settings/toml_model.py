"""A table of a TOML file is a frozen dataclass: each field says its key, how its value is read, and what it is for.

    @dataclass(frozen=True, slots=True)
    class Charge:
        team: str
        sku: str | None
        micros_per_gpu_hour: int = field(metadata=toml_key("{money}_per_gpu_hour", read=TomlEntry.micros))
        starts_at: int = field(metadata=toml_key("from", read=TomlEntry.hour))

What fields must be to one another is raised as ValueError by `__post_init__`. Who reads a file gathers its mistakes,
so that all are told at once. Not by pydantic: it takes a tenth of a second to load, and every command reads settings.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from analyzer.errors import ConfigError
from analyzer.settings.toml_entry import AND, MISTAKES_MOST, TomlEntry, read_toml

Model = TypeVar("Model")
Read = Callable[[TomlEntry, str], Any]  # given the entry and the first of the field's keys
_BY_TYPE: Mapping[Any, Read] = {
    str: TomlEntry.text,
    str | None: TomlEntry.text_or_none,
    int: TomlEntry.count,
    bool: TomlEntry.flag,
    date: TomlEntry.day,
    Path | None: lambda entry, name: Path(entry.text(name)),
    tuple[str, ...]: TomlEntry.text_list,
    Mapping[str, str]: TomlEntry.texts,
}


class Mistakes:
    """Gathers what is wrong with a file; of more than a page of mistakes the first are told."""

    def __init__(self) -> None:
        self._sentences: list[str] = []

    @contextmanager
    def gathered(self, entry: TomlEntry | None = None) -> Iterator[None]:
        """Keep what is raised meanwhile: a ConfigError as it is, a ValueError as of this entry."""
        try:
            yield
        except (ConfigError, ValueError) as error:
            is_told = isinstance(error, ConfigError)
            if len(self._sentences) >= MISTAKES_MOST or (entry is None and not is_told):
                raise
            self._sentences.append(str(error) if entry is None or is_told else f"{entry.where}: {error}")
            if len(self._sentences) == MISTAKES_MOST:
                raise ConfigError(AND.join([*dict.fromkeys(self._sentences), "there may be more"])) from error

    def refuse(self) -> None:
        """Do nothing where there is no mistake.

        Raises:
            ConfigError: there are some; it tells all of them.
        """
        if self._sentences:
            raise ConfigError(AND.join(dict.fromkeys(self._sentences)))


def toml_key(*names: str, read: Read | None = None, help: str = "") -> dict[str, Any]:  # noqa: A002 - what is shown
    """Return a field's metadata: it is read of these keys, or of its own name, by `read` or else by its type."""
    return {"names": names, "read": read, "help": help}


def since() -> dict[str, Any]:
    """Return the metadata of a row's begin, in microseconds: the key `from`."""
    return toml_key("from", read=TomlEntry.hour)


def until() -> dict[str, Any]:
    """Return the metadata of its end, exclusive, None for good: the key `until`."""
    return toml_key("until", read=TomlEntry.end)


def fixed(value: object) -> dict[str, Any]:
    """Return the metadata of a field that no key says: it is this."""
    return {"names": (), "fixed": value}


def about(help: str) -> dict[str, Any]:  # noqa: A002 - what is shown
    """Return the metadata of a setting: what it is for."""
    return {"help": help}


def keys_of(model: type[Any], money: str = "") -> list[str]:
    """Return the keys of a table; `money` is the currency as keys begin that have {money} in their names: usd."""
    found: list[str] = []
    for own in fields(model):
        found += keys_of(_type(own), money) if _is_nested(own) else _names(own, money)
    return list(dict.fromkeys(found))


def read_rows(
    file: TomlEntry,
    table: str,
    model: type[Model],
    mistakes: Mistakes,
    money: str = "",
    given: Mapping[str, object] | None = None,
) -> tuple[Model, ...]:
    """Return the entries of [[table]] that are right, in the file's order; what is wrong is gathered.

    `given` are values of fields that the file says once, and no row by itself.
    """
    found: list[Model] = []
    with mistakes.gathered():
        for entry in file.rows(table):
            with mistakes.gathered(entry):
                found.append(read_row(entry, model, money, given=given))
    return tuple(found)


def read_row(
    entry: TomlEntry,
    model: type[Model],
    money: str = "",
    others: Sequence[str] = (),
    given: Mapping[str, object] | None = None,
) -> Model:
    """Return one entry; `others` are keys that it may have beside those of the model, `given` as for read_rows().

    Raises:
        ConfigError: a key is unknown, or values are missing or wrong; it tells all of them.
        ValueError: they contradict one another.
    """
    mistakes, values = Mistakes(), dict(given or {})
    with mistakes.gathered():
        entry.refuse_unknown([*(name for name in keys_of(model, money) if name not in values), *others])
    return _made(entry, model, money, mistakes, values)


def _made(
    entry: TomlEntry, model: type[Model], money: str, mistakes: Mistakes, values: dict[str, Any] | None = None
) -> Model:
    values = values or {}
    for own in fields(model):  # type: ignore[arg-type]  # a dataclass
        names = _names(own, money)
        with mistakes.gathered(entry):
            if own.name in values:
                continue
            if _is_nested(own):
                values[own.name] = _made(entry, _type(own), money, Mistakes())
            elif "fixed" in own.metadata:
                values[own.name] = own.metadata["fixed"]
            elif own.default is MISSING or any(map(entry.has, names)):
                values[own.name] = _reader(own)(entry, names[0])
    mistakes.refuse()
    return model(**values)


def _is_nested(own: Field[Any]) -> bool:
    """Return whether a field is a dataclass whose own fields are keys of the same table."""
    return is_dataclass(own.type) and "names" not in own.metadata


def _type(own: Field[Any]) -> Any:  # noqa: ANN401 - whatever a field is of
    return own.type


def _names(own: Field[Any], money: str = "") -> list[str]:
    if "fixed" in own.metadata:
        return []
    return [name.replace("{money}", money) for name in own.metadata.get("names") or (own.name,)]


def _reader(own: Field[Any]) -> Read:
    found: Read = own.metadata.get("read") or _BY_TYPE[own.type]
    return found


def one_of(words: Collection[str]) -> Read:
    """Return what reads one of a few words."""

    def read(entry: TomlEntry, name: str) -> str:
        word = entry.text(name)
        if word not in words:
            raise ConfigError(f"{entry.where}: {name!r} must be one of {', '.join(words)}, not {word!r}")
        return word

    return read


def between(least: int, most: int) -> Read:
    """Return what reads a whole number within bounds."""

    def read(entry: TomlEntry, name: str) -> int:
        number = entry.count(name)
        if not least <= number <= most:
            raise ConfigError(f"{entry.where}: {name!r} must be {least} to {most:,}, not {number}")
        return number

    return read


def optional(read: Read, otherwise: object = None) -> Read:
    """Return what reads the same, or has another value where it is left out."""
    return lambda entry, name: read(entry, name) if entry.has(name) else otherwise


@contextmanager
def toml_file(path: Path, known: Collection[str]) -> Iterator[tuple[TomlEntry, Mistakes]]:
    """Yield the top level of a file, and what gathers its mistakes; at the end all of them are told.

    Raises:
        ConfigError: the file cannot be read, or something in it is wrong.
    """
    mistakes = Mistakes()
    yield read_toml(path, known), mistakes
    mistakes.refuse()


class SettingsTable:
    """A table of the settings file: a frozen dataclass whose fields are its keys, each with its default and its help.

    `moved` are keys that the table once had, with what has taken their place.
    """

    __slots__ = ()
    table: ClassVar[str]
    moved: ClassVar[Mapping[str, str] | None] = None

    @classmethod
    def read(cls, path: Path | None, tables: Collection[str], environ: Mapping[str, str] | None = None) -> Self:
        """Return it as the file has it, with variables GPULEDGER_TABLE_KEY over it; paths start at the file.

        `tables` are all that a settings file may have; None is no file.

        Raises:
            ConfigError: a table or key is unknown or has moved, a value is wrong, or the file cannot be read.
        """
        return settings_table(cls, cls.table, settings_content(path, tables), path, environ, moved=cls.moved)


def settings_content(path: Path | None, tables: Collection[str]) -> TomlEntry:
    """Return the top level of a settings file, of no more than these tables; of no file it is empty."""
    return TomlEntry("the settings", {}) if path is None else read_toml(path, tables)


def settings_table(
    model: type[Model],
    table: str,
    content: TomlEntry,
    path: Path | None,
    environ: Mapping[str, str] | None = None,
    others: Sequence[str] = (),
    moved: Mapping[str, str] | None = None,
) -> Model:
    """Return a table as `read_settings` does, of a file that is read already; `others` may be keys of it too."""
    gone, prefix, mistakes = moved or {}, f"GPULEDGER_{table.upper()}_", Mistakes()
    own = {each.name: each for each in fields(model) if not _is_nested(each)}  # type: ignore[arg-type]  # a dataclass
    known = [*own, *others, *gone]
    entry = content.table(table, known)
    texts = _of_environment(os.environ if environ is None else environ, prefix, known)
    for name, place in gone.items():
        if entry.has(name) or name in texts:
            raise ConfigError(f"[{table}] {name} is no longer a setting: use {place}")
    given: dict[str, Any] = {}
    for name, each in own.items():
        with mistakes.gathered(entry):
            if entry.has(name):
                value = _reader(each)(entry, name)
                given[name] = path.parent / value if path is not None and isinstance(value, Path) else value
        with mistakes.gathered(entry):
            if name in texts:
                given[name] = _of_text(each.type, prefix + name.upper(), texts[name])
    mistakes.refuse()
    return model(**given)


def _of_environment(environ: Mapping[str, str], prefix: str, known: Sequence[str]) -> dict[str, str]:
    """Return the texts of all variables that begin with a prefix, by the key that each sets."""
    given = {}
    mistakes = Mistakes()
    for variable in sorted(name for name in environ if name.startswith(prefix)):
        name = variable.removeprefix(prefix).lower()
        with mistakes.gathered():
            if name not in known:
                raise ConfigError(f"{variable} is not a setting; {_nearest(name, prefix, known)}")
            given[name] = environ[variable]
    mistakes.refuse()
    return given


def _nearest(name: str, prefix: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    return ("the nearest is " if close else "known are ") + ", ".join(prefix + each.upper() for each in close or known)


def _of_text(kind: Any, variable: str, text: str) -> Any:  # noqa: ANN401 - the type of a field, and its value
    """Return a variable's text as a field of this type has it."""
    if kind is int:
        if not text.isdecimal():
            raise ConfigError(f"{variable} must be a whole number, not {text!r}")
        return int(text)
    if kind is bool:
        if text not in ("true", "false"):
            raise ConfigError(f"{variable} must be true or false, not {text!r}")
        return text == "true"
    parts = tuple(part.strip() for part in text.split(",") if part.strip())
    if kind == tuple[str, ...]:
        return parts
    if kind == Mapping[str, str]:
        pairs = [part.partition("=") for part in parts]
        if any(not name or not value for name, _, value in pairs):
            raise ConfigError(f"{variable} is {text!r}: write name=value, with commas between")
        return {name.strip(): value.strip() for name, _, value in pairs}
    return Path(text) if kind == Path | None else text


def secret_text(table: str, name: str, path: Path) -> str:
    """Return what the file of a secret holds, as it is now.

    Raises:
        ConfigError: it cannot be read; what it holds is never told.
    """
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigError(f"cannot read [{table}] {name} {path}: {why}") from error
