"""One seed: the week, what is recommended for it, and what each recommendation saves when it is applied."""

import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.wire.units import DAY_MS, WEEK_US
from analyzer.analysis import analyze
from analyzer.findings.finding import Finding
from analyzer.findings.ledger_findings import findings
from analyzer.period import Period
from analyzer.recommendations.recommendation import Range, Recommendation
from analyzer.reports.reader import Reader
from analyzer.settings.settings import Settings
from bench.demo_store import fill, prices_beside
from bench.savings.applied import change_of
from bench.savings.changes.apply import ChangedFleet, changed
from bench.savings.changes.change import Change
from bench.savings.measured import held_ms
from collector.store.database import Store
from collector.store.session import Session
from simulator.fleet import Fleet
from simulator.site import alpha_site

if TYPE_CHECKING:
    from simulator.plan import Run

SMALLEST_MS = 5 * 3_600_000  # a week, at P50: below it nobody would be asked to do anything
# Two on one GPU: a simulated GPU shows one of its holders, and pairs may outlast what the plan left of their GPUs.
NOT_SHOWN = ("pack", "slice")


@dataclass(frozen=True, slots=True)
class Trial:
    """One recommendation of one seed, followed. GPU-milliseconds a week."""

    seed: int
    kind: str
    subject: str
    cause: str
    change: str | None  # what was done on the site; None where the simulator cannot do it
    booked_ms: int  # the loss of all findings that it stands on
    predicted: dict[str, int | None]  # p5 to p95
    realised_ms: int | None  # by what is true
    second_ledger_ms: int | None = None  # by the ledgers of both weeks
    second_booked_ms: int | None = None  # what the second week's ledger still books of these findings


@dataclass(frozen=True, slots=True)
class Week:
    """What a ledger says of a week: GPU time by run, and by run, state and cause; and what is recommended."""

    held: dict[str, int]
    lost: dict[tuple[str, str, str], int]
    findings: tuple[Finding, ...]
    advice: tuple[Recommendation, ...]


def run_seed(seed: int, every: int = 60, *, second: bool = False) -> tuple[list[Trial], float]:
    """Return the trials of a seed and how many seconds it took; with `second` the changed week is analysed too."""
    began = time.monotonic()
    site = alpha_site(seed, every)
    fleet = Fleet(site)
    week = analysed(fleet)
    runs: dict[str, tuple[Run, ...]] = defaultdict(tuple)
    for run in fleet.runs:
        runs[run.plan.number] += (run,)
    known = {finding.id: finding for finding in week.findings}
    asked = [
        (advice, tuple(known[each] for each in advice.finding_ids))
        for advice in week.advice
        if advice.finding_ids and stands(advice) and advice.saves_milliseconds.p50 >= SMALLEST_MS
    ]
    pairs = [(advice, on, change_of(advice, on[0], runs)) for advice, on in asked]
    trials = [_trial(fleet, advice, on, change) for advice, on, change in pairs]
    if second:
        trials = _with_second(fleet, week, [(on, change) for _, on, change in pairs], trials)
    return trials, time.monotonic() - began


def analysed(fleet: Fleet) -> Week:
    """Return what the ledger says of a fleet's week, by the whole path: encoded, landed, analysed."""
    start, end = fleet.site.started_at, fleet.site.started_at + fleet.site.span * 1_000
    # A file: a checkpoint of a store in memory of this size ended the process (DuckDB 1.5.5, seeds 1 and 2).
    with tempfile.TemporaryDirectory() as directory, Store.open(Path(directory) / "store.duckdb") as store:
        fill(store, fleet, DAY_MS)
        settings = Settings(prices=prices_beside(Path(directory)))
        analyze(store, settings, now_us=end)
        with store.session() as session:
            found = findings(session, start, end)
            reader = Reader(session, settings)
            return Week(
                *_booked(session), tuple(found), tuple(reader.advice(found, Period(start, end, "the week", "UTC")))
            )


def _booked(session: Session) -> tuple[dict[str, int], dict[tuple[str, str, str], int]]:
    rows = session.rows(
        "SELECT run_id, state, coalesce(cause, ''), sum(milliseconds)::BIGINT FROM ledger "
        "WHERE run_id IS NOT NULL GROUP BY ALL"
    )
    held: dict[str, int] = defaultdict(int)
    lost: dict[tuple[str, str, str], int] = {}
    for run_id, state, cause, ms in rows:
        held[run_id] += ms
        lost[run_id, state, cause] = ms
    return dict(held), lost


def _trial(fleet: Fleet, advice: Recommendation, on: Sequence[Finding], change: Change | None) -> Trial:
    site = fleet.site
    realised = None
    if change is not None:
        before = tuple(run for run in fleet.runs if run.plan.number in change.runs)
        realised = held_ms(before) - held_ms(changed(before, [change], site))
        realised = realised * WEEK_US // (site.span * 1_000)
    return Trial(
        fleet.site.seed,
        advice.kind,
        on[0].subject.partition(" (")[0],
        on[0].cause,
        change.kind if change else None,
        sum(finding.milliseconds for finding in on),
        quantiles(advice.saves_milliseconds),
        realised,
    )


def stands(advice: Recommendation) -> bool:
    """Return whether nothing speaks against following it: no check of its own fails, and no better one replaces it."""
    checks = getattr(advice, "constraints", ())
    held = getattr(advice, "held_back", None) or getattr(advice, "instead_of", None)
    return held is None and all(check.holds is not False for check in checks)


def quantiles(predicted: Range) -> dict[str, int | None]:
    """Return a prediction from P5 to P95; None where it says no such quantile."""
    return {name: getattr(predicted, name, None) for name in ("p5", "p20", "p50", "p80", "p95")}


def _with_second(
    fleet: Fleet, week: Week, pairs: Sequence[tuple[Sequence[Finding], Change | None]], trials: list[Trial]
) -> list[Trial]:
    """Return the trials with the second week's ledger beside: as many changes as touch different runs, at once."""
    chosen: dict[int, Change] = {}
    touched: set[str] = set()
    for at, (_, change) in enumerate(pairs):
        if change is not None and change.kind not in NOT_SHOWN and not touched & set(change.runs):
            touched |= set(change.runs)
            chosen[at] = change
    after = analysed(ChangedFleet(fleet.site, tuple(chosen.values())))
    made = list(trials)
    for at in chosen:
        on = pairs[at][0]
        saved = sum(week.held.get(run, 0) - after.held.get(run, 0) for run in on[0].run_ids)
        left = sum(after.lost.get((run, each.state, each.cause), 0) for each in on for run in each.run_ids)
        made[at] = replace(trials[at], second_ledger_ms=saved, second_booked_ms=left)
    return made


def as_row(trial: Trial) -> dict[str, Any]:
    """Return a trial as it is kept."""
    return asdict(trial)
