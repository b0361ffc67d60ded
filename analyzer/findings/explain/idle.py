"""What stored samples say of GPUs that a finding calls idle: those are booked sample by sample, and not by windows."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.findings.explain.gpu_samples import kept_row
from analyzer.findings.finding import Finding
from analyzer.ledger.thresholds import Thresholds
from analyzer.period import Period

if TYPE_CHECKING:
    from collector.store.session import Session

# A minute is quiet where no sample of it was more; it works by its mean.
_MINUTES = """UNION ALL
    SELECT coalesce(parent_uuid, gpu_uuid), gpu_uuid, started_at, started_at + 60000000, measured_ms,
        coalesce(sm_active_ratio, utilization_ratio), coalesce(sm_active_ratio_max, utilization_ratio_max),
        greatest(coalesce(utilization_zero_ratio, 0), 1 - coalesce(utilization_ratio, 1)), memory_used_bytes_max
    FROM gpu_minutes WHERE started_at >= $start - $around AND started_at < least($end + $around, $rolled)
        AND down_ms = 0 AND node IN (SELECT unnest($nodes::VARCHAR[]))"""


@dataclass(frozen=True, slots=True)
class IdleGpus:
    """What was measured of a finding's idle GPU time. Milliseconds; None where nothing of it was measured.

    Of what is `claimed`, `measured_ms` lies in hours of which samples or minutes are kept; all else is of that part.
    """

    claimed_ms: int
    measured_ms: int
    quiet_ms: int | None = None  # without work
    still_ms: int | None = None  # without a kernel, between those of a session or service too
    longest_ms: int | None = None  # without work, on one GPU
    worked_ms: int | None = None  # at work meanwhile
    before_ms: int | None = None  # at work before that, since the runs hold it
    memory_mb: int | None = None  # held while quiet: the median of the GPUs' hours
    is_interactive: bool = False


def idle_gpus(session: "Session", finding: Finding, period: Period, limits: Thresholds) -> IdleGpus:
    """Read what is kept of a finding's idle GPUs, within a period.

    Raises:
        StoreError: the store does not answer.
    """
    return IdleGpus(
        *kept_row(
            session,
            "findings/explain/idle.sql",
            _MINUTES,
            finding,
            period,
            around=1000 * limits.abandoned_ms,
            quiet=limits.quiet_permille,
            active=limits.active_permille,
        )
    )
