"""Training whose SMs are busy while their tensor cores rest: it computes in FP32 what BF16 would do faster."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.findings.finding import EvidenceLine
from analyzer.findings.health.limits import LIMITS, NoticeLimits
from analyzer.findings.health.notice import Notice, Span, Words
from analyzer.findings.health.of_runs import OfRun, by_name, notice_of
from analyzer.ledger.unjudged import Unjudged
from analyzer.queries.statements import statements
from analyzer.text.wording import gpu_hours, percent

if TYPE_CHECKING:
    from collector.store.session import Session

_RULE = "run/mixed_precision"


@dataclass(frozen=True, slots=True)
class Pipes(OfRun):
    """What the pipes of one training run's GPUs did: means in permille, None where nobody told."""

    ms: int  # GPU time
    sm: int
    tensor: int
    fp32: int | None = None
    fp64: int | None = None


def find_notices(session: "Session", span: Span) -> Iterator[Notice | Unjudged]:
    """Yield a notice for each name of runs, by name; then the kinds of GPU that do not tell."""
    select, silent = statements("findings/health/mixed_precision.sql")
    values: dict[str, object] = {
        "ms": LIMITS.precision_gpu_ms,
        "sm": LIMITS.precision_sm_permille,
        "tensor": LIMITS.precision_tensor_permille,
    }
    runs = [Pipes(*row) for row in session.rows(select, values)]
    for of_name in by_name(runs):
        yield from notices_of(of_name)
    skus = [sku for sku, _ in session.rows(silent, {"start": span.start_us, "end": span.end_us})]
    if skus:
        yield span.unjudged(_RULE, f"no SM and tensor activity of {', '.join(skus)} (GPM is Hopper's and newer)")


def notices_of(runs: Sequence[Pipes], limits: NoticeLimits = LIMITS) -> Iterator[Notice]:
    """Yield a notice of the runs of one name whose tensor cores rest; what computes in FP64 has no use for them."""
    found = [run for run in runs if _rests(run, limits)]
    if not found:
        return
    ms = sum(run.ms for run in found)
    told = [run.fp32 for run in found if run.fp32 is not None]
    sm = sum(run.sm * run.ms for run in found) // ms
    tensor = max(run.tensor for run in found)
    words = Words(
        f"tensor cores unused ({percent(tensor)}) while SMs are busy ({percent(sm)}) over {gpu_hours(ms)} GPU-hours: "
        "train in mixed precision (BF16 with autocast; TF32 for what must stay FP32)",
        "high" if len(told) == len(found) else "medium",
        (
            EvidenceLine("SM activity", percent(sm)),
            EvidenceLine(
                "tensor cores", f"{percent(tensor)} at most", f"under {percent(limits.precision_tensor_permille)}"
            ),
            EvidenceLine("FP32 pipe", percent(max(told)) if told else "not told"),
        ),
        "its work is no matrix product (simulation, embeddings, graph kernels), or loses accuracy in BF16",
    )
    yield notice_of(_RULE, found, words)


def _rests(run: Pipes, limits: NoticeLimits) -> bool:
    return (
        run.ms >= limits.precision_gpu_ms
        and run.sm >= limits.precision_sm_permille
        and run.tensor <= limits.precision_tensor_permille
        and (run.fp32 is None or run.fp32 >= limits.precision_fp32_permille)
        and (run.fp64 is None or run.fp64 < limits.precision_fp32_permille)
    )
