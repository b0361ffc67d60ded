"""A request for more GPUs: what is asked, checked key by key, so that no figure in it can be absurd."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from pathlib import Path

import yaml

from agent.wire.bounded import TooDeepError, json_said, toml_said
from agent.wire.units import PERMILLE
from analyzer.errors import ConfigError
from analyzer.settings.yaml_text import yaml_said

GPUS_MOST = 100_000  # more than any site that is known to have bought at once; a slip of the finger, not a wish
HOURS_A_WEEK = 168
HOURS_MOST = 5 * 52 * HOURS_A_WEEK  # five years: longer than GPUs are written off
DAYS_MOST = HOURS_MOST // 24  # nobody plans further ahead either
GROWTH_MOST = 1000
NAME_MOST, WHY_MOST, WORK_MOST = 120, 500, 50
KEYS = (
    "team", "gpus", "sku", "weeks", "hours", "starts", "why", "work", "growth", "gpus_per_run", "today_gpus",
    "purchase_option", "needed_for", "pilot",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Request:
    """What a team asks for. None of an optional key is: nobody said so.

    `growth_permille` is how many times today's work it is for (3000: three times); `gpus_per_run` the size of a run.
    """

    team: str
    gpus: int
    sku: str
    hours: int
    starts: str  # ISO date
    why: str
    work: tuple[str, ...]
    growth_permille: int | None = None
    gpus_per_run: int | None = None
    today_gpus: int | None = None
    purchase_option: str | None = None
    needed_for: str | None = None
    pilot: bool = False

    @property
    def gpu_hours(self) -> int:
        """GPUs times hours."""
        return self.gpus * self.hours


def request_of(where: str, said: Mapping[str, object]) -> Request:
    """Return the request that parsed TOML, JSON or YAML says; `where` names it in messages.

    Raises:
        ConfigError: a key is unknown or missing, or a value is none that a request can have.
    """
    _known(where, said, KEYS)
    return Request(
        team=_text(where, said, "team", NAME_MOST),
        gpus=_count(where, said, "gpus", GPUS_MOST),
        sku=_text(where, said, "sku", NAME_MOST),
        hours=_hours(where, said),
        starts=_day(where, said),
        why=_text(where, said, "why", WHY_MOST),
        work=_names(where, said),
        growth_permille=_growth(where, said),
        gpus_per_run=_count(where, said, "gpus_per_run", GPUS_MOST) if "gpus_per_run" in said else None,
        today_gpus=_count(where, said, "today_gpus", GPUS_MOST) if "today_gpus" in said else None,
        purchase_option=_optional(where, said, "purchase_option"),
        needed_for=_optional(where, said, "needed_for"),
        pilot=_pilot(where, said),
    )


def _known(where: str, said: Mapping[str, object], known: Collection[str]) -> None:
    for key in said:
        if key not in known:
            near = get_close_matches(str(key)[:NAME_MOST], known, n=1)  # a long one would take seconds
            hint = f"did you mean {near[0]!r}?" if near else f"it may have {', '.join(known)}"
            raise ConfigError(f"{where}: unknown key {str(key)[:NAME_MOST]!r}; {hint}")


def _text(where: str, said: Mapping[str, object], key: str, most: int) -> str:
    value = said.get(key)
    if value is None:
        raise ConfigError(f"{where}: {key!r} is missing")
    return _checked_text(where, key, value, most)


def _optional(where: str, said: Mapping[str, object], key: str) -> str | None:
    value = said.get(key)
    return None if value is None else _checked_text(where, key, value, NAME_MOST)


def _checked_text(where: str, key: str, value: object, most: int) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{where}: {key!r} must be a text, not {_shown(value)}")
    if len(value) > most:
        raise ConfigError(f"{where}: {key!r} has at most {most} characters, this has {len(value):,}")
    if not all(character.isprintable() for character in value):
        raise ConfigError(f"{where}: {key!r} has a character that cannot be printed; write it on one line")
    return " ".join(value.split())


def _names(where: str, said: Mapping[str, object]) -> tuple[str, ...]:
    value = said.get("work")
    if value is None:
        raise ConfigError(f"{where}: 'work' is missing: the name of the runs that more GPUs are for, or a list of runs")
    listed = value if isinstance(value, list) else [value]
    if not 1 <= len(listed) <= WORK_MOST:
        raise ConfigError(f"{where}: 'work' names 1 to {WORK_MOST} runs, not {len(listed)}")
    return tuple(_checked_text(where, "work", each, NAME_MOST) for each in listed)


def _count(where: str, said: Mapping[str, object], key: str, most: int) -> int:
    value = said.get(key)
    if value is None:
        raise ConfigError(f"{where}: {key!r} is missing")
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise ConfigError(f"{where}: {key!r} must be a whole number from 1 to {most:,}, not {_shown(value)}")
    return value


def _hours(where: str, said: Mapping[str, object]) -> int:
    given = [key for key in ("weeks", "hours") if said.get(key) is not None]
    if len(given) != 1:
        raise ConfigError(f"{where}: say for how long, with either 'weeks' or 'hours'")
    hours = _number(where, given[0], said[given[0]]) * (HOURS_A_WEEK if given == ["weeks"] else 1)
    if not 1 <= hours <= HOURS_MOST or hours != hours.to_integral_value():
        raise ConfigError(
            f"{where}: {given[0]!r} must come to a whole number of hours, from 1 hour to "
            f"{HOURS_MOST // HOURS_A_WEEK} weeks, not {_shown(said[given[0]])}"
        )
    return int(hours)


def _growth(where: str, said: Mapping[str, object]) -> int | None:
    value = said.get("growth")
    if value is None:
        return None
    permille = _number(where, "growth", value) * PERMILLE
    if not 1 <= permille <= GROWTH_MOST * PERMILLE or permille != permille.to_integral_value():
        raise ConfigError(
            f"{where}: 'growth' is how many times today's work it is for, over 0 and at most {GROWTH_MOST:,}, with at "
            f"most three decimals, not {_shown(value)}"
        )
    return int(permille)


def _number(where: str, key: str, value: object) -> Decimal:
    """Return a number exactly as it was written; YAML alone gives floats, whose shortest form is what was written."""
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise ConfigError(f"{where}: {key!r} must be a number, not {_shown(value)}")
    try:
        number = Decimal(str(value))
    except (InvalidOperation, ValueError) as error:  # an integer of more digits than Python prints
        raise ConfigError(f"{where}: {key!r} is far too large a number") from error
    if not number.is_finite() or abs(number) > HOURS_MOST:
        raise ConfigError(f"{where}: {key!r} must be a number that can be, not {_shown(value)}")
    return number


def _day(where: str, said: Mapping[str, object]) -> str:
    value = said.get("starts")
    if value is None:
        raise ConfigError(f"{where}: 'starts' is missing: the first day, such as 2026-12-01")
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    try:
        if isinstance(value, str) and len(value) == len("2026-12-01"):
            return date.fromisoformat(value).isoformat()
    except ValueError:
        pass
    raise ConfigError(f"{where}: 'starts' must be a date such as 2026-12-01, not {_shown(value)}")


def _pilot(where: str, said: Mapping[str, object]) -> bool:
    value = said.get("pilot", False)
    if not isinstance(value, bool):
        raise ConfigError(f"{where}: 'pilot' must be true or false, not {_shown(value)}")
    return value


def _shown(value: object) -> str:
    """Return a value as it was written in a file: short, and without the bytes that rewrite a terminal."""
    try:
        text = _written(value)
    except ValueError:
        text = "a number of thousands of digits"
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


def read_request(path: Path) -> Request:
    """Return the request of a file.

    Raises:
        ConfigError: the file cannot be read, is too large or none of the three, or says what no request can.
    """
    return request_of(path.name, parsed_file(path))


def parsed_file(path: Path) -> Mapping[str, object]:
    """Return what a request's file says, before its keys are looked at.

    Raises:
        ConfigError: the file cannot be read, is too large or none of the three.
    """
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}; name another file or mend its permissions") from error
    if len(content) > FILE_BYTES:
        raise ConfigError(f"{path} has over {FILE_BYTES:,} bytes: no request is that long")
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
    return json_said(text, object_pairs_hook=once, parse_float=Decimal, parse_constant=_no_number)


def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object whose keys are each said once.

    Raises:
        ValueError: a key is said twice.
    """
    said = dict(pairs)
    if len(said) < len(pairs):
        raise ValueError("one key is said twice")
    return said


def _no_number(word: str) -> object:
    raise ValueError(f"{word} is no number")


def _yaml(text: str) -> object:
    return yaml_said(text, _DEEPEST)
