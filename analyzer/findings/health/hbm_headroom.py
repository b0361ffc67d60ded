"""Runs whose GPU memory is nearly full in steady work: the next longer batch ends them.

What a framework sets aside at the start is full by design, and looks the same on the gauge: a line that is flat is no
evidence, and such notices have low confidence unless runs of that name have ended for want of memory.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from analyzer.findings.finding import EvidenceLine
from analyzer.findings.health.limits import LIMITS, NoticeLimits
from analyzer.findings.health.notice import Notice, Span, Words
from analyzer.findings.health.of_runs import OfRun, by_name, notice_of
from analyzer.ledger.unjudged import Unjudged
from analyzer.queries.statements import statements
from analyzer.states import Confidence
from analyzer.text.wording import counted, gib, percent

if TYPE_CHECKING:
    from collector.store.session import Session

_RULE = "run/hbm_headroom"


@dataclass(frozen=True, slots=True)
class Fullest(OfRun):
    """The fullest GPU of one run, in its whole hours of work after the first. Memory is bytes."""

    node: str
    gpu_uuid: str
    memory_bytes: int
    hours: int
    most: int
    least: int
    failed: int  # runs of this name that ended for want of memory

    @property
    def full_permille(self) -> int:
        """How full it was at the most."""
        return self.most * 1000 // self.memory_bytes


def find_notices(session: "Session", span: Span) -> Iterator[Notice | Unjudged]:
    """Yield a notice for each name of runs, by name."""
    select, told = statements("findings/health/hbm_headroom.sql")
    has_use, has_size = session.row(told)
    if not has_use or not has_size:
        missing = "in use was told" if not has_use else "that GPUs have was told (inventory)"
        yield span.unjudged(_RULE, f"no memory {missing}")
        return
    values: dict[str, object] = {"hours": LIMITS.hbm_hours, "full": LIMITS.hbm_full_permille}
    runs = [Fullest(*row) for row in session.rows(select, values)]
    for of_name in by_name(runs):
        yield from notices_of(of_name)


def notices_of(runs: Sequence[Fullest], limits: NoticeLimits = LIMITS) -> Iterator[Notice]:
    """Yield a notice of the runs of one name whose memory is nearly full."""
    full = [run for run in runs if run.full_permille > limits.hbm_full_permille and run.hours >= limits.hbm_hours]
    if not full:
        return
    worst = max(full, key=lambda run: (run.full_permille, run.run_id))
    is_flat = all(run.least * 1000 >= run.most * limits.hbm_flat_permille for run in full)
    free = worst.memory_bytes - worst.most
    words = Words(
        f"{gib(free)} of {gib(worst.memory_bytes)} GPU memory left at its fullest: a longer sequence or batch ends it; "
        "leave a tenth free (smaller micro-batch, activation checkpointing, sharding)",
        _confidence(worst.failed, is_flat),
        (
            EvidenceLine(
                "memory in use",
                f"{percent(worst.full_permille)} at the most",
                f"over {percent(limits.hbm_full_permille)}",
            ),
            EvidenceLine(
                "its course",
                "flat: set aside, or cached" if is_flat else f"from {gib(worst.least)} to {gib(worst.most)}",
            ),
            EvidenceLine("ended for want of memory", counted(worst.failed, "run") + " of this name"),
        ),
        "its framework sets memory aside at the start (JAX, vLLM) or keeps what it has freed (PyTorch)",
    )
    yield replace(notice_of(_RULE, full, words), team=worst.team, node=worst.node, gpu_uuid=worst.gpu_uuid)


def _confidence(failed: int, is_flat: bool) -> Confidence:
    if failed:
        return "high"
    return "low" if is_flat else "medium"
