"""What a profile must be to make sense, whoever signed it: else pages and gates would fail on it, or be fooled."""

from collections.abc import Iterable, Iterator
from datetime import date
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from analyzer.capacity.profile.facts import CapacityProfile, StateHours
from analyzer.errors import ProfileError
from analyzer.states import BOOKINGS

_LAST_US = 253_370_764_800_000_000  # 9999-01-01: later moments are no dates in any zone
_MOST = 1.5  # a core can be a little more than busy between two clocks
_KNOWN = {(each.klass, each.state, each.cause) for each in BOOKINGS}


def check(profile: CapacityProfile) -> None:
    """Look through a profile whose fields have their kinds.

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
        yield "it has a moment that is no date"
    if not all(_is_day(each.lowest_day) for each in profile.free):
        yield "profile.free has a lowest_day that is no day such as 2026-11-01"
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
        yield "it has a share below nothing or above all"
    known = {cause for _, state, cause in _KNOWN if state == "starved"}
    if path is not None and path.limit is not None and path.limit not in known:
        yield f"profile.data_path.limit {path.limit[:40]!r} is no cause of waiting that this version knows"
    sizes = [(size.gpus, size.work_per_second, size.efficiency_ratio) for size in profile.scaling]
    if any(min(size) < 0 for size in sizes) or [size[0] for size in sizes] != sorted({size[0] for size in sizes}):
        yield "profile.scaling is no table of sizes, smallest first"
