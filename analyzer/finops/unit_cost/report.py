"""Unit economics of a period: units of work, whole runs, waiting, use by teams and scaling, against the time before."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agent.wire.units import PERMILLE
from analyzer.finops.unit_cost.units import (
    TOKENS_READ,
    TOKENS_SERVED,
    UNITS,
    Changed,
    Hour,
    Unit,
    Week,
    Whose,
    by_week,
    changed,
    counted,
    hours_cost,
    said_enough,
    weeks_between,
)
from analyzer.ledger.amounts import Correction, corrections
from analyzer.ledger.coverage import known_hours as hours_of
from analyzer.ledger.coverage import known_part, like_before
from analyzer.measures.efficiency.efficiency_query import NOT_TRAINING, peer_of, reported_progress
from analyzer.measures.efficiency.goodput import Peer, Scaling, Signature, scaling, signature
from analyzer.period import Calendar, Period
from analyzer.queries.ledger_query import Gap, gaps, labels_of
from analyzer.queries.statements import statements
from analyzer.states import words_of
from analyzer.text.words import nearest
from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class Compute:
    """What one team held, of it what was not measured and what was useful, in GPU milliseconds; and its cost.

    `activity_permille` is the mean activity of the SMs where it is measured, else of NVML's utilization. `team` None is
    unmapped. None is not known.
    """

    team: str | None
    milliseconds: int
    unobserved: int
    useful: int
    micros: int | None
    activity_permille: int | None
    useful_permille_before: int | None = None

    @property
    def useful_permille(self) -> int | None:
        """The useful share of what was measured."""
        measured = self.milliseconds - self.unobserved
        return nearest(PERMILLE * self.useful, measured) if measured > 0 else None

    @property
    def micros_a_useful_hour(self) -> float | None:
        """What a GPU-hour of useful work cost, with all that was held beside it."""
        return None if self.micros is None or not self.useful else self.micros * 3_600_000 / self.useful


def _compute_by_team(session: Session, period: Period, before: Period | None) -> tuple[Compute, ...]:
    """Return every team that held GPUs, dearest first; `before` is what they are compared with, where it is known."""
    then = {one.team: one.useful_permille for one in _read(session, before)} if before is not None else {}
    return tuple(replace(one, useful_permille_before=then.get(one.team)) for one in _read(session, period))


def _read(session: Session, period: Period) -> list[Compute]:
    (query,) = statements("finops/unit_cost/compute.sql")
    span = {"start": period.start, "end": period.end, "useful": words_of("useful")}
    return [Compute(*row) for row in session.rows(query, span)]


@dataclass(frozen=True, slots=True)
class Scaled:
    """One model on one kind of GPU, at the sizes that were seen: the period's runs, and those of the weeks before."""

    model: str
    batch: str | None
    sku: str
    scaling: Scaling


@dataclass(frozen=True, slots=True)
class ScalingReport:
    """What scaled, worst first; `unsized` counts models of the period of which no two sizes can be compared."""

    scaled: tuple[Scaled, ...] = ()
    unsized: int = 0


def _scaling_report(session: Session, period: Period, since: int) -> ScalingReport:
    """Return how what trained in a period scaled, from what runs said of themselves since then."""
    (query,) = statements("finops/unit_cost/trained.sql")
    span = {"since": since, "start": period.start, "end": period.end, "others": list(NOT_TRAINING)}
    rows = session.rows(query, span)
    said = reported_progress(session, [row[0] for row in rows])
    alike: dict[Signature, list[Peer]] = defaultdict(list)
    here: set[Signature] = set()
    for run_id, name, gpus, sku, labels, is_now in rows:
        own, peer = signature(name, labels_of(labels), sku), peer_of(gpus, said.get(run_id))
        if own is not None and peer is not None:
            alike[own].append(peer)
            here |= {own} if is_now else set()
    tables = {own: scaling(alike[own], is_batch_known=own.batch is not None) for own in here}
    found = [Scaled(own.model, own.batch, own.sku, table) for own, table in tables.items() if table.sizes]
    found.sort(key=lambda one: (one.scaling.sizes[-1].efficiency, one.model, one.sku, one.batch or ""))
    return ScalingReport(tuple(found), len(tables) - len(found))


BACK_US = 28 * 86_400_000_000  # four weeks before the period: what changes of level are seen against
_AT_ONCE_US = 24 * 3_600_000_000  # changes of one name that lie no further apart are one change
_COMPLETED_LEAST = 2  # runs of a name and size: one has no like


@dataclass(frozen=True, slots=True)
class UnitLine:
    """What a unit of work of one name's runs cost in the period; None where it is not known.

    `micros` and `milliseconds` are all that its runs took in the period, `units` all that they say they did.
    """

    name: str
    team: str | None
    unit: Unit
    units: int
    milliseconds: int
    micros: int | None
    units_before: int | None
    milliseconds_before: int | None
    micros_before: int | None
    change: Changed | None
    weeks: tuple[Week, ...] = ()

    @property
    def ratio(self) -> float | None:
        """How many times what it was in the period before a unit costs: in money where it is known, else in time."""
        if not self.units_before or self.milliseconds_before is None:
            return None
        if self.micros is not None and self.micros_before:
            return self.micros / self.units / (self.micros_before / self.units_before)
        return self.milliseconds / self.units / (self.milliseconds_before / self.units_before)


