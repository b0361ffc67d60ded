"""What else a finding's time could have been, and why it is not that: from the same windows and the ledger beside them.

Only what was looked at is named. A part of the host that nobody measured is not ruled out, and not named here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agent.wire.units import HOUR_MS
from analyzer.findings.explain.signs import median, percent
from analyzer.findings.finding import Finding
from analyzer.ledger.thresholds import Thresholds
from analyzer.ledger.windows import RunWindow

_SHOWN_LEAST_MS = 180_000  # less would be told as 0.0 GPU-hours
_OVERHEAD = {"checkpointing": "checkpoints", "starting": "starting", "collective": "plain collectives"}


@dataclass(frozen=True, slots=True)
class RuledOut:
    """One other explanation, and what speaks against it; `overhead` and `finding` are booked apart from it."""

    what: str
    why: str
    kind: Literal["cause", "overhead", "finding"] = "cause"


def ruled_out(
    finding: Finding,
    windows: Sequence[RunWindow],
    others: Sequence[Finding],
    overhead_ms: Mapping[str, int],
    limits: Thresholds,
) -> tuple[RuledOut, ...]:
    """Return the other explanations, those of the same kind first.

    `others` are findings of the same runs, which claim time of their own; `overhead_ms` is what the ledger books of
    these runs by checkpointing, starting and collective.
    """
    found: list[RuledOut] = []
    if finding.state in ("starved", "unexplained"):
        found += _other_causes(finding.cause, windows, limits)
    if finding.state in ("starved", "communicating", "unexplained") and finding.cause not in ("straggler", "hang"):
        found += _straggler(windows, others, limits)
    for name, milliseconds in overhead_ms.items():
        if milliseconds >= _SHOWN_LEAST_MS:
            hours = f"{milliseconds / HOUR_MS:,.1f} GPU-hours"
            found.append(RuledOut(_OVERHEAD[name], f"{hours} are booked as overhead", "overhead"))
    proven = [other for other in others if not other.suspicion]
    found += [RuledOut(f"{other.what} ({other.id})", "booked apart", "finding") for other in proven]
    return tuple(found)


def _other_causes(cause: str, windows: Sequence[RunWindow], limits: Thresholds) -> list[RuledOut]:
    found = []
    disk = median([window.disk_busy for window in windows])
    if cause != "storage" and disk is not None and disk < limits.disk_busy_permille:
        found.append(RuledOut("local disk", f"{percent(disk)} busy, full is {percent(limits.disk_busy_permille)}"))
    waiting = median([window.waiting for window in windows])
    if cause not in ("storage", "network_storage") and waiting is not None and waiting < limits.waiting_permille:
        found.append(RuledOut("any storage", f"{percent(waiting)} of the workers wait in the kernel"))
    busiest = median([window.busiest for window in windows])
    if cause != "preprocessing" and busiest is not None and busiest < limits.worker_full_permille:
        found.append(RuledOut("loader workers", f"the busiest at {percent(busiest)} of a core"))
    copies = median([window.pcie_in_kb for window in windows])
    if cause != "host_to_device" and copies is not None:
        rates = [
            w.pcie_in_kb // w.ms * 1000 // w.still for w in windows if w.pcie_in_kb is not None and w.ms and w.still
        ]
        seen = median(rates)
        if seen is not None and seen < limits.copy_kb_per_ms:
            found.append(
                RuledOut(
                    "copies to the GPU",
                    f"{seen / 1000:.1f} GB/s while they stand, {limits.copy_kb_per_ms / 1000:.1f} would be full",
                )
            )
    return found


def _straggler(windows: Sequence[RunWindow], others: Sequence[Finding], limits: Thresholds) -> list[RuledOut]:
    several = [window for window in windows if window.gpus > 1]
    if not several or any(other.cause == "straggler" for other in others):
        return []
    behind = max(window.slowed_most - window.slowed_least for window in several)
    return [RuledOut("straggler", "no rank differs")] if behind < limits.slowed_permille else []
