"""What keeps recommendations from doing harm: too little gained, too soon again, too much at once, a no that was said.

All of it is a dry run: nothing here changes a fleet. What is held back keeps the reason, and can be listed.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent.wire.units import DAY_SECONDS, HOUR_MS, HOUR_US, MICROS
from analyzer.recommendations.recommendation import Alternative, Recommendation
from analyzer.settings.settings import DEFAULT, HUNDRED, Guards


def without_doubles(advice: Sequence[Recommendation]) -> list[Recommendation]:
    """Return them in their order; what shares seconds with a better one that stands names it, and counts no more.

    The best are taken first: those that save most at P50, of those that save as much what costs least to move. What is
    held back replaces nothing.
    """
    taken: list[Recommendation] = []
    better: dict[str, str] = {}
    for one in sorted((one for one in advice if one.stands), key=_by_saving_and_cost):
        rival = next((other for other in taken if _share_seconds(one, other)), None)
        if rival is None:
            taken.append(one)
        else:
            better[one.id] = rival.id
    return [replace(one, instead_of=better[one.id]) if one.id in better else one for one in advice]


def _share_seconds(one: Recommendation, other: Recommendation) -> bool:
    """Return whether two would save the same seconds: both stand on one finding or notice, of the same runs.

    Findings share no second, so that what stands on different ones may be added up.
    """
    if {*one.finding_ids, *one.notice_ids}.isdisjoint((*other.finding_ids, *other.notice_ids)):
        return False
    return not (one.run_ids and other.run_ids) or not set(one.run_ids).isdisjoint(other.run_ids)


def _by_saving_and_cost(one: Recommendation) -> tuple[int, int, int, str]:
    money, time, id_ = one.rank
    return money, time, one.cost_to_move_milliseconds, id_


def _with_alternatives(advice: Sequence[Recommendation]) -> list[Recommendation]:
    """Return them in their order; what others are instead of names those, the one that saves most first."""
    rivals: dict[str, list[Recommendation]] = defaultdict(list)
    for one in advice:
        if one.instead_of is not None:
            rivals[one.instead_of].append(one)
    return [replace(one, alternatives=_told(rivals[one.id])) if one.id in rivals else one for one in advice]


def _told(rivals: Sequence[Recommendation]) -> tuple[Alternative, ...]:
    return tuple(
        Alternative(
            one.id,
            one.kind,
            one.title,
            one.saves_milliseconds.p50,
            one.saves_micros.p50 if one.saves_micros is not None else None,
        )
        for one in sorted(rivals, key=lambda one: one.rank)
    )


@dataclass(frozen=True, slots=True)
class Moment:
    """What guards ask beside the recommendations. Times are microseconds UTC.

    `end` is the end of the period, `now` that of what the ledger knows, `clock` the time at which somebody asks;
    `fleet_gpus` are how many there are, `rejected` is when each id was last rejected.
    """

    end: int
    now: int
    clock: int
    fleet_gpus: int
    rejected: Mapping[str, int] = field(default_factory=dict)


def guarded(advice: Iterable[Recommendation], at: Moment, guards: Guards = DEFAULT) -> list[Recommendation]:
    """Return all of them, in their order: what a guard holds back says why, and what another replaces names it.

    What replaces others names them, too.
    """
    looked = [_alone(_dated(one, at, guards), at, guards) for one in advice]
    while True:
        made = _within_share(_once_a_run(without_doubles(looked), guards), at, guards)
        better = {one.instead_of for one in made}
        late = {one.id: one for one in made if one.held_back and one.id in better}
        if not late:
            return _with_alternatives(made)
        # What is held back for the sake of other runs replaces nothing: the next best has its place.
        looked = [late.get(one.id, one) for one in looked]


def _dated(one: Recommendation, at: Moment, guards: Guards) -> Recommendation:
    """Let it end some days after its period, or when its runs do."""
    latest = at.end + guards.valid_days * DAY_SECONDS * MICROS
    return replace(one, expires_at=latest if one.expires_at is None else min(latest, one.expires_at))


def _alone(one: Recommendation, at: Moment, guards: Guards) -> Recommendation:
    """Hold back one for a reason of its own; what a restart does not pay for now waits for the run's next start."""
    since = at.rejected.get(one.id)
    if since is not None and at.clock - since < guards.rejected_hours * HOUR_US:
        hours = max(0, at.clock - since) // HOUR_US
        return replace(
            one, held_back=f"rejected {hours} h ago: it may be recommended again after {guards.rejected_hours} h"
        )
    if failing := next((check for check in one.constraints if check.holds is False), None):
        return replace(one, held_back=f"a check failed: {failing.what} ({failing.told})")
    if not one.restarts:
        return one
    reason = _too_soon(one, at, guards) or _too_dear(one, guards)
    if reason is None:
        return one
    if one.outlook is not None and one.outlook.recurs:
        return _at_next_start(one, reason)
    return replace(one, held_back=reason)


