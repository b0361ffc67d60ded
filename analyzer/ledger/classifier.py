"""One verdict a run and window: each detector in the order of precedence, pure, with nothing but windows and facts."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import groupby
from operator import attrgetter

from agent.wire.units import HOUR_MS
from analyzer.ledger.causes import exchange, input_starvation, underused
from analyzer.ledger.causes.exchange import (
    ExchangeJudgement,
    HourOfFabric,
    Usual,
    fabric_of,
    in_rack_rates,
    keep_rates,
    learn_rates,
)
from analyzer.ledger.causes.input_starvation import InputJudgement, Sign, by_own_word
from analyzer.ledger.causes.serving_holding import hold_to_policy
from analyzer.ledger.causes.serving_policy import Service
from analyzer.ledger.causes.straggler import NONE_BEHIND, Lag, straggler_lag
from analyzer.ledger.coverage import Unjudged, unjudged_windows
from analyzer.ledger.pending import Chunk
from analyzer.ledger.thresholds import CONTEXT_MS, Thresholds
from analyzer.ledger.windows import POLICY_FIELDS, RunFacts, RunWindow, Verdict
from collector.store.session import Session


class Classifier:
    """Knows the windows of one run, in order of time, and judges any of them in the light of those about it."""

    def __init__(self, windows: Sequence[RunWindow], facts: RunFacts, limits: Thresholds) -> None:
        self._windows, self._facts, self._limits = windows, facts, limits
        self._starts = [window.window_ms for window in windows]
        self._signs = [input_starvation.sign(window, limits) for window in windows]

    def seen(self, from_ms: int, until_ms: int) -> "ClassifierWindows":
        """Return what is known of the run in [from_ms, until_ms)."""
        first, last = bisect_left(self._starts, from_ms), bisect_left(self._starts, until_ms)
        return ClassifierWindows(self._windows[first:last], self._signs[first:last], self._facts, self._limits)


@dataclass(frozen=True, slots=True)
class ClassifierWindows:
    """Windows of one run that abut or nearly, with what each shows by itself."""

    windows: Sequence[RunWindow]
    signs: Sequence[Sign]
    facts: RunFacts
    limits: Thresholds

    def verdicts(self, count: int, in_rack_rate: int | None, habit: Usual) -> list[Verdict]:
        """Judge the last `count` of the windows in the light of all.

        `in_rack_rate` is what exchanges inside a rack were seen to reach, in bytes a second and host; `habit` what the
        run's links carry and its boards draw while it works.
        """
        inputs = input_starvation.detect(self.signs, self.limits, count)
        hung = exchange.hung_windows(self.windows, self.facts.gpus, habit, self.limits)
        judged = zip(self.windows[-count:], inputs, hung[-count:], strict=True)
        return [
            Verdict(window.run_id, window.window_ms, is_hung=True, hang_confidence=hang.confidence)
            if hang.is_hung
            else _verdict(window, self.facts, judgement, in_rack_rate, self.limits, is_edge=hang.is_edge)
            for window, judgement, hang in judged
        ]


def _verdict(
    window: RunWindow,
    facts: RunFacts,
    judged: InputJudgement,
    in_rack_rate: int | None,
    limits: Thresholds,
    *,
    is_edge: bool,
) -> Verdict:
    exchanged = exchange.NO_EXCHANGE if is_edge else exchange.detect(window, facts, in_rack_rate, limits)
    is_waiting = is_edge or (exchange.waits_for_ranks(window, facts.gpus, limits) and not exchanged.is_exchanging)
    # A mean over ranks of which some wait says nothing of what the others use of the chip.
    use = underused.FULL_USE if is_waiting else underused.detect(window, facts, limits)
    launches = use.cause == "launch_bound"
    lag = NONE_BEHIND if is_waiting else straggler_lag(window, limits)
    moved, lagging = _divided(window, exchanged, lag)
    steady = min(1000 - lagging, exchange.steady_permille(window, facts, in_rack_rate, limits))
    crossing = exchange.crossing_permille(window, facts, in_rack_rate, limits)
    verdict = Verdict(
        window.run_id,
        window.window_ms,
        is_low=judged.is_low and not launches,
        input_cause=judged.cause if judged.is_booked and not launches else None,
        input_suspicion=None if judged.is_booked or launches else judged.cause,
        input_confidence=judged.confidence,
        is_exchanging=moved.is_exchanging,
        spins_for="hang" if is_edge else "collective" if is_waiting else None,
        straggler_permille=moved.straggler_permille,
        cross_rack_permille=moved.cross_rack_permille,
        steady_permille=steady,
        crossing_permille=min(crossing, 1000 - lagging - steady),
        lagging_permille=lagging,
        is_uneven=lag.is_uneven and moved.caused_by is None,
        exchange_confidence=moved.confidence,
        caused_by=moved.caused_by or lag.caused_by,
        is_underused=use.cause is not None and not moved.is_exchanging,
        underused_cause=use.cause,
        underused_confidence=use.confidence,
        is_service=facts.is_service,
        is_interactive=facts.is_interactive and _rests(window, limits),
        work=_work(window, facts, limits),
    )
    return by_own_word(window, verdict, limits)


def _divided(window: RunWindow, moved: ExchangeJudgement, lag: Lag) -> tuple[ExchangeJudgement, int]:
    """Divide the wait for a rank that is behind: what stands out as a shortfall first, the rest from every step.

    A run's own best holds what recurs in every step, so that a lag that is always there leaves little shortfall.
    """
    short = window.short if moved.is_exchanging else 0
    left = 1000 - window.still - short
    if lag.permille <= 0 or left <= 0:
        return moved, 0
    if lag.permille >= short:
        all_of_it = replace(moved, straggler_permille=1000 if short else 0, cross_rack_permille=0)
        return all_of_it, min(1000, (lag.permille - short) * 1000 // left)
    of_short = max(moved.straggler_permille, lag.permille * 1000 // short)
    crossing = moved.cross_rack_permille * (1000 - of_short) // max(1, 1000 - moved.straggler_permille)
    return replace(moved, straggler_permille=of_short, cross_rack_permille=crossing), 0


def _rests(window: RunWindow, limits: Thresholds) -> bool:
    """Say whether a session's processes were seen to rest, as they do while its person thinks.

    What computes or loads while its GPU stands still is waited for, whatever the queue is called. Where nothing is told
    of them, only ten minutes without any kernel are a rest.
    """
    if window.cores_used_milli is not None:
        return window.cores_used_milli < limits.one_core_least_milli
    if window.workers is not None:
        return (window.busiest or 0) < limits.worker_seen_permille
    return window.still >= limits.full_permille


def _work(window: RunWindow, facts: RunFacts, limits: Thresholds) -> str:
    if facts.stage == "evaluation":
        return "evaluation"
    if facts.is_service:
        return "decode"
    streams = window.dram is not None and window.dram >= limits.bandwidth_dram_permille
    return "memory_bandwidth" if streams and (window.tensor or 0) < limits.bandwidth_tensor_permille else "compute"


_COLUMNS = tuple(field.name for field in fields(RunWindow) if field.name not in POLICY_FIELDS)
_VERDICT_COLUMNS = tuple(field.name for field in fields(Verdict))
_VERDICT_VALUES = attrgetter(*_VERDICT_COLUMNS)
_SQL_TYPES: dict[object, str] = {bool: "BOOLEAN", int: "BIGINT"}  # by a field's annotation; all else is text


def classify_chunk(
    session: Session,
    chunk: Chunk,
    facts: Mapping[str, RunFacts],
    limits: Thresholds,
    services: Sequence[Service] = (),
) -> None:
    """Judge `run_windows_here`, keep windows and verdicts in the store, and fill the temporary table `verdicts`."""
    windows = _windows(session)
    _forget(session, chunk)
    learn_rates(session, windows, facts, limits)
    # Who lies in one rack is not judged by it.
    across = {_hour_of_fabric(window, facts) for window in windows if (facts[window.run_id].racks or 0) > 1}
    rates = in_rack_rates(session, across)
    keep_rates(session, rates)
    before = _stored(session, chunk)
    verdicts: list[Verdict] = []
    missing: list[Unjudged] = []
    for run_id, of_run in groupby(windows, key=lambda window: window.run_id):
        own = list(of_run)
        near = sorted(before[run_id] + own, key=lambda window: window.window_ms)
        judge = Classifier(near, facts[run_id], limits)
        past = _Past(session, run_id, near, chunk.from_ms - CONTEXT_MS)
        for hour_ms, of_hour in groupby(own, key=lambda window: window.window_ms // HOUR_MS * HOUR_MS):
            hour = list(of_hour)
            seen = judge.seen(hour_ms - CONTEXT_MS, hour_ms + HOUR_MS)
            rate = rates.get(_hour_of_fabric(hour[0], facts))
            verdicts += seen.verdicts(len(hour), rate, _habit(past, hour, seen.windows, limits))
            missing += unjudged_windows(hour, facts[run_id], rate, limits)
    served = hold_to_policy(session, chunk, services, windows, verdicts, limits)
    _keep(session, served.windows, served.verdicts, missing + served.unjudged)


def _hour_of_fabric(window: RunWindow, facts: Mapping[str, RunFacts]) -> HourOfFabric:
    return window.window_ms // HOUR_MS * HOUR_MS * 1000, fabric_of(window, facts[window.run_id].sku)


def _windows(session: Session) -> list[RunWindow]:
    rows = session.rows(f"SELECT {', '.join(_COLUMNS)} FROM run_windows_here ORDER BY run_id, window_ms")
    return [RunWindow(*row) for row in rows]  # the columns are the first fields, in their order


def _forget(session: Session, chunk: Chunk) -> None:
    """Remove what an earlier pass said of these runs and hours: a run may no longer have a window that it had."""
    span = [chunk.from_ms * 1000, chunk.until_ms * 1000]
    for table, column, run in (
        ("run_windows", "window_start", "run_id"),
        ("in_rack_rates", "window_start", "run_id"),
        ("not_evaluated", "hour", "subject"),
    ):
        if table in session.without_rows:
            continue
        session.execute(
            f"DELETE FROM {table} WHERE {column} >= ? AND {column} < ? "
            f"AND ({run}, {column} // 3600000000 * 3600000) IN (SELECT (run_id, hour_ms) FROM remade)",
            span,
        )


def _stored(session: Session, chunk: Chunk) -> dict[str, list[RunWindow]]:
    """Return the windows of the chunk's runs that were judged before, as far back as its hours look."""
    found: dict[str, list[RunWindow]] = defaultdict(list)
    rows = session.rows(
        "SELECT counts FROM run_windows WHERE window_start >= ? AND window_start < ? "
        "AND run_id IN (SELECT run_id FROM remade)",
        [(chunk.from_ms - CONTEXT_MS) * 1000, chunk.until_ms * 1000],
    )
    for (counts,) in rows:
        window = RunWindow.from_json(counts)
        found[window.run_id].append(window)
    return found


