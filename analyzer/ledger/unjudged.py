"""Which rules could not be judged for want of a signal: not evaluated is an answer, and accuses nobody."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agent.wire.units import HOUR_US
from analyzer.ledger.thresholds import Thresholds
from analyzer.ledger.windows import RunFacts, RunWindow


@dataclass(frozen=True, slots=True)
class Unjudged:
    """One rule that one run could not be held to in one hour, and the signal that it lacked."""

    hour_us: int
    subject: str
    rule: str
    missing: str


def by_rule(found: Iterable[Unjudged]) -> dict[tuple[str, str], list[str]]:
    """Return whom each rule could not be held to, by rule and by what it lacked; each subject once."""
    by: dict[tuple[str, str], list[str]] = {}
    for one in found:
        whom = by.setdefault((one.rule, one.missing), [])
        if one.subject not in whom:
            whom.append(one.subject)
    return by


def rules_in(found: Iterable[Unjudged]) -> int:
    """Return how many rules could not be judged of somebody."""
    return len({one.rule for one in found})


def unjudged(windows: Sequence[RunWindow], facts: RunFacts, limits: Thresholds) -> list[Unjudged]:
    """Return what could not be judged of one run's hour."""
    hour_us = windows[0].window_ms * 1000 // HOUR_US * HOUR_US
    missing = {
        "cross_rack": _cross_rack(windows, facts),
        "waiting for input": _input(windows, limits),
        "busy, underused": _underused(windows),
    }
    return [Unjudged(hour_us, facts.run_id, rule, why) for rule, why in missing.items() if why is not None]


def _cross_rack(windows: Sequence[RunWindow], facts: RunFacts) -> str | None:
    if facts.nodes < 2:
        return None
    if facts.racks is None:
        return "the rack of its hosts is unknown"
    if facts.racks > 1 and all(window.rdma_out is None for window in windows):
        return "no traffic of RDMA ports was seen"
    return None


def _input(windows: Sequence[RunWindow], limits: Thresholds) -> str | None:
    low = [window for window in windows if window.still >= limits.low_permille]
    if low and all(window.cpu_busy is None and window.disk_busy is None and window.busiest is None for window in low):
        return "no processor, disk or worker figures of its hosts"
    return None


def _underused(windows: Sequence[RunWindow]) -> str | None:
    if all(window.sm_ms == 0 and window.power is None for window in windows):
        return "neither SM activity nor power of its GPUs"
    return None
