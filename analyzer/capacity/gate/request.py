"""A request for more GPUs: what is asked, checked key by key, so that no figure in it can be absurd."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from pathlib import Path

import yaml

from agent.wire.bounded import TooDeepError, toml_said
from agent.wire.units import PERMILLE
from analyzer.errors import ConfigError
from analyzer.settings.bounded import strict_json, yaml_said
from analyzer.settings.toml_entry import TomlEntry
from analyzer.settings.toml_model import Read, keys_of, read_row, toml_key

GPUS_MOST = 100_000  # more than any site that is known to have bought at once; a slip of the finger, not a wish
HOURS_A_WEEK = 168
HOURS_MOST = 5 * 52 * HOURS_A_WEEK  # five years: longer than GPUs are written off
DAYS_MOST = HOURS_MOST // 24  # nobody plans further ahead either
GROWTH_MOST = 1000
NAME_MOST, WHY_MOST, WORK_MOST, KINDS_MOST = 120, 500, 50, 16


def _text(most: int) -> Read:
    """Return what reads a text of so many characters at most, on one line."""
    return lambda entry, key: _checked_text(entry, key, entry.value(key), most)


def _checked_text(entry: TomlEntry, key: str, value: object, most: int) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{entry.where}: {key!r} must be text, not {_shown(value)}")
    if len(value) > most:
        raise ConfigError(f"{entry.where}: {key!r} must have no more than {most} characters, and has {len(value):,}")
    if not all(character.isprintable() for character in value):
        raise ConfigError(f"{entry.where}: {key!r} contains a character that cannot be printed; write it on one line")
    return " ".join(value.split())


def _names(entry: TomlEntry, key: str) -> tuple[str, ...]:
    if not entry.has(key):
        raise ConfigError(
            f"{entry.where}: {key!r} is missing: the name of the runs that more GPUs are for, or a list of runs"
        )
    value = entry.value(key)
    listed = value if isinstance(value, list) else [value]
    if not 1 <= len(listed) <= WORK_MOST:
        raise ConfigError(f"{entry.where}: {key!r} names 1 to {WORK_MOST} runs, not {len(listed)}")
    return tuple(_checked_text(entry, key, each, NAME_MOST) for each in listed)


def _gpus(entry: TomlEntry, key: str) -> int:
    value = entry.value(key)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= GPUS_MOST:
        raise ConfigError(f"{entry.where}: {key!r} must be a whole number from 1 to {GPUS_MOST:,}, not {_shown(value)}")
    return value


def _hours(entry: TomlEntry, _: str) -> int:
    given = [key for key in ("weeks", "hours", "gpu_hours") if entry.has(key)]
    if len(given) != 1:
        raise ConfigError(f"{entry.where}: set either 'weeks' or 'hours' (or 'gpu_hours': those of all GPUs together)")
    (key,) = given
    hours = _number(entry, key)
    if key == "weeks":
        hours *= HOURS_A_WEEK
    elif key == "gpu_hours":
        hours /= _gpus(entry, "gpus")
    if not 1 <= hours <= HOURS_MOST or hours != hours.to_integral_value():
        raise ConfigError(
            f"{entry.where}: {key!r} must come to a whole number of hours, from 1 hour to "
            f"{HOURS_MOST // HOURS_A_WEEK} weeks, not {_shown(entry.value(key))}"
        )
    return int(hours)


def _growth(entry: TomlEntry, key: str) -> int:
    permille = _number(entry, key) * PERMILLE
    if not 1 <= permille <= GROWTH_MOST * PERMILLE or permille != permille.to_integral_value():
        raise ConfigError(
            f"{entry.where}: {key!r} is how many times today's work it is for, over 0 and up to {GROWTH_MOST:,}, "
            f"with no more than three decimals, not {_shown(entry.value(key))}"
        )
    return int(permille)


def _number(entry: TomlEntry, key: str) -> Decimal:
    """Return a number exactly as it was written; YAML alone gives floats, whose shortest form is what was written."""
    value = entry.value(key)
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise ConfigError(f"{entry.where}: {key!r} must be a number, not {_shown(value)}")
    try:
        number = Decimal(str(value))
    except (InvalidOperation, ValueError) as error:  # an integer of more digits than Python prints
        raise ConfigError(f"{entry.where}: {key!r} is too large a number") from error
    if not number.is_finite() or abs(number) > HOURS_MOST * (GPUS_MOST if key == "gpu_hours" else 1):
        raise ConfigError(f"{entry.where}: {key!r} must be a plausible number, not {_shown(value)}")
    return number


def _day(entry: TomlEntry, key: str) -> str:
    if not entry.has(key):
        raise ConfigError(f"{entry.where}: {key!r} is missing: the first day, such as 2026-12-01")
    value = entry.value(key)
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    try:
        if isinstance(value, str) and len(value) == len("2026-12-01"):
            return date.fromisoformat(value).isoformat()
    except ValueError:
        pass
    raise ConfigError(f"{entry.where}: {key!r} must be a date such as 2026-12-01, not {_shown(value)}")


_NAME = toml_key(read=_text(NAME_MOST))


@dataclass(frozen=True, slots=True)
class Request:
    """What a team asks for, and by which keys of a file. None of an optional key is: nobody said so.

    `growth_permille` is how many times today's work it is for (3000: three times); `gpus_per_run` the size of a run.
    """

    team: str = field(metadata=_NAME)
    gpus: int = field(metadata=toml_key(read=_gpus))
    sku: str = field(metadata=_NAME)
    hours: int = field(metadata=toml_key("weeks", "hours", "gpu_hours", read=_hours))
    starts: str = field(metadata=toml_key(read=_day))  # ISO date
    why: str = field(metadata=toml_key(read=_text(WHY_MOST)))
    work: tuple[str, ...] = field(metadata=toml_key(read=_names))
    growth_permille: int | None = field(default=None, metadata=toml_key("growth", read=_growth))
    gpus_per_run: int | None = field(default=None, metadata=toml_key(read=_gpus))
    today_gpus: int | None = field(default=None, metadata=toml_key(read=_gpus))
    purchase_option: str | None = field(default=None, metadata=_NAME)
    needed_for: str | None = field(default=None, metadata=_NAME)
    pilot: bool = False

    @property
    def gpu_hours(self) -> int:
        """GPUs times hours."""
        return self.gpus * self.hours


def request_of(where: str, values: Mapping[str, object]) -> Request:
    """Return the request that parsed TOML, JSON or YAML says; `where` names it in messages.

    Raises:
        ConfigError: keys are unknown or missing, or values are none that a request can have; it tells all of them.
    """
    known = keys_of(Request)
    given = {key: value for key, value in values.items() if value is not None or key not in known}
    return read_row(TomlEntry(where, given), Request)


def _shown(value: object) -> str:
    """Return a value as it was written in a file: short, and without the bytes that rewrite a terminal."""
    try:
        text = _written(value)
    except ValueError:
        text = "a number with thousands of digits"
    return text if len(text) <= 60 else f"{text[:57]}..."


def _written(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a table of keys"
    if isinstance(value, list):
        return f"a list of {len(value):,}" if value else "an empty list"
    if isinstance(value, Decimal):
        return str(value).lower().replace("infinity", "inf")
    if isinstance(value, date | time):  # a date with its time is a date too
        return value.isoformat()
    return repr(value)


FILE_BYTES = 64 * 1024  # a request is a page; what is larger is something else
_DEEPEST = 3
_ENDINGS = ".toml, .json, .yaml or .yml"


def by_kind(where: str, values: Mapping[str, object]) -> list[Mapping[str, object]]:
    """Return what a file asks for, one request a kind: `gpus` may be a table of kinds, { H100-80GB = 16, L4-24GB = 8 }.

    GPU-hours are those of all kinds together, which are had for the same time.

    Raises:
        ConfigError: the table is empty or too long, or 'sku' says a kind beside it, or several.
    """
    kinds = values.get("gpus")
    if isinstance(values.get("sku"), list):
        raise ConfigError(
            f"{where}: several kinds are asked for as gpus = {{ H100-80GB = 16, L4-24GB = 8 }}, without 'sku'"
        )
    if not isinstance(kinds, Mapping):
        return [values]
    if not 1 <= len(kinds) <= KINDS_MOST:
        raise ConfigError(f"{where}: 'gpus' names 1 to {KINDS_MOST} kinds, not {len(kinds)}")
    if values.get("sku") is not None:
        raise ConfigError(f"{where}: 'gpus' names the kinds already; leave 'sku' out")
    entry = TomlEntry(where, kinds)
    counts = {str(sku): _gpus(entry, str(sku)) for sku in kinds}
    rest = dict(values)
    if "gpu_hours" in rest:
        hours = _hours(
            TomlEntry(where, {"gpu_hours": rest.pop("gpu_hours"), "gpus": sum(counts.values())}), "gpu_hours"
        )
        rest["hours"] = hours
    return [{**rest, "sku": sku, "gpus": gpus} for sku, gpus in counts.items()]


def read_requests(path: Path) -> list[tuple[Request, Mapping[str, object]]]:
    """Return the requests of a file, one a kind of GPU, each with what says it.

    Raises:
        ConfigError: the file cannot be read, is too large or none of the three, or says what no request can.
    """
    return [(request_of(path.name, one), one) for one in by_kind(path.name, parsed_file(path))]


def parsed_file(path: Path) -> Mapping[str, object]:
    """Return what a request's file says, before its keys are looked at.

    Raises:
        ConfigError: the file cannot be read, is too large or none of the three.
    """
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}; name another file or fix its permissions") from error
    if len(content) > FILE_BYTES:
        raise ConfigError(f"{path} is larger than {FILE_BYTES:,} bytes, the maximum for a request")
    return _parsed(path, content)


def _parsed(path: Path, content: bytes) -> Mapping[str, object]:
    readers = {".toml": _toml, ".json": _json, ".yaml": _yaml, ".yml": _yaml}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise ConfigError(f"{path.name}: a request is a file that ends in {_ENDINGS}")
    try:
        said = reader(content.decode("utf-8"))
    except TooDeepError as error:
        raise ConfigError(f"{path.name} is nested too deeply to be read") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path.name} is not UTF-8") from error
    except (ValueError, yaml.YAMLError) as error:
        why = " ".join(str(error).split())
        raise ConfigError(f"{path.name} cannot be read as {path.suffix[1:].upper()}: {why[:200]}") from error
    if not isinstance(said, dict):
        raise ConfigError(f"{path.name}: a request is a list of keys with their values, as in gpus = 32")
    return said


def _toml(text: str) -> object:
    return toml_said(text, parse_float=Decimal)


def _json(text: str) -> object:
    return strict_json(text, FILE_BYTES, Decimal)


def _yaml(text: str) -> object:
    return yaml_said(text, _DEEPEST)
