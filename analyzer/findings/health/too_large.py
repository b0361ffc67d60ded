"""Runs for which a smaller GPU, or a slice of theirs, would do: little computed, little held, little on the host.

Never from the memory gauge alone, and only where the fleet has something smaller.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from analyzer.findings.finding import EvidenceLine
from analyzer.findings.health.limits import LIMITS, MIG_CAPABLE, NoticeLimits
from analyzer.findings.health.notice import Notice, Span, Words
from analyzer.findings.health.of_runs import OfRun, notice_of
from analyzer.ledger.unjudged import Unjudged
from analyzer.queries.statements import statements
from analyzer.text.wording import gib, gpu_hours, percent, tenths

if TYPE_CHECKING:
    from collector.store.session import Session

_RULE = "run/too_large"


@dataclass(frozen=True, slots=True)
class Use(OfRun):
    """What one run made of its GPUs while it worked. Shares are permille; None where nobody told."""

    sku: str | None  # None where it had several kinds
    gpu_bytes: int | None
    gpus: int
    held_ms: int  # GPU time
    utilization: int
    sm: int | None
    tensor: int | None
    dram: int | None
    memory: int  # the most that was in use
    millicores_per_gpu: int | None
    host_bytes_per_gpu: int | None


@dataclass(frozen=True, slots=True)
class FleetKind:
    """A kind of GPU that the fleet owns."""

    sku: str
    memory_bytes: int


def find_notices(session: "Session", span: Span) -> Iterator[Notice | Unjudged]:
    """Yield a notice for each name of runs that a smaller GPU would do, by name."""
    select, kinds, told = statements("findings/health/too_large.sql")
    if not session.row(told)[0]:
        yield span.unjudged(_RULE, "no utilization of GPUs was told")
        return
    period: dict[str, object] = {"start": span.start_us, "end": span.end_us}
    values: dict[str, object] = {
        "ms": LIMITS.large_gpu_ms,
        "run_ms": LIMITS.large_run_ms,
        "utilization": LIMITS.large_utilization_permille,
        "memory": LIMITS.large_memory_bytes,
    }
    uses = [Use(*row) for row in session.rows(select, values)]
    owned = [FleetKind(*row) for row in session.rows(kinds, period)]
    for _, parts in groupby(uses, lambda use: (use.subject, use.sku)):
        yield from notices_of(list(parts), owned)


def notices_of(uses: Sequence[Use], owned: Sequence[FleetKind], limits: NoticeLimits = LIMITS) -> Iterator[Notice]:
    """Yield a notice of the runs of one name that are small in every respect; the others are left out."""
    small = [use for use in uses if _is_small(use, limits)]
    instead = _smaller(small[0], owned, limits) if small else None
    if instead is None:
        return
    first = small[0]
    most = max(use.memory for use in small)
    busiest = max(use.utilization for use in small)
    words = Words(
        f"{percent(busiest)} utilization and {gib(most)} at most of {first.sku} over "
        f"{gpu_hours(sum(use.held_ms for use in small))} GPU-hours: {instead} would do; try it with one run",
        "high" if all(use.sm is not None and use.dram is not None for use in small) else "medium",
        tuple(_evidence(small)),
        "it needs the large GPU for a part of its work that is not in this period, or for peers and links; "
        "what JAX and vLLM set aside says nothing of what they need, and was not the reason here",
    )
    yield notice_of(_RULE, small, words, kind=first.sku or "")


def _is_small(use: Use, limits: NoticeLimits) -> bool:
    within = (
        (use.sm, limits.large_utilization_permille),
        (use.tensor, limits.large_tensor_permille),
        (use.dram, limits.large_dram_permille),
        (use.millicores_per_gpu, limits.large_millicores_per_gpu),
        (use.host_bytes_per_gpu, limits.large_host_bytes_per_gpu),
    )
    return (
        use.sku is not None
        and use.held_ms >= limits.large_gpu_ms
        and use.held_ms >= limits.large_run_ms * use.gpus
        and 0 < use.utilization <= limits.large_utilization_permille
        and use.memory <= limits.large_memory_bytes
        and all(seen is None or seen <= most for seen, most in within)
    )


def _smaller(use: Use, owned: Sequence[FleetKind], limits: NoticeLimits) -> str | None:
    """Return what would do: the smallest kind that holds its memory, else a slice; None where there is neither."""
    for kind in owned:
        is_half = use.gpu_bytes is not None and kind.memory_bytes * limits.small_sku_factor <= use.gpu_bytes
        if is_half and kind.memory_bytes > use.memory:
            return f"{kind.sku}, which the fleet has,"
    model = (use.sku or "").split("-")[0].upper()
    return "a MIG slice of it" if model in MIG_CAPABLE and use.gpus == 1 else None


def _evidence(uses: Sequence[Use]) -> Iterator[EvidenceLine]:
    yield EvidenceLine("utilization", f"{percent(max(use.utilization for use in uses))} at most, as a mean of the run")
    for what, seen in (
        ("SM activity", [use.sm for use in uses]),
        ("tensor cores", [use.tensor for use in uses]),
        ("HBM bandwidth", [use.dram for use in uses]),
    ):
        known = [share for share in seen if share is not None]
        yield EvidenceLine(
            what, percent(max(known)) if known else "not told", "" if known else "bounded by utilization"
        )
    yield EvidenceLine("memory in use", f"{gib(max(use.memory for use in uses))} at most")
    cores = [use.millicores_per_gpu for use in uses if use.millicores_per_gpu is not None]
    yield EvidenceLine("processors", f"{tenths(max(cores) // 100)} cores a GPU" if cores else "not told")
