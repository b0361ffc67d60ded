"""Put a profile together from the ledger and what is read beside it, one subject after another."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import time_ns

from agent.child import installed_version
from agent.wire.units import PERMILLE, WEEK_SECONDS
from analyzer.capacity.profile.facts import (
    SCHEMA,
    Alternative,
    CapacityProfile,
    CheckedChange,
    Energy,
    MeasuredBy,
    Memory,
    OpenAdvice,
    Provenance,
    Record,
    Represented,
    Spread,
    StateHours,
    UnitCost,
)
from analyzer.capacity.profile.readings import (
    Scaled,
    Signals,
    alternatives,
    free,
    holdings,
    kinds,
    read_around,
    read_scale,
    read_signals,
    unit_costs,
)
from analyzer.capacity.profile.work import HeldRun, ProfileRequest, Work, read_work
from analyzer.findings.words import rule_words
from analyzer.finops.non_gpu_costs.energy import energy
from analyzer.finops.non_gpu_costs.text import rows_told
from analyzer.ledger.coverage import Hours, cluster, known_hours, not_judged
from analyzer.period import Period
from analyzer.prices.price_book import price_book
from analyzer.queries.statements import statements
from analyzer.recommendations.lifecycle.lifecycle_tables import lifecycle_statuses, predictions
from analyzer.recommendations.lifecycle.prediction import Prediction
from analyzer.recommendations.lifecycle.realised import Realised, all_realised, case_of
from analyzer.recommendations.recommendation import Recommendation
from analyzer.settings.settings import Settings
from analyzer.states import booking
from analyzer.text.words import counted, plain
from collector.store.session import Session

Advise = Callable[["Period"], "Sequence[Recommendation]"]  # what is recommended against the findings of a period

_SPREAD = ("p20", "p50", "p80")
_NAMES_SHOWN = 5
# What is saved of a run is never said to be more than this of it: the rest of the work still has to be done somewhere.
_SAVED_MOST_PERMILLE = 900


@dataclass(frozen=True, slots=True)
class Advised:
    """Open recommendations, those that free most first; changes of this team that were checked; the record of all."""

    advice: tuple[OpenAdvice, ...]
    checked: tuple[CheckedChange, ...]
    record: Record


def _read_advised(session: Session, advise: Advise, work: Work) -> Advised:
    """Return it. What was written down for a whole week is taken as it was; else it is worked out now, by `advise`."""
    standings = lifecycle_statuses(session)
    done = all_realised(session, [one for one in standings if one.applied_at is not None])
    cases = [case for one in done if (case := case_of(one)) is not None]
    inside = sum(case.predicted["p20"] <= case.realised <= case.predicted["p80"] for case in cases)
    checked = tuple(_checked(one) for one in done if work.team is not None and one.prediction.team == work.team)
    kept = _kept(session, work)
    if kept:
        closed = {one.id for one in standings if one.stage in ("rejected", "applied")}
        advice = _of_kept([one for one in kept if one.recommendation_id not in closed], work)
    else:
        advice = _worked_out(session, advise, work)
    return Advised(tuple(sorted(advice, key=lambda one: (-one.frees.p50, one.id))), checked, Record(len(cases), inside))


def _kept(session: Session, work: Work) -> list[Prediction]:
    """Return the newest prediction of each recommendation that was made of hours of the period."""
    start, end = work.period.start, work.period.end
    newest = {one.recommendation_id: one for one in predictions(session) if one.span.start < end > start < one.span.end}
    return list(newest.values())


def _of_kept(kept: Sequence[Prediction], work: Work) -> list[OpenAdvice]:
    found = []
    for one in kept:
        own = [run for run in work.runs if run.run_id in one.run_ids]
        if own and one.held.milliseconds:
            part = (sum(run.milliseconds for run in own), one.weekly(one.held.milliseconds))
            week, money = one.saves_milliseconds, one.saves_micros
            names = tuple(dict.fromkeys(run.name or run.run_id for run in own))[:_NAMES_SHOWN]
            found.append(_open((one.recommendation_id, one.title, one.kind), names, week, money, part, None))
    return [one for one in found if one.frees.p50 > 0]


def _worked_out(session: Session, advise: Advise, work: Work) -> list[OpenAdvice]:
    found = []
    for one in advise(work.period):
        own = [run for run in work.runs if run.run_id in one.run_ids]
        held = _held(session, one.run_ids, work)
        if own and held:
            part = (sum(run.milliseconds for run in own), held * one.saves_over_seconds * 1000 // work.span_ms)
            week, money = (
                None if saves is None else {name: getattr(saves, name) for name in _SPREAD}
                for saves in (one.saves_milliseconds, one.saves_micros)
            )
            names = tuple(dict.fromkeys(run.name or run.run_id for run in own))[:_NAMES_SHOWN]
            if one.saves_over_seconds != WEEK_SECONDS:  # too short a time to say anything of a week
                money = None
            if week is not None:
                found.append(_open((one.id, one.title, one.kind), names, week, money, part, _line(one)))
    return [one for one in found if one.frees.p50 > 0]


def _held(session: Session, run_ids: Sequence[str], work: Work) -> int:
    ((held,),) = work.rows(
        session,
        "SELECT coalesce(sum(milliseconds), 0)::BIGINT FROM ledger WHERE hour >= $start AND hour < $end "
        "AND list_contains($runs::VARCHAR[], run_id)",
        runs=list(run_ids),
    )
    return int(held)


def _open(
    what: tuple[str, str, str],
    names: tuple[str, ...],
    saves: Mapping[str, int],
    money: Mapping[str, int] | None,
    part: tuple[int, int],
    paste: str | None,
) -> OpenAdvice:
    """Return one; `part` is what its runs held in the profile's period, and all its runs in the span of `saves`."""
    held, whole = part
    most = held * _SAVED_MOST_PERMILLE // PERMILLE
    frees = Spread(*(min(most, max(0, saves[name] * held // max(1, whole))) for name in _SPREAD))
    speed = Spread(*(PERMILLE * held // (held - each) for each in (frees.p20, frees.p50, frees.p80)))
    micros = None if money is None else Spread(*(money[name] for name in _SPREAD))
    return OpenAdvice(*what, names, frees, speed, micros, paste)


def _line(advice: Recommendation) -> str | None:
    """Return the first of its lines that does something; none where that may end somebody's work."""
    if advice.ends_work:
        return None
    lines = (line.strip() for line in advice.artefact.splitlines())
    return next((line for line in lines if line and (not line.startswith("#") or line.startswith("#SBATCH"))), None)


def _checked(one: Realised) -> CheckedChange:
    prediction, case = one.prediction, case_of(one)
    return CheckedChange(
        prediction.recommendation_id,
        prediction.title,
        None if prediction.saves_micros is None else prediction.saves_micros["p50"],
        None if one.micros is None else one.micros.likely,
        None if case is None else case.predicted["p20"] <= case.realised <= case.predicted["p80"],
    )


_RULES_SHOWN = 6
_SETTLED = ("closed", "final")


def caveats(
    session: Session,
    work: Work,
    known: Hours | None,
    scaled: Scaled,
    alternatives: Sequence[Alternative],
    memory: Sequence[Memory],
    units: Sequence[UnitCost],
) -> tuple[str, ...]:
    """Return them as sentences, what touches the most first. `known` is None of a recording, which is whole."""
    said = [
        *([] if known is None else _of_hours(work, known)),
        *_of_price(work),
        *_of_scaling(work, scaled),
        *([] if known is None else _of_alternatives(alternatives)),
        *(["The memory of the GPUs was not read."] if not memory else []),
        *([f"{units[0].unit.capitalize()} are as the runs report them."] if units else []),
        *_of_rules(session, work),
    ]
    return tuple(dict.fromkeys(said))


def _of_hours(work: Work, known: Hours) -> Iterator[str]:
    if known.known < known.expected:
        yield f"The ledger has {known.known} of the period's {counted(known.expected, 'hour')}."
    if known.status not in _SETTLED:
        status = "preliminary" if known.status == "provisional" else known.status or "unknown"
        yield f"Hours of the period are still {status}: late telemetry may change figures."
    running = [run for run in work.runs if run.ended_at is None]
    if running:
        verb = "runs" if len(running) == 1 else "run"
        yield f"{counted(len(running), 'run')} of {len(work.runs)} still {verb}: later hours are not included."


def _of_price(work: Work) -> Iterator[str]:
    if any(run.micros is None for run in work.runs):
        yield "A part of the GPU time has no price, so that it has no cost here; name its price in the price file."


def _of_scaling(work: Work, scaled: Scaled) -> Iterator[str]:
    if scaled.because is not None:
        said = "The table of sizes is not complete" if scaled.table else "Scaling is not known"
        yield f"{said}: {plain(scaled.because)}."
    if scaled.table and len(work.names) > 1:
        yield f"The table of sizes is of {plain(scaled.of or 'the largest run')} only."


def _of_alternatives(alternatives: Sequence[Alternative]) -> Iterator[str]:
    for one in alternatives:
        if not one.tried and one.what == "another kind of GPU":
            yield f"{plain(one.sku)} was not tried with this work."
    if not alternatives:  # of work on several GPUs, or on the smallest kind
        yield "The fleet has no cheaper or smaller kind of GPU."


def _of_rules(session: Session, work: Work) -> Iterator[str]:
    found: dict[tuple[str, str], int] = {}
    for run in work.runs:
        for one in not_judged(session, work.period, run.run_id):
            found[one.rule, one.missing] = found.get((one.rule, one.missing), 0) + 1
    most = sorted(found, key=lambda key: (-found[key], key))
    for rule, missing in most[:_RULES_SHOWN]:
        runs = counted(found[rule, missing], "run")
        yield f"Insufficient data in {runs}: {plain(rule_words(rule))} ({plain(missing)})."
    if len(most) > _RULES_SHOWN:
        yield f"{counted(len(most) - _RULES_SHOWN, 'other rule')} lacked a signal too."


_A_CHECKOUT = "a checkout"  # that is not installed, and has no version
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
    data_path, communication = read_around(session, work, booked, signals)
    scaled = read_scale(session, work)
    owned = kinds(session, work)
    other = alternatives(session, work, owned, signals.memory)
    advised = _read_advised(session, source.advise, work)
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
        data_path=data_path,
        communication=communication,
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
    return Provenance(source.clock(), source.by, site, installed_version() or _A_CHECKOUT, rules, prices or None)


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
