"""Carry a day's windows from the store to the judge and its verdicts back."""

from bisect import insort
from dataclasses import fields
from itertools import groupby
from typing import TYPE_CHECKING

from analyzer.days import DAY_US
from analyzer.detectors import exchange
from analyzer.judge import judge, usual_link_kb
from analyzer.thresholds import Thresholds
from analyzer.unjudged import Unjudged, unjudged
from analyzer.windows import RunFacts, RunWindow, Verdict

if TYPE_CHECKING:
    from collector.store.session import Session

_COLUMNS = tuple(field.name for field in fields(RunWindow))
_VERDICT_COLUMNS = tuple(field.name for field in fields(Verdict))
_SQL_TYPES: dict[object, str] = {bool: "BOOLEAN", int: "BIGINT"}  # by a field's annotation; all else is text


def judge_day(session: "Session", day_ms: int, facts: dict[str, RunFacts], limits: Thresholds) -> None:
    """Judge `run_windows_here`, keep windows and verdicts in the store, and fill the temporary table `verdicts`."""
    windows = _windows(session)
    _forget(session, day_ms * 1000)
    rates = _in_rack_rates(session, day_ms * 1000, windows, facts)
    verdicts: list[Verdict] = []
    missing: list[Unjudged] = []
    for run_id, of_run in groupby(windows, key=lambda window: window.run_id):
        own = list(of_run)
        verdicts += judge(own, facts[run_id], rates, limits, _earlier(session, own))
        missing += unjudged(own, facts[run_id], limits)
    _keep(session, windows, verdicts, missing)


def _windows(session: "Session") -> list[RunWindow]:
    rows = session.rows(f"SELECT {', '.join(_COLUMNS)} FROM run_windows_here ORDER BY run_id, window_ms")
    return [RunWindow(*row) for row in rows]


def _forget(session: "Session", day_us: int) -> None:
    """Remove what an earlier pass said of the day: a run may no longer have a window that it had."""
    day = [day_us, day_us + DAY_US]
    session.execute("DELETE FROM run_windows WHERE window_start >= ? AND window_start < ?", day)
    session.execute("DELETE FROM not_evaluated WHERE hour >= ? AND hour < ?", day)
    session.execute("DELETE FROM in_rack_rates WHERE window_start >= ? AND window_start < ?", day)


def _earlier(session: "Session", windows: list[RunWindow]) -> list[RunWindow]:
    """Return the run's windows of the day before, where today's links carry nothing: a hang may span midnight."""
    if windows[0].gpus < 2 or usual_link_kb(windows) is not None:
        return []
    first_us = windows[0].window_ms * 1000
    rows = session.rows(
        """
        SELECT counts FROM run_windows WHERE run_id = ? AND window_start >= ? AND window_start < ?
        ORDER BY window_start
        """,
        [windows[0].run_id, first_us - 86_400_000_000, first_us],
    )
    return [RunWindow.from_json(counts) for (counts,) in rows]


def _in_rack_rates(
    session: "Session", day_us: int, windows: list[RunWindow], facts: dict[str, RunFacts]
) -> dict[int, int | None]:
    """Return, by window, the median of what exchanges inside a rack were seen to reach up to and with it."""
    new = [
        (window.run_id, window.window_ms * 1000, seen)
        for window in windows
        if facts[window.run_id].racks == 1 and (seen := exchange.rate(window)) is not None
    ]
    session.load("in_rack_rates", ("run_id", "window_start", "bytes_per_second"), new)
    known = session.rows("SELECT bytes_per_second FROM in_rack_rates WHERE window_start < ? ORDER BY 1", [day_us])
    upto = [value for (value,) in known]
    coming = sorted((at // 1000, value) for _, at, value in new)
    medians: dict[int, int | None] = {}
    for window_ms in sorted({window.window_ms for window in windows}):
        while coming and coming[0][0] <= window_ms:
            insort(upto, coming.pop(0)[1])
        medians[window_ms] = upto[len(upto) // 2] if upto else None
    return medians


def _keep(session: "Session", windows: list[RunWindow], verdicts: list[Verdict], missing: list[Unjudged]) -> None:
    columns = ("run_id", "window_start", "counts", "verdict")
    rows = [
        (window.run_id, window.window_ms * 1000, window.as_json(), verdict.as_json())
        for window, verdict in zip(windows, verdicts, strict=True)
    ]
    session.load("run_windows", columns, rows, replace=True)
    not_judged = [(each.hour_us, each.subject, each.rule, each.missing) for each in missing]
    session.load("not_evaluated", ("hour", "subject", "rule", "missing"), not_judged, replace=True)
    load_verdicts(session, verdicts)


def load_verdicts(session: "Session", verdicts: list[Verdict]) -> None:
    """Fill the temporary table `verdicts`, by run number and window."""
    columns = ", ".join(f"{field.name} {_SQL_TYPES.get(field.type, 'VARCHAR')}" for field in fields(Verdict))
    session.execute(f"CREATE OR REPLACE TEMP TABLE said ({columns})")
    session.load(
        "said", _VERDICT_COLUMNS, [tuple(getattr(verdict, name) for name in _VERDICT_COLUMNS) for verdict in verdicts]
    )
    session.execute(
        """
        CREATE OR REPLACE TEMP TABLE verdicts AS
        SELECT k.rid, s.* EXCLUDE (run_id) FROM said s JOIN run_keys k USING (run_id)
        """
    )
