"""Read entries of a TOML file strictly: unknown keys are refused with the nearest known one, every value is checked.

Rows that are declared as dataclasses are read by toml_model.py, which tells all mistakes of a file at once.
"""

import json
import re
from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from pathlib import Path

from agent.wire.bounded import TOML_BYTES_MOST, TooDeepError, TooMuchError, read_bounded, toml_said
from analyzer.errors import ConfigError

MISTAKES_MOST = 20  # that are told of one file or row: who has mended these reads on
AND = ";\n"  # between the mistakes of one file
_MOST = 10**12  # a trillion: sums of more would not fit the ledger's integers
_KEY_LETTERS = 120  # of one that is not known: the nearest of a long one would take seconds to find
_DIGITS_MOST = 40  # behind the point: 1e-999999999 is no price, and its fraction would fill the memory


def read_toml(path: Path, known: Collection[str]) -> "TomlEntry":
    """Return the file's top level; numbers are exact decimals, never binary floats.

    Raises:
        ConfigError: the file cannot be read, is no TOML, or has a key that is not known.
    """
    try:
        content = read_bounded(path, TOML_BYTES_MOST)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}; name another file or fix its permissions") from error
    return toml_of(str(path), content, known)


def toml_of(where: str, content: bytes, known: Collection[str]) -> "TomlEntry":
    """Return the top level of a file's content; `where` names it in messages.

    Raises:
        ConfigError: it is no TOML, or has a key that is not known.
    """
    try:
        values = toml_said(content, parse_float=Decimal)
    except TooDeepError as error:
        raise ConfigError(f"{where} is nested too deeply to be read: {error}") from error
    except TooMuchError as error:
        raise ConfigError(f"{where} is not valid TOML: {error}") from error
    except ValueError as error:  # not TOML, or not UTF-8
        raise ConfigError(f"{where} is not valid TOML: {error}") from error
    entry = TomlEntry(where, values)
    entry.refuse_unknown(known)
    return entry


class TomlEntry:
    """One table of a TOML file. `where` names it in messages: "prices.toml, price 3"."""

    def __init__(self, where: str, values: Mapping[str, object]) -> None:
        self.where = where
        self._values = values

    def refuse_unknown(self, known: Collection[str]) -> None:
        """Do nothing where all keys are known.

        Raises:
            ConfigError: some are not; the sentence names each of them with the nearest that is.
        """
        if wrong := [str(key)[:_KEY_LETTERS] for key in self._values if key not in known]:
            told = wrong[:MISTAKES_MOST]
            raise ConfigError(AND.join(f"{self.where}: unknown key {key!r}; {key_hint(key, known)}" for key in told))

    def rows(self, key: str) -> "list[TomlEntry]":
        """Return the entries of [[key]], in the file's order, whatever keys they have; empty where there are none."""
        values = self._values.get(key, [])
        if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
            raise ConfigError(f"{self.where}: {key!r} must be written as [[{key}]]")
        return [TomlEntry(f"{self.where}, {key} {number}", value) for number, value in enumerate(values, 1)]

    def entries(self, key: str, known: Collection[str]) -> "list[TomlEntry]":
        """Return the entries of [[key]], in the file's order; empty where there are none. Their keys must be known."""
        found = self.rows(key)
        for entry in found:
            entry.refuse_unknown(known)
        return found

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that were given, in the file's order."""
        return tuple(self._values)

    def has(self, key: str) -> bool:
        """Say whether the key was given."""
        return key in self._values

    def value(self, key: str) -> object:
        """Return a value as it was read.

        Raises:
            ConfigError: it is missing.
        """
        if key not in self._values:
            raise ConfigError(f"{self.where}: {key!r} is missing")
        return self._values[key]

    def table(self, key: str, known: Collection[str]) -> "TomlEntry":
        """Return the table [key], empty where it is left out."""
        value = self._values.get(key, {})
        if not isinstance(value, dict):
            raise ConfigError(f"{self.where}: {key!r} must be written as [{key}]")
        entry = TomlEntry(f"{self.where}, [{key}]", value)
        entry.refuse_unknown(known)
        return entry

    def count(self, key: str) -> int:
        """Return a whole number that must be there, 0 or more."""
        value = self._values.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ConfigError(f"{self.where}: {key!r} must be a whole number{_not(value)}")
        return value

    def flag(self, key: str) -> bool:
        """Return true or false; it must be there."""
        value = self._values.get(key)
        if not isinstance(value, bool):
            raise ConfigError(f"{self.where}: {key!r} must be true or false{_not(value)}")
        return value

    def text(self, key: str) -> str:
        """Return a text that must be there."""
        value = self.text_or_none(key)
        if value is None:
            raise ConfigError(f"{self.where}: {key!r} is missing")
        return value

    def text_or_none(self, key: str) -> str | None:
        """Return a text that may be left out."""
        value = self._values.get(key)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise ConfigError(f"{self.where}: {key!r} must be a text in quotes{_not(value)}")
        return value

    def text_list(self, key: str) -> tuple[str, ...]:
        """Return a list of texts, empty where it is left out."""
        value = self._values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
            raise ConfigError(f'{self.where}: {key!r} must be a list of texts, such as ["one", "two"]')
        return tuple(value)

    def texts(self, key: str) -> dict[str, str]:
        """Return a table of texts, empty where it is left out."""
        value = self._values.get(key, {})
        if not isinstance(value, dict) or not all(isinstance(item, str) and item for item in value.values()):
            raise ConfigError(f'{self.where}: {key!r} must be a table of texts, as in {{ team = "nlp*" }}')
        return value

    def micros(self, key: str) -> int:
        """Return an amount of money in millionths; at most six decimals, not negative."""
        value = self._values.get(key)
        if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
            raise ConfigError(f"{self.where}: {key!r} must be a number such as 2.60{_not(value)}")
        if isinstance(value, Decimal) and not value.is_finite():
            raise ConfigError(f"{self.where}: {key!r} must be 0 or more, with at most six decimals{_not(value)}")
        if value > _MOST:
            told = f"{Decimal(value):.3g}"
            raise ConfigError(f"{self.where}: {key!r} is {told}: more than a trillion; is it per month, per hour?")
        if (micros := whole_micros(value)) is None:
            raise ConfigError(f"{self.where}: {key!r} must be 0 or more, with at most six decimals{_not(value)}")
        return micros

    def micros_or_none(self, key: str) -> int | None:
        """Return an amount of money in millionths, or None where it is left out."""
        return self.micros(key) if self.has(key) else None

    def day(self, key: str) -> date:
        """Return a date that must be there."""
        value = self._values.get(key)
        if not isinstance(value, date) or isinstance(value, datetime):
            raise ConfigError(f"{self.where}: {key!r} must be a date without quotes, such as 2026-11-01{_not(value)}")
        return value

    def hour(self, key: str) -> int:
        """Return the microsecond at which something takes effect: it must be there."""
        value = self.hour_or_none(key)
        if value is None:
            raise ConfigError(f"{self.where}: {key!r} is missing")
        return value

    def hour_or_none(self, key: str) -> int | None:
        """Return the microsecond of a whole UTC hour, or None where it is left out; a bare date is its UTC midnight.

        The ledger's rows are UTC hours, so what takes effect within one could not be booked exactly.
        """
        value = self._values.get(key)
        if value is None:
            return None
        moment = value if isinstance(value, datetime) else _midnight(value)
        if moment is None or moment.tzinfo is None:
            raise ConfigError(
                f"{self.where}: {key!r} must be a date or a time with its offset, "
                f"such as 2026-11-01 or 2026-11-01T00:00:00+01:00{_not(value)}"
            )
        try:
            moment = moment.astimezone(UTC)
        except OverflowError as error:
            raise ConfigError(f"{self.where}: {key!r} must lie between the years 1 and 9999{_not(value)}") from error
        if moment.minute or moment.second or moment.microsecond:
            raise ConfigError(f"{self.where}: {key!r} must be a whole hour in UTC, not {moment.isoformat()}")
        return int(moment.timestamp()) * 1_000_000

    def end(self, key: str) -> int | None:
        """Return the microsecond at which something ends that takes effect at `from`, exclusive; None: for good."""
        ends_at = self.hour_or_none(key)
        if ends_at is not None and ends_at <= self.hour("from"):
            raise ConfigError(f"{self.where}: {key!r} must be later than 'from'")
        return ends_at

    def period(self) -> tuple[int, int | None]:
        """Return `from` and `until` (None: for good), in microseconds; `until` is exclusive and later."""
        return self.hour("from"), self.end("until")


