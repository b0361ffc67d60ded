"""The one spelling of a profile as JSON: what is signed, what is stored, and what a page carries in itself.

A profile has exactly one spelling, so that a signature over its bytes and one over its values are the same thing: keys
in order, no blanks, ASCII alone, each number in its shortest form. `<`, `>` and `&` are written as escapes, as JSON
allows anywhere in a text, so that the same bytes may stand in an HTML page.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from datetime import date
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from agent.wire.bounded import TooDeepError
from analyzer.capacity.profile.facts import SCHEMA, CapacityProfile, StateHours
from analyzer.errors import ProfileError
from analyzer.settings.bounded import strict_json
from analyzer.states import BOOKINGS

_LAST_US = 253_370_764_800_000_000  # 9999-01-01: later moments are no dates in any zone
_MOST = 1.5  # a core can be a little more than busy between two clocks
_KNOWN = {(each.klass, each.state, each.cause) for each in BOOKINGS}


def check(profile: CapacityProfile) -> None:
    """Look through a profile whose fields have their kinds: it must make sense, whoever signed it.

    Pages and gates would else fail on it, or be fooled.

    Raises:
        ProfileError: it contradicts itself, or says what cannot be; the sentence names the place.
    """
    for problem in _problems(profile):
        raise ProfileError(problem)


def _problems(profile: CapacityProfile) -> Iterator[str]:
    yield from _of_time(profile)
    yield from _of_amounts(profile)
    yield from _of_runs(profile)
    yield from _of_ratios(profile)


def _of_time(profile: CapacityProfile) -> Iterator[str]:
    try:
        ZoneInfo(profile.timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        yield f"profile.timezone {profile.timezone[:40]!r} is not known here"
    moments = [profile.since_us, profile.until_us, profile.made.at_us]
    moments += [moment for run in profile.runs for moment in (run.started_at, run.ended_at) if moment is not None]
    if not all(0 <= moment <= _LAST_US for moment in moments):
        yield "it has a time that is not a valid date"
    if not all(_is_day(each.lowest_day) for each in profile.free):
        yield "profile.free has a lowest_day that is not a date such as 2026-11-01"
    if profile.until_us - profile.since_us < 1000:
        yield "profile.until_us is not after profile.since_us"


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _of_amounts(profile: CapacityProfile) -> Iterator[str]:
    for each in profile.booked:
        if (each.klass, each.state, each.cause) not in _KNOWN:
            yield f"profile.booked has {each.klass}/{each.state}/{each.cause}, which this version does not know"[:200]
    amounts = [each.milliseconds for each in profile.booked] + [run.milliseconds for run in profile.runs]
    paid = [each.micros for each in profile.booked] + [run.micros for run in profile.runs]
    amounts += [cost for cost in paid if cost is not None]
    if any(amount < 0 for amount in amounts):
        yield "it has a negative amount of GPU time or money"
    if sum(each.milliseconds for each in profile.booked) != profile.milliseconds:
        yield "profile.booked does not add up to profile.milliseconds"
    if sum(each.milliseconds for each in profile.runs) != profile.milliseconds:
        yield "profile.runs does not add up to profile.milliseconds"
    costs = [each.micros for each in profile.booked]
    if profile.micros is not None and (None in costs or sum(cost or 0 for cost in costs) != profile.micros):
        yield "profile.booked does not add up to profile.micros"


def _of_runs(profile: CapacityProfile) -> Iterator[str]:
    """A run whose parts are told must add up like the whole: gates judge the work that is asked for by them."""
    for run in profile.runs:
        if run.booked and sum(each.milliseconds for each in run.booked) != run.milliseconds:
            yield f"the parts of run {run.run_id[:60]!r} do not add up to its milliseconds"
        if any(each.milliseconds < 0 for each in run.booked):
            yield f"run {run.run_id[:60]!r} has a negative amount of GPU time"
    whole, parts = _by_state(profile.booked), _by_state(each for run in profile.runs for each in run.booked)
    told = all(run.booked or not run.milliseconds for run in profile.runs)
    if (told and parts != whole) or any(amount > whole.get(key, 0) for key, amount in parts.items()):
        yield "the parts of the runs do not add up to profile.booked"


def _by_state(booked: Iterable[StateHours]) -> dict[tuple[str, str, str | None], int]:
    found: dict[tuple[str, str, str | None], int] = {}
    for each in booked:
        key = (each.klass, each.state, each.cause)
        found[key] = found.get(key, 0) + each.milliseconds
    return {key: amount for key, amount in found.items() if amount}


def _of_ratios(profile: CapacityProfile) -> Iterator[str]:
    path, talk = profile.data_path, profile.communication
    said = [profile.measured_ratio, profile.at_zero_ratio]
    said += [path.waiting_ratio, path.busiest_worker_ratio, path.disk_busy_ratio] if path is not None else []
    said += [talk.waiting_ratio] if talk is not None else []
    if not all(ratio is None or 0 <= ratio <= _MOST for ratio in said):
        yield "it has a share below 0% or above 100%"
    known = {cause for _, state, cause in _KNOWN if state == "starved"}
    if path is not None and path.limit is not None and path.limit not in known:
        yield f"profile.data_path.limit {path.limit[:40]!r} is not a cause of input starvation that this version knows"
    sizes = [(size.gpus, size.work_per_second, size.efficiency_ratio) for size in profile.scaling]
    if any(min(size) < 0 for size in sizes) or [size[0] for size in sizes] != sorted({size[0] for size in sizes}):
        yield "profile.scaling is not a table of sizes in ascending order"


FILE_BYTES = 4 * 2**20
INTEGER_BITS = 63  # with a sign: what a column and most programs hold
_FLOAT_MOST = 1e18  # beyond what is counted anywhere; what is finite may still overflow as percent
_ESCAPED = (("&", "\\u0026"), ("<", "\\u003c"), (">", "\\u003e"))


def canonical(value: object) -> str:
    """Return plain data or a profile as its one spelling."""
    text = json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    for character, escape in _ESCAPED:  # outside of texts JSON has none of them
        text = text.replace(character, escape)
    return text


def _plain(value: object) -> Any:  # noqa: ANN401 - whatever JSON can say
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def parsed(text: str) -> Any:  # noqa: ANN401 - whatever JSON can say
    """Return what a JSON text says.

    Raises:
        ProfileError: it is too long or too deep, is no JSON, says a key twice, or has a number that no profile has.
    """
    if len(text) > FILE_BYTES:
        raise ProfileError(f"it is larger than {FILE_BYTES >> 20} MiB, the maximum for a profile")
    try:
        return strict_json(text, FILE_BYTES)
    except TooDeepError as error:
        raise ProfileError("it is nested too deeply to be a profile") from error
    except ValueError as error:
        raise ProfileError(f"it is not valid JSON: {error}") from error


def profile_of(document: object) -> CapacityProfile:
    """Return the profile that parsed JSON says.

    Raises:
        ProfileError: it is none; the sentence names the place.
    """
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise ProfileError(f"its schema is {_short(schema)}, and this version reads {SCHEMA!r}")
    profile: CapacityProfile = _made(CapacityProfile, document, "profile")
    check(profile)
    return profile


def _made(kind: Any, value: object, where: str) -> Any:  # noqa: ANN401 - the kind decides
    if is_dataclass(kind):
        return _dataclass(kind, value, where)
    origin = get_origin(kind)
    if origin is UnionType:
        inner = next(each for each in get_args(kind) if each is not NoneType)
        return None if value is None else _made(inner, value, where)
    if origin is tuple:
        if not isinstance(value, list):
            raise ProfileError(f"{where} is {_short(value)} and must be a list")
        return tuple(_made(get_args(kind)[0], item, f"{where}[{number}]") for number, item in enumerate(value))
    if origin is Literal:
        if value not in get_args(kind):
            raise ProfileError(f"{where} is {_short(value)} and must be one of {', '.join(get_args(kind))}")
        return value
    return _scalar(kind, value, where)


def _dataclass(kind: Any, value: object, where: str) -> Any:  # noqa: ANN401 - the kind decides
    if not isinstance(value, dict):
        raise ProfileError(f"{where} is {_short(value)} and must be an object")
    known = get_type_hints(kind)
    for name in value:
        if name not in known:
            raise ProfileError(f"{where} has {_short(name)}, which this version does not know")
    for name in known:
        if name not in value:
            raise ProfileError(f"{where} has no {name!r}")
    return kind(**{name: _made(inner, value[name], f"{where}.{name}") for name, inner in known.items()})


def _scalar(kind: Any, value: object, where: str) -> object:  # noqa: ANN401 - the kind decides
    if kind is bool and isinstance(value, bool):
        return value
    if kind is str and isinstance(value, str):
        if not _is_text(value):
            raise ProfileError(f"{where} is not valid UTF-8 text")
        return value
    if kind is int and isinstance(value, int) and not isinstance(value, bool) and value.bit_length() <= INTEGER_BITS:
        return value
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        number = _float(value, where)
        if number is not None:
            return number
    words = {bool: "true or false", str: "text", int: "a whole number of 64 bits", float: "a finite number"}
    raise ProfileError(f"{where} is {_short(value)} and must be {words[kind]}")


def _is_text(value: str) -> bool:
    """Whether it can be written out: JSON can say half of a character, which no file and no answer can repeat."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _float(value: float, where: str) -> float | None:
    try:
        number = float(value)
    except OverflowError as error:
        raise ProfileError(f"{where} is too large a number") from error
    if _FLOAT_MOST < abs(number) < float("inf"):
        raise ProfileError(f"{where} is too large a number")
    return number if abs(number) <= _FLOAT_MOST else None


def _short(value: object) -> str:
    text = repr(value) if not isinstance(value, dict | list) else "an object" if isinstance(value, dict) else "a list"
    return text if len(text) <= 40 else f"{text[:39]}…"