@dataclass(frozen=True, slots=True)
class RunLine:
    """Whole runs of one name and size that completed: how many, what the middle one took, now and in weeks before."""

    name: str
    team: str | None
    gpus: int
    runs: int
    runs_before: int
    milliseconds: int
    milliseconds_before: int | None
    micros: int | None
    micros_before: int | None
    micros_together: int | None


@dataclass(frozen=True, slots=True)
class Wait:
    """From a team's requests to first work: runs that worked, that did not yet, and microseconds of it."""

    team: str | None
    runs: int
    not_yet: int
    queued_us_p50: int | None
    first_work_us_p50: int | None
    first_work_us_p90: int | None


@dataclass(frozen=True, slots=True)
class UnitReport:
    """Unit economics of one period; lines dearest first. Hours of the `gaps` are in none of them."""

    period: Period
    currency: str
    units: tuple[UnitLine, ...]
    runs: tuple[RunLine, ...]
    waits: tuple[Wait, ...]
    compute: tuple[Compute, ...] = ()
    scaling: ScalingReport | None = None
    gaps: tuple[Gap, ...] = ()
    corrections: tuple[Correction, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Which hours are in no figure, and what was learned of closed ones, in sentences."""
        told = [one.words(self.period.timezone) for one in self.gaps]
        return (*told, *(one.words(self.period.timezone) for one in self.corrections))

    @property
    def changes(self) -> tuple[tuple[UnitLine, Changed], ...]:
        """Changes of level, those that cost most a week first: one for a name at a time, of the unit that comes first.

        Where traffic goes, requests and tokens are dearer at once, and it is one loss.
        """
        told: dict[Whose, list[tuple[UnitLine, Changed]]] = {}
        for line in sorted(self.units, key=lambda each: UNITS.index(each.unit)):
            own = told.setdefault((line.name, line.team), [])
            if line.change is not None and all(abs(line.change.at - one.at) > _AT_ONCE_US for _, one in own):
                own.append((line, line.change))
        found = [pair for own in told.values() for pair in own]
        return tuple(sorted(found, key=lambda pair: -abs(pair[1].a_week)))


def unit_report(session: Session, period: Period, calendar: Calendar, currency: str) -> UnitReport:
    """Read the unit economics of a period."""
    hours = counted(session, period.start - BACK_US, period.end)
    weeks = weeks_between(period.start - BACK_US, known_part(session, period).end, calendar)
    return UnitReport(
        period,
        currency,
        _unit_lines(hours, period, like_before(session, period, calendar), weeks),
        _runs(session, period),
        _waits(session, period),
        gaps=gaps(session, period, "served", "latency", "progress"),
        corrections=corrections(session, period),
    )


def with_teams(session: Session, report: UnitReport, calendar: Calendar) -> UnitReport:
    """Return unit economics with how well teams used what they held, and how what trained scaled."""
    period = report.period
    before = like_before(session, period, calendar)
    return replace(
        report,
        compute=_compute_by_team(session, period, before if hours_of(session, before).complete else None),
        scaling=_scaling_report(session, period, period.start - BACK_US),
    )


def _unit_lines(
    hours: Mapping[Whose, Sequence[Hour]], period: Period, before: Period, weeks: Sequence[Period] = ()
) -> tuple[UnitLine, ...]:
    """Return the lines of what each name counts, of names that said enough of what they did."""
    found = []
    for (name, team), every in hours.items():
        now = [hour for hour in every if period.start <= hour.start < period.end]
        then = [hour for hour in every if before.start <= hour.start < before.end]
        for unit in UNITS:
            units = sum(hour.units(unit) or 0 for hour in now)
            if not units or not said_enough(now, unit):
                continue
            if unit is TOKENS_READ and said_enough(now, TOKENS_SERVED):
                continue  # how GPU time divides between reading and generating is not reported
            is_known = bool(sum(hour.units(unit) or 0 for hour in then)) and said_enough(then, unit)
            found.append(
                UnitLine(
                    name,
                    team,
                    unit,
                    units,
                    sum(hour.milliseconds for hour in now),
                    hours_cost(now),
                    sum(hour.units(unit) or 0 for hour in then) if is_known else None,
                    sum(hour.milliseconds for hour in then) if is_known else None,
                    hours_cost(then) if is_known else None,
                    changed(every, unit, period),
                    by_week(every, unit, weeks),
                )
            )
    return tuple(sorted(found, key=lambda line: (-(line.micros or 0), -line.milliseconds, line.name)))


def _runs(session: Session, period: Period) -> tuple[RunLine, ...]:
    (query,) = statements("finops/unit_cost/runs.sql")
    span: dict[str, object] = {
        "since": period.start - BACK_US,
        "start": period.start,
        "end": period.end,
        "least": _COMPLETED_LEAST,
    }
    return tuple(RunLine(*row) for row in session.rows(query, span))


def _waits(session: Session, period: Period) -> tuple[Wait, ...]:
    (query,) = statements("finops/unit_cost/waits.sql")
    return tuple(Wait(*row) for row in session.rows(query, {"start": period.start, "end": period.end}))
