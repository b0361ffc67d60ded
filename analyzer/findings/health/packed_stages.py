"""A stage for processors and one for GPUs packed into one run, by turns: each keeps the other's share idle."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.findings.finding import EvidenceLine
from analyzer.findings.health.gathering import rolled_until
from analyzer.findings.health.limits import LIMITS, NoticeLimits
from analyzer.findings.health.notice import Notice, Span, Words
from analyzer.findings.health.of_runs import OfRun, by_name, notice_of
from analyzer.ledger.unjudged import Unjudged
from analyzer.queries.statements import statements
from analyzer.text.wording import percent
from collector.lake.tiers.retained import kept_from

if TYPE_CHECKING:
    from collector.store.session import Session

_RULE = "run/packed_stages"


@dataclass(frozen=True, slots=True)
class Turns(OfRun):
    """One run, minute by minute: means in permille, and the minutes of either stage."""

    minutes: int
    gpu: int
    cpu: int  # of the cores that it may use
    cpu_minutes: int  # processors full, GPUs quiet
    gpu_minutes: int  # GPUs busy, processors not full
    turns: int  # from one stage to the other


def find_notices(session: "Session", span: Span) -> Iterator[Notice | Unjudged]:
    """Yield a notice for each name of runs, by name."""
    candidates, told = statements("findings/health/packed_candidates.sql")
    if not session.row(told)[0]:
        yield span.unjudged(_RULE, "no processor time of runs was told (run_samples, process_samples)")
        return
    ids = [run_id for (run_id,) in session.rows(candidates, {"gpu": LIMITS.packed_gpu_permille})]
    if ids:
        runs = [Turns(*row) for row in session.rows(_minutes(session, span), _values(span, ids))]
        for of_name in by_name(runs):
            yield from notices_of(of_name)


def _minutes(session: "Session", span: Span) -> str:
    """Return the query over samples, or over minutes where those have expired."""
    (select,) = statements("findings/health/packed_stages.sql")
    expired = kept_from(session, ["gpu_samples", "run_samples"]) > span.start_us
    if expired and rolled_until(session, "gpu_samples") >= span.end_us:
        return select.format(gpus="gpu_minutes", runs="run_minutes", length="p.measured_ms / 1e3")
    return select.format(gpus="gpu_samples", runs="run_samples", length="(p.ended_at - p.started_at) / 1e6")


def _values(span: Span, ids: list[str]) -> dict[str, object]:
    return {
        "start": span.start_us,
        "end": span.end_us,
        "runs": ids,
        "cpu_full": LIMITS.packed_cpu_full_permille,
        "gpu_quiet": LIMITS.packed_gpu_quiet_permille,
        "gpu_busy": LIMITS.packed_gpu_busy_permille,
    }


def notices_of(runs: Sequence[Turns], limits: NoticeLimits = LIMITS) -> Iterator[Notice]:
    """Yield a notice of the runs of one name that take turns between processors and GPUs."""
    found = [run for run in runs if _alternates(run, limits)]
    if not found:
        return
    minutes = sum(run.minutes for run in found)
    cpu_share = 1000 * sum(run.cpu_minutes for run in found) // minutes
    gpu_share = 1000 * sum(run.gpu_minutes for run in found) // minutes
    gpu = sum(run.gpu * run.minutes for run in found) // minutes
    words = Words(
        f"its GPUs are at {percent(gpu)}: they wait {percent(cpu_share)} of the time while its processors are full, "
        f"and work {percent(gpu_share)} by turns: split it into a run for processors and a run for GPUs",
        "high" if all(run.turns >= 2 * limits.packed_turns for run in found) else "medium",
        (
            EvidenceLine("processors full, GPUs quiet", percent(cpu_share)),
            EvidenceLine("GPUs busy, processors not full", percent(gpu_share)),
            EvidenceLine("turns", f"{sum(run.turns for run in found):,}", f"in {minutes // 60:,} hours"),
        ),
        "both stages need what the other keeps in memory, or the processors' stage is an evaluation",
    )
    yield notice_of(_RULE, found, words)


def _alternates(run: Turns, limits: NoticeLimits) -> bool:
    least = run.minutes * limits.packed_share_permille
    return (
        run.minutes >= limits.packed_minutes
        and run.gpu <= limits.packed_gpu_permille
        and 1000 * run.cpu_minutes >= least
        and 1000 * run.gpu_minutes >= least
        and run.turns >= limits.packed_turns
    )