# Words of a key that say what is counted, and in which unit: by a key of another one a number means something else.
_COUNTED = re.compile(
    r"(?<![a-z])(v?cpu|core|gpu|tpu|node|host|rack|run|token|second|minute|hour|day|week|month|year|byte|[kmgt]i?b|watt|joule"
    r"|ratio|percent|permille|usd|eur|gbp|micros|dollar)s?(?![a-z])"
)


def key_hint(key: str, known: Collection[str]) -> str:
    """Return the known key that is meant, never one that counts something else: no "gpus" for "vcpus"."""
    counted = {*_COUNTED.findall(key.lower())}
    near = get_close_matches(key, known, n=3)
    same = [one for one in near if not counted or counted == {*_COUNTED.findall(one.lower())}]
    return f"did you mean {same[0]!r}?" if same else f"it may have {', '.join(sorted(known))}"


def _not(value: object) -> str:
    """Return the end of a sentence that says what a value must be."""
    return "; it is missing" if value is None else f", not {toml_value(value)}"


def toml_value(value: object) -> str:
    """Return a value as the file has it: 6.5, true, "a text", 2026-11-01, a list, a table; no word of Python's."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {toml_value(each)}' for key, each in value.items())} }}" if value else "{}"
    return str(value)


def written_decimal(text: str) -> Decimal:
    """Return a decimal as others write it: Python alone reads 4_99.20 as a number.

    Raises:
        InvalidOperation: it is none.
    """
    return Decimal("" if "_" in text else text)


def exact(value: int | Decimal) -> Fraction | None:
    """Return a number from 0 to a trillion as it is, or None where it is another.

    Decimal's own arithmetic keeps 28 digits and would round the rest away unseen.
    """
    if isinstance(value, int):
        return Fraction(value) if 0 <= value <= _MOST else None
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or exponent < -_DIGITS_MOST or not 0 <= value <= _MOST:
        return None
    return Fraction(value)


def whole_micros(value: int | Decimal) -> int | None:
    """Return a number from 0 to a trillion in millionths, or None where it is another or has more than six decimals."""
    found = exact(value)
    micros = None if found is None else found * 1_000_000
    return None if micros is None or micros.denominator != 1 else int(micros)


def _midnight(value: object) -> datetime | None:
    return datetime(value.year, value.month, value.day, tzinfo=UTC) if isinstance(value, date) else None
