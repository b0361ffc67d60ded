"""What a run did on one side of a change, and what a unit of its work cost. Pure.

A unit is what the run itself says: tokens, else samples, else steps. Tokens come first, since a step is another amount
of work where the batch or the number of GPUs has changed. Where no run says anything it is a whole run of that name
that has completed, in GPU-hours and money: that can be set side by side, and proves no saving.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any, Literal, get_args

from agent.wire.units import HOUR_US
from analyzer.queries.ledger_query import known_sum
from analyzer.queries.statements import statements
from collector.store.session import Session

Unit = Literal["tokens", "samples", "steps", "run"]
_UNITS: tuple[Unit, ...] = get_args(Unit)
_COMPLETED = "completed"
_COUNTED = (None, _COMPLETED)  # of what failed or was cancelled nobody knows which of its work was of use


@dataclass(frozen=True, slots=True)
class Spent:
    """GPU time of one kind of GPU, and what it cost; None where some of it has no price."""

    sku: str | None
    milliseconds: int
    micros: int | None


@dataclass(frozen=True, slots=True)
class Work:
    """One run on one side of a change: `is_whole` where it has ended and all of it lies there.

    `is_cut` says that it went on through the change, and has work on the other side as well.
    """

    run_id: str
    name: str
    team: str | None
    started_at: int
    is_after: bool
    is_whole: bool
    is_cut: bool
    exit_status: str | None
    spent: tuple[Spent, ...]
    tokens: int | None = None
    samples: int | None = None
    steps: int | None = None
    gpus: int | None = None  # that the run was given

    @property
    def milliseconds(self) -> int:
        """Its GPU time."""
        return sum(one.milliseconds for one in self.spent)

    def units(self, unit: Unit) -> int | None:
        """Return how much of a unit it did; None where it does not say, or did not complete."""
        if unit == "run":
            return 1 if self.is_whole and self.exit_status == _COMPLETED else None
        told: int | None = getattr(self, unit)
        return told if told and self.exit_status in _COUNTED else None


Rates = Mapping[str | None, float]  # millionths of the currency for a GPU-millisecond, by kind of GPU


def rates_of(works: Sequence[Work]) -> Rates:
    """Return what a GPU-millisecond of each kind cost these runs; kinds of which some time has no price are left out.

    Both sides of a comparison are priced by the same rates: a new price is no saving.
    """
    sums: dict[str | None, tuple[int, int]] = {}
    unpriced: set[str | None] = set()
    for one in (spent for work in works for spent in work.spent):
        if one.micros is None:
            unpriced.add(one.sku)
            continue
        time, money = sums.get(one.sku, (0, 0))
        sums[one.sku] = (time + one.milliseconds, money + one.micros)
    return {sku: money / time for sku, (time, money) in sums.items() if time and money and sku not in unpriced}


def unit_of(works: Sequence[Work]) -> Unit | None:
    """Return the unit that most of the runs of either side have, the first in order; None where there is none."""
    sides = [[work for work in works if work.is_after is after and work.milliseconds] for after in (False, True)]
    sides = [side for side in sides if side]
    for unit in _UNITS:
        if sides and all(2 * sum(work.units(unit) is not None for work in side) >= len(side) for side in sides):
            return unit
    for unit in reversed(_UNITS):  # most have none: what at least some have on either side
        if sides and all(any(work.units(unit) is not None for work in side) for side in sides):
            return unit
    return None


def unlike(works: Sequence[Work], unit: Unit | None) -> str:
    """Return why these runs are not shown to have done equal work on both sides, and what would show it; else "".

    A run that is half as long may have done half the work, and a step on fewer GPUs may be a smaller one.
    """
    if unit in (None, "run"):
        return (
            "nothing shows that the runs did equal work: neither side reports steps, samples or tokens; have runs of "
            "that name report them (docs/progress.md)"
        )
    sides = [sorted(one.gpus for one in works if one.is_after is after and one.gpus) for after in (False, True)]
    middle = [side[len(side) // 2] for side in sides if side]
    if unit == "steps" and len(set(middle)) > 1:
        return (
            f"a step of {middle[1]} GPUs may be a different amount of work than one of {middle[0]}: have runs of that "
            "name report tokens or samples (docs/progress.md)"
        )
    return ""


def log_costs(works: Sequence[Work], unit: Unit, rates: Rates) -> dict[str, float]:
    """Return the logarithm of what a unit cost, by run: in money where all has a rate, else in GPU time."""
    is_priced = all(spent.sku in rates for work in works for spent in work.spent if spent.milliseconds)
    found = {}
    for work in works:
        units = work.units(unit)
        cost = (
            sum(one.milliseconds * rates[one.sku] for one in work.spent if one.milliseconds)
            if is_priced
            else work.milliseconds
        )
        if units and cost > 0:
            found[work.run_id] = log(cost / units)
    return found


_FOREVER = 2**62
_OTHERS_MOST = 400  # runs that were not changed; more would say no more
_RUNS = """
SELECT run_id, coalesce(name, run_id), team, started_at, ended_at, exit_status, gpus FROM runs
WHERE {which} AND started_at < $until AND coalesce(ended_at, $until) > $from ORDER BY started_at, run_id
"""
_NAMED = "coalesce(name, run_id) = $name AND team IS NOT DISTINCT FROM $team"
_LIKE = (
    "coalesce(name, run_id) <> $name AND sku IS NOT DISTINCT FROM $sku AND stage IS NOT DISTINCT FROM $stage "
    "AND split_part(run_id, '/', 2) = $cluster AND NOT list_contains($changed::VARCHAR[], coalesce(name, run_id))"
)


@dataclass(frozen=True, slots=True)
class MomentWindow:
    """A moment, and how far to look on either side; microseconds UTC."""

    start: int
    moment: int
    end: int

    @property
    def cut(self) -> int:
        """The moment rounded up to a whole hour, as the ledger has it: where a run that goes on is divided."""
        return -(-self.moment // HOUR_US) * HOUR_US

    def values(self) -> dict[str, object]:
        """Return it as the parameters of a query."""
        return {"from": self.start // HOUR_US * HOUR_US, "cut": self.cut, "until": self.end}

    def side(self, started_at: int, ended_at: int | None) -> bool | None:
        """Return whether a run lies after the moment; None where it went on through it."""
        if started_at >= self.moment:
            return True
        return False if ended_at is not None and ended_at <= self.moment else None


def works_of_name(session: Session, name: str, team: str | None, around: MomentWindow) -> list[Work]:
    """Return what all runs of a name and team did on either side, in order of their starts."""
    rows = session.rows(
        _RUNS.format(which=_NAMED), {"name": name, "team": team, "from": around.start, "until": around.end}
    )
    return _works(session, rows, around)


def works_of_runs(session: Session, run_ids: Sequence[str]) -> list[Work]:
    """Return what these runs did in all, in order of their starts; each is told as after."""
    rows = session.rows(
        _RUNS.format(which="list_contains($runs::VARCHAR[], run_id)"),
        {"runs": list(run_ids), "from": 0, "until": _FOREVER},
    )
    return _works(session, rows, MomentWindow(0, 0, _FOREVER))


def works_like(
    session: Session, name: str, run_id: str, changed: Sequence[str], around: MomentWindow
) -> dict[str, list[Work]]:
    """Return what runs of other names did, by name: of the same cluster, stage and kind of GPU as this run.

    Names that were `changed` themselves meanwhile are left out.
    """
    known = session.rows("SELECT sku, stage FROM runs WHERE run_id = ?", [run_id])
    if not known:
        return {}
    cluster = run_id.split("/")[1] if run_id.count("/") >= 2 else ""
    values = {"name": name, "sku": known[0][0], "stage": known[0][1], "cluster": cluster, "changed": list(changed)}
    rows = session.rows(_RUNS.format(which=_LIKE), values | {"from": around.start, "until": around.end})
    found: dict[str, list[Work]] = defaultdict(list)
    for work in _works(session, rows[-_OTHERS_MOST:], around):
        found[work.name].append(work)
    return dict(found)


def _works(session: Session, rows: Sequence[tuple[Any, ...]], around: MomentWindow) -> list[Work]:
    if not rows:
        return []
    asked = around.values() | {"runs": [row[0] for row in rows]}
    sides = {row[0]: around.side(row[3], row[4]) for row in rows}
    (spent_sql,), (told_sql,) = (
        statements("recommendations/lifecycle/spent.sql"),
        statements("recommendations/lifecycle/told.sql"),
    )
    spent: dict[tuple[str, bool], list[Spent]] = defaultdict(list)
    for run_id, sku, is_after, milliseconds, micros in session.rows(spent_sql, asked):
        spent[run_id, _side(sides[run_id], is_after)].append(Spent(sku, milliseconds, micros))
    told: dict[tuple[str, bool], list[int | None]] = {}
    for run_id, is_after, *counts in session.rows(told_sql, asked):
        key = (run_id, _side(sides[run_id], is_after))
        told[key] = [known_sum(both) for both in zip(told.get(key, [None] * 3), counts, strict=True)]
    found = []
    for run_id, name, team, started_at, ended_at, exit_status, gpus in rows:
        for is_after in (False, True):
            if own := spent.get((run_id, is_after)):
                is_whole = sides[run_id] is not None and ended_at is not None
                is_cut = (run_id, not is_after) in spent
                tokens, samples, steps = told.get((run_id, is_after), [None] * 3)
                facts = (run_id, name, team, started_at, is_after, is_whole, is_cut, exit_status)
                found.append(Work(*facts, tuple(own), tokens, samples, steps, gpus))
    return found


def _side(whole: bool | None, by_hour: bool) -> bool:
    return by_hour if whole is None else whole
