"""Two runs, or a name's runs before and after a moment, side by side: exact and unrounded. Pure data."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING

from agent.wire.units import DAY_US, HOUR_US, SECOND_US
from analyzer.charts.series import Chart, Trace
from analyzer.errors import ConfigError, LedgerError
from analyzer.ledger.coverage import ledger_end
from analyzer.ledger.run_facts import find_run
from analyzer.queries.ledger_query import Breakdown, Counted, fold, ledger_sums
from analyzer.recommendations.lifecycle.lifecycle_tables import moment_of
from analyzer.recommendations.lifecycle.outcome import LEAST, Effect, before_after
from analyzer.recommendations.lifecycle.work import (
    MomentWindow,
    Unit,
    Work,
    log_costs,
    rates_of,
    unit_of,
    works_of_name,
    works_of_runs,
)
from analyzer.text.words import duration
from collector.store.session import Session

if TYPE_CHECKING:
    from analyzer.charts.lanes import Lane, RunTimeline  # brings plotly, and a report starts without it

CURVE_PIXELS = 400  # of each timeline that is read for them
_CURVE_POINTS = 80
_CURVES = ("sm", "tokens", "requests", "first", "disk", "workers", "power", "hbm")  # the first that both have
_CURVES_SHOWN = 4
_UNITS = {"ratio": ("%", 100.0), "B/s": ("GB/s", 1e-9)}
_BACK_US = 56 * DAY_US


@dataclass(frozen=True, slots=True)
class ComparedSide:
    """What runs on one side did together. `units` is how much work they did, None where they do not say."""

    label: str
    run_ids: tuple[str, ...]
    breakdown: Breakdown
    units: int | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both sides, and the unit by which their costs are compared; None where there is none.

    `change` is ln(after / before) of the cost of a unit at the prices of before; `effect` is there from five runs each.
    `is_priced` says whether that cost is money, and not GPU time.
    """

    subject: str
    timezone: str
    currency: str
    before: ComparedSide
    after: ComparedSide
    unit: Unit | None
    change: float | None
    is_priced: bool
    effect: Effect | None


def compare_runs(session: Session, timezone: str, currency: str, one: str, other: str) -> Comparison:
    """Return two runs side by side, the first as before.

    Raises:
        LedgerError: there is no such run, or the ledger has no GPU time of it; or both are the same.
    """
    first, second = find_run(session, one), find_run(session, other)
    if first == second:
        raise LedgerError(f"{one!r} and {other!r} are the same run, {first}: name two")
    before, after = works_of_runs(session, [first]), works_of_runs(session, [second])
    for run_id, works in ((first, before), (second, after)):
        if not works:
            raise LedgerError(
                f"the ledger has no GPU time of {run_id}: it was pending, or its hours are not analyzed yet"
            )
    subject = " and ".join(_called(works[0]) for works in (before, after))
    return _compared(session, (subject, timezone, currency), (_last(first), _last(second)), before, after)


def compare_at(session: Session, timezone: str, currency: str, name: str, at: str) -> Comparison:
    """Return the runs of a name before and after a moment side by side; runs that went on through it are left out.

    Raises:
        ConfigError: the moment is none.
        LedgerError: the name has no runs on one of the sides.
    """
    newest = ledger_end(session)
    moment = moment_of(at, timezone, newest)
    teams = session.rows("SELECT DISTINCT team FROM runs WHERE name = ? ORDER BY team", [name])
    if not teams:
        raise LedgerError(f"the ledger knows no run named {name!r}; gpuledger report and findings name some")
    around = MomentWindow(moment - _BACK_US, moment, newest)
    works = [work for (team,) in teams for work in works_of_name(session, name, team, around) if not work.is_cut]
    before, after = ([work for work in works if work.is_after is side] for side in (False, True))
    for side, found in (("before", before), ("after", after)):
        if not found:
            raise LedgerError(f"no run of {name} lies entirely {side} {at}; choose another moment")
    return _compared(session, (name, timezone, currency), ("before", "after"), before, after)