class _Past:
    """What a run did before an hour, from its first hour on; what lies before the chunk's look-back is read once."""

    def __init__(self, session: Session, run_id: str, near: Sequence[RunWindow], from_ms: int) -> None:
        self._session = session
        self._run_id = run_id
        self._near = near  # from from_ms on
        self._from_ms = from_ms
        self._far: list[RunWindow] | None = None

    def before(self, window_ms: int) -> list[RunWindow]:
        """Return the windows before this one."""
        if self._far is None:
            rows = self._session.rows(
                "SELECT counts FROM run_windows WHERE run_id = ? AND window_start < ? ORDER BY window_start",
                [self._run_id, self._from_ms * 1000],
            )
            self._far = [RunWindow.from_json(counts) for (counts,) in rows]
        return self._far + [window for window in self._near if window.window_ms < window_ms]


def _habit(past: _Past, hour: Sequence[RunWindow], seen: Sequence[RunWindow], limits: Thresholds) -> Usual:
    """Return how the run usually works; where it has spun for hours, how it did before that."""
    habit = exchange.usual(seen)
    is_known = habit.link_kb is not None and any(exchange.has_worked(window, limits) for window in seen)
    if is_known or not any(exchange.spins_in_silence(window, limits) for window in hour):
        return habit
    earlier = past.before(hour[0].window_ms)
    has_worked = any(exchange.has_worked(window, limits) for window in earlier)
    return replace(habit if habit.link_kb is not None else exchange.usual(earlier), has_worked=has_worked)