def _at_next_start(one: Recommendation, reason: str) -> Recommendation:
    """Return it for the next run of that name, which costs nothing; `reason` says why not now."""
    words = f"none: applied at its next start; not now: {reason}"
    return replace(
        one, takes_effect="next_start", cost_to_move=words, cost_to_move_micros=0, cost_to_move_milliseconds=0
    )


def _too_soon(one: Recommendation, at: Moment, guards: Guards) -> str | None:
    if one.moving is None or one.moving.moved_at is None:
        return None
    hours = (at.now - one.moving.moved_at) // HOUR_US
    if hours >= guards.hours_between_moves:
        return None
    return f"it was restarted {max(0, hours)} h ago, and is not moved again for {guards.hours_between_moves} h"


def _too_dear(one: Recommendation, guards: Guards) -> str | None:
    """Say why a restart does not pay: saved at P20 until the end, less the restart, against what is wanted at least."""
    rest, told = _remaining(one, guards)
    if one.saves_micros is not None and one.cost_to_move_micros is not None:
        saved, cost = one.saves_micros.p20, one.cost_to_move_micros
        least = guards.least_gain * MICROS
    else:
        saved, cost, least = one.saves_milliseconds.p20, one.cost_to_move_milliseconds, 0
    gain = saved * rest // one.saves_over_seconds - cost
    if gain >= max(least, cost * guards.least_gain_percent // HUNDRED):
        return None
    takes = one.cost_to_move_milliseconds / HOUR_MS
    gives = one.saves_milliseconds.p20 * rest / one.saves_over_seconds / HOUR_MS
    return f"a restart takes {takes:,.1f} GPU-hours and saves {gives:,.1f} at P20 ({told})"


def _remaining(one: Recommendation, guards: Guards) -> tuple[int, str]:
    horizon = guards.horizon_days * DAY_SECONDS
    if one.outlook is None or one.outlook.remaining_seconds is None:
        return horizon, f"in {guards.horizon_days} days"
    return min(horizon, one.outlook.remaining_seconds), one.outlook.told


def _once_a_run(advice: Sequence[Recommendation], guards: Guards) -> list[Recommendation]:
    """Hold back a second restart of a run: of several that stand, the one that gains most moves it."""
    mover: dict[str, str] = {}
    words: dict[str, str] = {}
    for one in sorted((one for one in advice if one.stands and one.restarts), key=_by_net):
        first = next((mover[run] for run in one.run_ids if run in mover), None)
        if first is None:
            mover |= dict.fromkeys(one.run_ids, one.id)
        else:
            once = f"a run is moved no more than once in {guards.hours_between_moves} h"
            words[one.id] = f"{first} restarts the same run, and can include these lines: {once}"
    return [replace(one, held_back=words[one.id]) if one.id in words else one for one in advice]


def _within_share(advice: Sequence[Recommendation], at: Moment, guards: Guards) -> list[Recommendation]:
    """Hold back restarts beyond the share of the fleet that may be restarted at once, those that gain least first.

    A gang moves whole or not at all: the first may be larger than the share, and is then alone.
    """
    most = at.fleet_gpus * guards.moved_percent // HUNDRED
    taken, late = 0, set()
    for one in sorted((one for one in advice if one.stands and one.restarts), key=_by_net):
        gpus = one.moving.gpus if one.moving is not None else 0
        if taken and taken + gpus > most:
            late.add(one.id)
        else:
            taken += gpus
    words = f"later: restarts of {taken:,} GPUs come first, and {guards.moved_percent}% of the fleet are {most:,}"
    return [replace(one, held_back=words) if one.id in late else one for one in advice]


def _by_net(one: Recommendation) -> tuple[int, int, str]:
    saved = one.saves_micros.p20 if one.saves_micros is not None else 0
    return -(saved - (one.cost_to_move_micros or 0)), -one.saves_milliseconds.p20, one.id
