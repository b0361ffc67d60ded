"""Carry a day's windows from the store to the judge and its verdicts back."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import groupby
from operator import attrgetter

from agent.wire.units import HOUR_MS
from analyzer.ledger import fabric
from analyzer.ledger.causes import exchange
from analyzer.ledger.causes.exchange import Usual
from analyzer.ledger.causes.serving.holding import hold_to_policy
from analyzer.ledger.causes.serving.services import Service
from analyzer.ledger.classifier import Classifier
from analyzer.ledger.pending import Chunk
from analyzer.ledger.thresholds import CONTEXT_MS, Thresholds
from analyzer.ledger.unjudged import Unjudged, unjudged
from analyzer.ledger.windows import POLICY_FIELDS, RunFacts, RunWindow, Verdict
from collector.store.session import Session

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
    fabric.learn(session, windows, facts, limits)
    rates = fabric.rates(session, chunk.from_ms * 1000, chunk.until_ms * 1000)
    across = {
        window.window_ms // HOUR_MS * HOUR_MS * 1000 for window in windows if (facts[window.run_id].racks or 0) > 1
    }
    fabric.keep(session, {hour: rates[hour] for hour in across})  # who lies in one rack is not judged by it
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
            verdicts += seen.verdicts(len(hour), rates[hour_ms * 1000], _habit(past, hour, seen.windows, limits))
            missing += unjudged(hour, facts[run_id], limits)
    served = hold_to_policy(session, chunk, services, windows, verdicts, limits)
    _keep(session, served.windows, served.verdicts, missing + served.unjudged)


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
        """Return the windows before this one whose links carried anything."""
        if self._far is None:
            rows = self._session.rows(
                "SELECT counts FROM run_windows WHERE run_id = ? AND window_start < ? ORDER BY window_start",
                [self._run_id, self._from_ms * 1000],
            )
            self._far = [window for (counts,) in rows if (window := RunWindow.from_json(counts)).nvlink_kb]
        return self._far + [window for window in self._near if window.window_ms < window_ms]


def _habit(past: _Past, hour: Sequence[RunWindow], seen: Sequence[RunWindow], limits: Thresholds) -> Usual:
    """Return how the run usually works; where its links have been silent for hours, how it did before that."""
    habit = exchange.usual(seen)
    if habit.link_kb is not None or not any(exchange.spins_in_silence(window, limits) for window in hour):
        return habit
    return exchange.usual(past.before(hour[0].window_ms))


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
