"""What became of each recommendation, in money and GPU time a week, from the store; and how good the predictor was."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Annotated

from pydantic import Field

from agent.wire.units import DAY_US, WEEK_US
from analyzer.ledger.coverage import newest_hour_end
from analyzer.period import local
from analyzer.queries.statements import statements
from analyzer.recommendations.lifecycle.lifecycle_tables import LifecycleStatus, lifecycle_statuses
from analyzer.recommendations.lifecycle.outcome import HALF_LEAST, Cluster, Evidence, Outcome, outcome
from analyzer.recommendations.lifecycle.prediction import Amount, Prediction
from analyzer.recommendations.lifecycle.work import (
    MomentWindow,
    Rates,
    Unit,
    Work,
    log_costs,
    rates_of,
    unit_of,
    unlike,
    works_like,
    works_of_name,
)
from analyzer.recommendations.recommendation import SPEAKS_FOR_A_WEEK_US, Share, realised_share
from analyzer.text.as_json import WHOLE
from collector.store.session import Session

LEAST = 10  # of fewer cases no rate is told: one more or less would decide it
SHARES_LEAST = 20  # of fewer cases no share is proposed: its P5 would be the worst of them
INNER_PERMILLE, OUTER_PERMILLE = 600, 900  # what P20-P80 and P5-P95 promise
_QUANTILES = {"p5": 50, "p20": 200, "p50": 500, "p80": 800, "p95": 950}  # in permille


@dataclass(frozen=True, slots=True)
class CalibrationCase:
    """One prediction and what it came to, in one unit, a week; `lost` is the loss that it is a share of."""

    kind: str
    when: str  # what it is counted under over time, such as 2026-11
    predicted: Mapping[str, int]
    realised: int
    lost: int | None = None


@dataclass(frozen=True, slots=True)
class Tally:
    """Predictions of one kind or time of which an effect could be told; `outer` had a P5 and a P95.

    `permille` is the share inside P20-P80, `outer_permille` that inside P5-P95, rounded down; null of fewer than ten.
    """

    __pydantic_config__ = WHOLE
    cases: int
    inside: Annotated[int, Field(description="Came out between P20 and P80.")]
    below: Annotated[int, Field(description="Came out less than P20.")]
    outer: int
    inside_outer: int
    permille: int | None = field(init=False, default=None)
    outer_permille: int | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.cases >= LEAST:
            object.__setattr__(self, "permille", self.inside * 1000 // self.cases)
        if self.outer >= LEAST:
            object.__setattr__(self, "outer_permille", self.inside_outer * 1000 // self.outer)


@dataclass(frozen=True, slots=True)
class Calibration:
    """All cases together, by kind, and by the month in which they were predicted."""

    whole: Tally
    by_kind: Mapping[str, Tally]
    by_month: Mapping[str, Tally]


def calibration(cases: Sequence[CalibrationCase]) -> Calibration:
    """Return how often predictions held."""
    return Calibration(_tally(cases), _by(cases, "kind"), _by(cases, "when"))


def _by(cases: Iterable[CalibrationCase], what: str) -> dict[str, Tally]:
    groups: dict[str, list[CalibrationCase]] = defaultdict(list)
    for case in cases:
        groups[getattr(case, what)].append(case)
    return {name: _tally(own) for name, own in sorted(groups.items())}


def _tally(cases: Sequence[CalibrationCase]) -> Tally:
    outer = [case for case in cases if "p5" in case.predicted and "p95" in case.predicted]
    return Tally(
        len(cases),
        sum(case.predicted["p20"] <= case.realised <= case.predicted["p80"] for case in cases),
        sum(case.realised < case.predicted["p20"] for case in cases),
        len(outer),
        sum(case.predicted["p5"] <= case.realised <= case.predicted["p95"] for case in outer),
    )


def proposed_shares(cases: Iterable[CalibrationCase]) -> dict[str, dict[str, int]]:
    """Return, by kind, the quantiles in permille of the share of a loss that such changes did recover.

    Of kinds with twenty cases and more whose loss is known; a share lies between 0 and all of it. They are offered;
    learned_shares() uses them where the settings say so.
    """
    shares: dict[str, list[int]] = defaultdict(list)
    for case in cases:
        if case.lost:
            shares[case.kind].append(min(1000, max(0, case.realised * 1000 // case.lost)))
    return {
        kind: {name: _quantile(sorted(own), permille) for name, permille in _QUANTILES.items()}
        for kind, own in sorted(shares.items())
        if len(own) >= SHARES_LEAST
    }


def _quantile(ascending: Sequence[int], permille: int) -> int:
    """Return the value that so many permille of them do not exceed, as quantile_disc does."""
    return ascending[max(0, -(-len(ascending) * permille // 1000) - 1)]


def learned_shares(session: Session) -> dict[str, Share]:
    """Return the shares of kinds with twenty realised cases and more, of the whole book of recommendations."""
    cases = (case_of(one) for one in all_realised(session, lifecycle_statuses(session)))
    return shares_of([case for case in cases if case is not None])


def shares_of(cases: Sequence[CalibrationCase]) -> dict[str, Share]:
    """Return what the cases show, each share with how many they are; kinds with fewer are left out."""
    counts = Counter(case.kind for case in cases if case.lost)
    return {kind: realised_share(shown, counts[kind]) for kind, shown in proposed_shares(cases).items()}


_BACK_US = 56 * DAY_US  # eight weeks of runs before a change
_ON_US = 56 * DAY_US  # and after it: later ones had other changes
_OF_HOSTS = Outcome("not_provable", None, 0, 0, why="it concerns hosts, and none of their runs recurs")


@dataclass(frozen=True, slots=True)
class Weekly:
    """What was saved a week, of as much work as in the week that was predicted; `low` and `high` are 95%."""

    likely: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Realised(LifecycleStatus):
    """One recommendation that was applied, and what came of it; amounts are None where no effect could be told.

    `lost_since` is what the findings that it stands on lose a week since then, None within a day of the change. It is
    no proof by itself: less work loses less.
    """

    outcome: Outcome
    milliseconds: Weekly | None
    micros: Weekly | None
    lost_since: Amount | None = None


def _realised(session: Session, one: LifecycleStatus, changed: Sequence[str], until_us: int | None = None) -> Realised:
    """Return what came of one recommendation that was applied; `changed` are all names that something was done to.

    `until_us` is up to when runs are looked at, by default as far as the ledger is known.
    """
    if one.applied_at is None:
        raise AssertionError("BUG: only what was applied has an outcome")
    end = until_us or newest_hour_end(session) or one.applied_at
    around = MomentWindow(one.applied_at - _BACK_US, one.applied_at, min(end, one.applied_at + _ON_US))
    found = outcome(_evidence(session, one, changed, around)) if one.prediction.run_ids else _OF_HOSTS
    held = one.prediction.held
    return Realised(
        one.prediction,
        one.word,
        one.applied_at,
        one.by,
        found,
        _weekly(one, found, held.milliseconds),
        _weekly(one, found, held.micros),
        _lost_since(session, one.prediction, around),
    )


def _lost_since(session: Session, prediction: Prediction, around: MomentWindow) -> Amount | None:
    """Return what is lost a week from the first whole hour after a change on; None where that is less than a day."""
    known_us = around.end - around.cut
    if known_us < SPEAKS_FOR_A_WEEK_US or not prediction.finding_ids:
        return None
    (select,) = statements("recommendations/lifecycle/lost.sql")
    asked = {"findings": list(prediction.finding_ids), "from": around.cut, "until": around.end}
    milliseconds, micros, known = session.row(select, asked)
    if not known:
        return None
    money = None if prediction.lost.micros is None else micros * WEEK_US // known_us
    return Amount(milliseconds * WEEK_US // known_us, money)


def case_of(found: Realised) -> CalibrationCase | None:
    """Return it as a case of calibration, in money where it is known; None where no effect could be told.

    All that could be told count, those too where no effect was shown: else only the lucky ones would.
    """
    prediction, when = found.prediction, f"{local(found.prediction.span.end - 1, 'UTC'):%Y-%m}"
    if found.micros is not None and prediction.saves_micros is not None:
        lost = prediction.lost.micros
        saves, came = prediction.saves_micros, found.micros.likely
    elif found.milliseconds is not None:
        lost = prediction.lost.milliseconds
        saves, came = prediction.saves_milliseconds, found.milliseconds.likely
    else:
        return None
    return CalibrationCase(prediction.kind, when, saves, came, None if lost is None else prediction.weekly(lost))


def all_realised(
    session: Session, standings: Sequence[LifecycleStatus], until_us: int | None = None
) -> tuple[Realised, ...]:
    """Return what came of all that were applied, the last first."""
    changed = sorted({one.prediction.name for one in lifecycle_statuses(session) if one.stage == "applied"})
    done = sorted((one for one in standings if one.applied_at is not None), key=lambda one: -(one.applied_at or 0))
    return tuple(_realised(session, one, changed, until_us) for one in done)


def _evidence(session: Session, one: LifecycleStatus, changed: Sequence[str], around: MomentWindow) -> Evidence:
    prediction = one.prediction
    works = works_of_name(session, prediction.name, prediction.team, around)
    both = _sides(works)
    used = [work for side in both for work in side]
    unit, rates = unit_of(used), rates_of([work for work in used if not work.is_after] or used)
    if unit is None or (why := unlike(used, unit)):
        costs = [[0.0] * len(side) for side in both]
        return Evidence(unit, costs[0], (), costs[1], unlike=why if unit is not None else "")
    before, after = (log_costs(side, unit, rates) for side in both)
    span = prediction.span
    picked = {work.run_id for work in both[0] if work.run_id in prediction.run_ids and work.started_at < span.end}
    held_out = [cost for run, cost in before.items() if run not in picked]
    others: tuple[Cluster, ...] = ()
    placebo: tuple[Cluster, ...] = ()
    own = None
    if after and before and min(len(before), len(after)) < 2 * HALF_LEAST and prediction.run_ids:
        others = _clusters(session, one, changed, around)
        middle = (around.start + around.moment) // 2
        early = MomentWindow(around.start, _middle(works) or middle, around.moment)
        placebo = _clusters(session, one, changed, early)
        own = _cluster(works_of_name(session, prediction.name, prediction.team, early))
    expected = prediction.share_of_held
    return Evidence(unit, list(before.values()), held_out, list(after.values()), others, placebo, own, expected)


def _middle(works: Sequence[Work]) -> int | None:
    starts = sorted(work.started_at for work in works if not work.is_after)
    return starts[len(starts) // 2] if len(starts) > 1 else None


def _sides(works: Sequence[Work]) -> tuple[list[Work], list[Work]]:
    """Return the runs before and after; one that went on through the change counts only where a side has no other."""
    before, after = ([work for work in works if work.is_after is side and not work.is_cut] for side in (False, True))
    cut = [work for work in works if work.is_cut]
    return (
        before or [work for work in cut if not work.is_after],
        after or [work for work in cut if work.is_after],
    )


def _clusters(
    session: Session, one: LifecycleStatus, changed: Sequence[str], around: MomentWindow
) -> tuple[Cluster, ...]:
    prediction = one.prediction
    found = works_like(session, prediction.name, prediction.run_ids[0], changed, around)
    known = (_cluster(works) for _, works in sorted(found.items()))
    return tuple(cluster for cluster in known if cluster is not None)


def _cluster(works: Sequence[Work]) -> Cluster | None:
    """Return the means of one name's runs on both sides; None where a side has none."""
    both = _sides(works)
    used = [work for side in both for work in side]
    unit: Unit | None = unit_of(used)
    if unit is None or unlike(used, unit):
        return None
    rates: Rates = rates_of([work for work in used if not work.is_after] or used)
    before, after = (list(log_costs(side, unit, rates).values()) for side in both)
    return Cluster(fmean(before), fmean(after)) if before and after else None


def _weekly(one: LifecycleStatus, found: Outcome, held: int | None) -> Weekly | None:
    if found.effect is None or held is None:
        return None
    week = one.prediction.weekly(held)
    low, high = found.effect.by_t.sure.saved()
    return Weekly(round(week * found.effect.saved), round(week * low), round(week * high))
