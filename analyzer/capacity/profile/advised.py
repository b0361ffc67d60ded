"""What is recommended for these runs and not yet done, and what came of what the team did."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agent.wire.units import PERMILLE, WEEK_SECONDS
from analyzer.capacity.profile.facts import CheckedChange, OpenAdvice, Record, Spread
from analyzer.capacity.profile.work import Work
from analyzer.period import Period
from analyzer.recommendations.lifecycle.lifecycle_tables import lifecycle_statuses, predictions
from analyzer.recommendations.lifecycle.prediction import Prediction
from analyzer.recommendations.lifecycle.realised import Realised, all_realised, case_of
from analyzer.recommendations.recommendation import Recommendation
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


def read_advised(session: Session, advise: Advise, work: Work) -> Advised:
    """Return it. What was written down for a whole week is taken as it was; else it is worked out now, by `advise`."""
    standings = lifecycle_statuses(session)
    done = all_realised(session, [one for one in standings if one.applied_at is not None])
    cases = [case for one in done if (case := case_of(one)) is not None]
    inside = sum(case.predicted["p20"] <= case.realised <= case.predicted["p80"] for case in cases)
    checked = tuple(
        _checked(one) for one in done if work.team is not None and one.standing.prediction.team == work.team
    )
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
    prediction, case = one.standing.prediction, case_of(one)
    return CheckedChange(
        prediction.recommendation_id,
        prediction.title,
        None if prediction.saves_micros is None else prediction.saves_micros["p50"],
        None if one.micros is None else one.micros.likely,
        None if case is None else case.predicted["p20"] <= case.realised <= case.predicted["p80"],
    )