def curves(before: "RunTimeline", after: "RunTimeline") -> list[Chart]:
    """Return what can be laid over one another of two runs, each from its own start: the work done, and signals."""
    sides = {"before": before, "after": after}
    longest = max(one.known_end - one.known_start for one in sides.values())
    step = max(SECOND_US, -(-longest // _CURVE_POINTS))
    places = range(0, longest, step)
    useful = {name: _useful(one) for name, one in sides.items()}
    lanes = {name: {lane.key: lane for lane in one.lanes} for name, one in sides.items()}
    shared = [key for key in _CURVES if all(key in own for own in lanes.values())][: _CURVES_SHOWN - 1]
    drawn = [("GPU time in productive states", "%", useful)]
    for key in shared:
        first = lanes["before"][key]
        unit, scale = _UNITS.get(first.unit, (first.unit, 1.0))
        drawn.append((first.title, unit, {name: _signal(own[key], scale) for name, own in lanes.items()}))
    hours = tuple(f"{at / HOUR_US:.3f}" for at in places)
    labels = tuple(duration(at // SECOND_US) for at in places)
    return [
        Chart(
            title, unit, hours, labels,
            tuple(
                Trace(name, "useful", _binned(sides[name].known_start, points, step, len(places)))
                for name, points in told.items()
            ),
        )
        for title, unit, told in drawn
        if any(told.values())
    ]  # fmt: skip


_Points = list[tuple[int, float]]


def _useful(one: "RunTimeline") -> _Points:
    bands = [band.shares for band in one.ribbon.bands if band.klass == "useful"]
    return [(at, 100 * sum(shares[place] for shares in bands)) for place, at in enumerate(one.ribbon.starts)]


def _signal(lane: "Lane", scale: float) -> _Points:
    return [(lane.start + n * lane.step, scale * value) for n, value in enumerate(lane.mean) if value is not None]


def _binned(start: int, points: _Points, step: int, count: int) -> tuple[float | None, ...]:
    """Return the mean of what was seen in each stretch since the start; None where nobody reported."""
    seen: list[list[float]] = [[] for _ in range(count)]
    for at, value in points:
        if 0 <= (place := max(0, at - start) // step) < count:
            seen[place].append(value)
    return tuple(round(fmean(values), 3) if values else None for values in seen)


def checked_kind(other: str | None, at: str | None) -> None:
    """Check that a comparison has something to compare with.

    Raises:
        ConfigError: it has neither a second run nor a moment, or both.
    """
    if (other is None) == (at is None):
        raise ConfigError("compare two runs (A B), or the runs of one name before and after a moment (NAME --at DATE)")


def _compared(
    session: Session,
    about: tuple[str, str, str],
    labels: tuple[str, str],
    before: Sequence[Work],
    after: Sequence[Work],
) -> Comparison:
    from_after = [_on_side(work, after=True) for work in after]
    to_before = [_on_side(work, after=False) for work in before]
    unit, rates = unit_of([*to_before, *from_after]), rates_of(before)
    change, effect = None, None
    if unit is not None:
        costs = log_costs([*to_before, *from_after], unit, rates)
        sides = [[costs[work.run_id] for work in side if work.run_id in costs] for side in (before, after)]
        change = fmean(sides[1]) - fmean(sides[0]) if all(sides) else None
        effect = before_after(*sides) if min(map(len, sides)) >= LEAST else None
    is_priced = all(spent.sku in rates for work in (*before, *after) for spent in work.spent if spent.milliseconds)
    first = ComparedSide(labels[0], *_totals(session, before, unit))
    second = ComparedSide(labels[1], *_totals(session, after, unit))
    return Comparison(*about, first, second, unit, change, is_priced, effect)


def _on_side(work: Work, *, after: bool) -> Work:
    return replace(work, is_after=after, is_whole=True)


def _totals(
    session: Session, works: Sequence[Work], unit: Unit | None
) -> tuple[tuple[str, ...], Breakdown, int | None]:
    runs = tuple(work.run_id for work in works)
    sums = ledger_sums(session, "state", "cause", where="run_id IN (SELECT unnest(?))", values=[list(runs)])
    counted: list[Counted] = [(*one.keys, one.milliseconds, one.cost_micros) for one in sums]
    told = [getattr(work, unit) if unit is not None and unit != "run" else None for work in works]
    known = [count for count in told if count]
    return runs, Breakdown(fold(counted)), sum(known) if len(known) == len(works) and known else None


def _called(work: Work) -> str:
    return _last(work.run_id) if work.name == work.run_id else f"{work.name} ({_last(work.run_id)})"


def _last(run_id: str) -> str:
    return run_id.rsplit("/", 1)[-1]