def _keep(session: Session, windows: list[RunWindow], verdicts: list[Verdict], missing: list[Unjudged]) -> None:
    columns = ("run_id", "window_start", "counts", "verdict")
    rows = [
        (window.run_id, window.window_ms * 1000, window.as_json(), verdict.as_json())
        for window, verdict in zip(windows, verdicts, strict=True)
    ]
    session.load("run_windows", columns, rows, replace=True)
    not_judged = [(each.hour_us, each.subject, each.rule, each.missing) for each in missing]
    session.load("not_evaluated", ("hour", "subject", "rule", "missing"), not_judged, replace=True)
    _load_verdicts(session, verdicts)


def _load_verdicts(session: Session, verdicts: list[Verdict]) -> None:
    """Fill the temporary table `verdicts`, by run number and window."""
    columns = ", ".join(f"{field.name} {_SQL_TYPES.get(field.type, 'VARCHAR')}" for field in fields(Verdict))
    session.execute(f"CREATE OR REPLACE TEMP TABLE said ({columns})")
    session.load("said", _VERDICT_COLUMNS, [_VERDICT_VALUES(verdict) for verdict in verdicts])
    session.execute(
        """
        CREATE OR REPLACE TEMP TABLE verdicts AS
        SELECT k.rid, s.* EXCLUDE (run_id) FROM said s JOIN run_keys k USING (run_id)
        """
    )
