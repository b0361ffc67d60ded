"""Put together why one finding says what it says: what only `explain` needs, and no list."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.findings.explain.failures import broken_signs, lost_signs
from analyzer.findings.explain.idle import idle_gpus
from analyzer.findings.explain.plot import Plot, plot
from analyzer.findings.explain.ruled_out import RuledOut, ruled_out
from analyzer.findings.explain.signs import Context, Sign, idle_signs, signs
from analyzer.findings.finding import Finding
from analyzer.findings.ledger_findings import said_states
from analyzer.findings.rules.needs import Need, Severity, need, severity
from analyzer.ledger.causes.exchange import usual
from analyzer.ledger.thresholds import Thresholds
from analyzer.ledger.windows import RunWindow, Verdict
from analyzer.period import Period
from analyzer.queries.ledger_query import ledger_sums

if TYPE_CHECKING:
    from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class Argument:
    """What argues for and against a finding. `rules` are the versions by which its hours were judged."""

    signs: tuple[Sign, ...]
    ruled_out: tuple[RuledOut, ...]
    need: Need | None
    severity: Severity | None
    plot: Plot | None
    rules: tuple[str, ...]


def argue(
    session: "Session",
    finding: Finding,
    found: Sequence[Finding],
    period: Period,
    limits: Thresholds | None = None,
    *,
    with_signs: bool = True,
) -> Argument:
    """Return the argument of one finding of a period; `found` are all of that period.

    Without signs no sample is looked at: for who shows what was ruled out and no more.
    """
    limits = limits or Thresholds()
    judged = _judged(session, finding.run_ids, period)
    windows = [window for window, _ in judged]
    cause = finding.cause or None
    own = [window for window, verdict in judged if (finding.state, cause) in said_states(window, verdict)]
    runs = set(finding.run_ids)
    others = [one for one in found if one.id != finding.id and runs & set(one.run_ids)]
    waits = finding.state == "starved"
    seen: tuple[Sign, ...] = ()
    if with_signs and finding.state == "held_idle":
        seen = idle_signs(finding.cause, idle_gpus(session, finding, period, limits), own, limits)
    elif with_signs and finding.state == "broken":
        seen = broken_signs(session, finding, period, limits)
    elif with_signs and finding.state == "lost_work":
        seen = lost_signs(session, finding, period)
    elif with_signs:
        seen = signs(finding.state, finding.cause, own, limits, _context(session, finding, windows, period))
    return Argument(
        seen,
        ruled_out(finding, own, others, _overhead(session, finding, period), limits) if runs else (),
        need(own, finding.cause) if waits else None,
        severity(own) if waits else None,
        plot(session, finding, windows, (period.start, period.end), limits),
        _rules(session, finding),
    )


def _judged(session: "Session", run_ids: Sequence[str], period: Period) -> list[tuple[RunWindow, Verdict]]:
    rows = session.rows(
        "SELECT counts, verdict FROM run_windows WHERE window_start >= ? AND window_start < ? "
        "AND list_contains(?, run_id) ORDER BY run_id, window_start",
        [period.start, period.end, list(run_ids)],
    )
    return [(RunWindow.from_json(counts), Verdict.from_json(verdict)) for counts, verdict in rows]


def _context(session: "Session", finding: Finding, windows: Sequence[RunWindow], period: Period) -> Context:
    if finding.state != "communicating":
        return Context()
    (racks,) = session.row(
        "SELECT CASE WHEN count(*) = count(racks) THEN max(racks) END FROM runs WHERE list_contains(?, run_id)",
        [list(finding.run_ids)],
    )
    (fair,) = session.row(
        "SELECT quantile_disc(bytes_per_second, 0.5) FROM in_rack_rates WHERE window_start < ?", [period.end]
    )
    return Context(racks, fair, usual(windows).link_kb)


def _overhead(session: "Session", finding: Finding, period: Period) -> dict[str, int]:
    of_runs, runs = "list_contains(?, run_id)", [list(finding.run_ids)]
    found = dict.fromkeys(("collective", "checkpointing", "starting"), 0)
    for one in ledger_sums(session, "state", "cause", period=period, where=of_runs, values=runs):
        for name in found.keys() & set(one.keys):
            found[name] += one.milliseconds
    return found


def _rules(session: "Session", finding: Finding) -> tuple[str, ...]:
    rows = session.rows(
        "SELECT DISTINCT rules_version FROM ledger_hours WHERE hour >= ? AND hour < ? ORDER BY 1",
        [finding.first_at, finding.last_at],
    )
    return tuple(version for (version,) in rows)
