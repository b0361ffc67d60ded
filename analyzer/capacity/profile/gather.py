"""Put a profile together from the ledger and what is read beside it, one subject after another."""

from collections.abc import Callable
from dataclasses import dataclass, field
from time import time_ns

from agent.version import installed_version
from analyzer.capacity.profile.advised import Advise, read_advised
from analyzer.capacity.profile.around import read_around
from analyzer.capacity.profile.caveats import caveats
from analyzer.capacity.profile.costs import unit_costs
from analyzer.capacity.profile.facts import (
    SCHEMA,
    CapacityProfile,
    Energy,
    MeasuredBy,
    Provenance,
    Represented,
    StateHours,
)
from analyzer.capacity.profile.instead import alternatives
from analyzer.capacity.profile.owned import free, holdings, kinds
from analyzer.capacity.profile.scale import read_scale
from analyzer.capacity.profile.signals import Signals, read_signals
from analyzer.capacity.profile.work import HeldRun, ProfileRequest, Work, read_work
from analyzer.finops.non_gpu_costs.energy import energy
from analyzer.finops.non_gpu_costs.text import rows_told
from analyzer.ledger.coverage import Hours, cluster, known_hours
from analyzer.prices.price_book import price_book
from analyzer.queries.statements import statements
from analyzer.settings.settings import Settings
from analyzer.states import booking
from collector.store.session import Session

_NOT_NAMED = "fleet"  # what settings call a fleet that nobody named
_MILLI = 1000
_NO_FACTORS = "at the GPUs alone: no [[energy]] row of the price file says more"


@dataclass(frozen=True, slots=True)
class Source:
    """A ledger with its settings, and by whose measurement it is."""

    session: Session
    settings: Settings
    advise: Advise  # what is recommended for a period, where no week that was kept has it
    by: MeasuredBy = "collector"
    site: str | None = None  # where the settings' name of the fleet is not it
    clock: Callable[[], int] = field(default=lambda: time_ns() // 1000)


def capacity_profile(source: Source, asked: ProfileRequest) -> CapacityProfile:
    """Return what the ledger and the readings beside it say of a team's work.

    Raises:
        ConfigError: the period cannot be read.
        LedgerError: the ledger has no such run or team, or nothing at all.
    """
    session, settings = source.session, source.settings
    work = read_work(session, settings.calendar, asked)
    known = known_hours(session, work.period)
    by_run = _booked(session, work)
    booked = _together(by_run)
    signals = read_signals(session, work)
    around = read_around(session, work, booked, signals)
    scaled = read_scale(session, work)
    owned = kinds(session, work)
    other = alternatives(session, work, owned, signals.memory)
    advised = read_advised(session, source.advise, work)
    units = unit_costs(session, work)
    return CapacityProfile(
        schema=SCHEMA,
        made=_made(source, work, known),
        currency=settings.currency,
        timezone=settings.timezone,
        team=work.team,
        project=work.project,
        since_us=work.period.start,
        until_us=work.period.end,
        runs=tuple(_represented(run, work, by_run) for run in work.runs),
        booked=booked,
        milliseconds=sum(each.milliseconds for each in booked),
        micros=_sum([each.micros for each in booked]),
        measured_ratio=_measured(booked),
        at_zero_ratio=signals.at_zero_ratio,
        distributions=signals.distributions,
        memory=signals.memory,
        scaling=scaled.table,
        scaling_of=scaled.of,
        knee_gpus=scaled.knee_gpus,
        data_path=around.data_path,
        communication=around.communication,
        alternatives=other,
        advice=advised.advice,
        checked=advised.checked,
        record=advised.record,
        holdings=holdings(session, work),
        free=free(session, work, owned),
        unit_costs=units,
        energy=_energy(signals, settings),
        caveats=caveats(
            session, work, known if source.by == "collector" else None, scaled, other, signals.memory, units
        ),
        chosen=work.chosen,
    )


def _made(source: Source, work: Work, known: Hours) -> Provenance:
    named = source.settings.cluster
    site = source.site or (named if named != _NOT_NAMED else cluster(source.session, work.period) or named)
    rules, prices = ", ".join(known.rules_versions), ", ".join(known.price_versions)
    return Provenance(source.clock(), source.by, site, _tool_version(), rules, prices or None)


def _tool_version() -> str:
    """Return the version that is installed; of a checkout that is not, that it is one."""
    return installed_version() or "a checkout"


def _represented(run: HeldRun, work: Work, by_run: dict[str, tuple[StateHours, ...]]) -> Represented:
    started = run.started_at if run.started_at is not None else work.period.start
    moments = (started, run.ended_at)
    amounts = (run.milliseconds, run.micros)
    whose = (run.team, by_run.get(run.run_id, ()))
    return Represented(run.run_id, run.name, run.stage, run.sku, run.gpus, *moments, *amounts, *whose)


def _booked(session: Session, work: Work) -> dict[str, tuple[StateHours, ...]]:
    """Return where the GPU time of each run went."""
    _, _, select = statements("capacity/profile/runs.sql")
    found: dict[str, tuple[StateHours, ...]] = {}
    for run_id, state, cause, *rest in work.rows(session, select):
        found[run_id] = (*found.get(run_id, ()), StateHours(booking(state, cause).klass, state, cause, *rest))
    return found


def _together(by_run: dict[str, tuple[StateHours, ...]]) -> tuple[StateHours, ...]:
    """Return where the GPU time of all runs went."""
    parts: dict[tuple[str, str, str | None], list[StateHours]] = {}
    for each in (each for own in by_run.values() for each in own):
        parts.setdefault((each.klass, each.state, each.cause), []).append(each)
    ordered = sorted(parts.items(), key=lambda part: (part[0][1], part[0][2] is None, part[0][2] or ""))
    return tuple(
        StateHours(*key, sum(each.milliseconds for each in own), _sum([each.micros for each in own]))
        for key, own in ordered
    )


def _measured(booked: tuple[StateHours, ...]) -> float:
    whole = sum(each.milliseconds for each in booked)
    silent = sum(each.milliseconds for each in booked if each.state == "unobserved")
    return round(1 - silent / whole, 6) if whole else 0.0


def _sum(amounts: list[int | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None


def _energy(signals: Signals, settings: Settings) -> Energy | None:
    """Return the joules, with cooling and as carbon where the price file says by what; each hour by its own row."""
    if not signals.drawn:
        return None
    sums = energy(signals.drawn, price_book(settings).beside.energy)
    facility = _sum([one.facility_millijoules for one in sums])
    carbon = _sum([one.carbon_milligrams for one in sums])
    return Energy(
        sum(one.gpu_millijoules for one in sums) // _MILLI,
        None if facility is None else facility // _MILLI,
        None if carbon is None else carbon // _MILLI,
        "; ".join(dict.fromkeys(rows_told(one) for one in sums if one.rows)) or _NO_FACTORS,
    )
