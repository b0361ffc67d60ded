"""The demo's own distributions, from a store that holds its week: of GPUs held by some stages, or of all."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.ledger.causes.stages import RunNames, stage_named
from bench.truth.real.distribution import Distribution

if TYPE_CHECKING:
    from collector.store.session import Session

LADEN_PERCENT = 1.0  # of a GPU's memory: what more than this lies on is used by something

_SAMPLES = """
CREATE OR REPLACE TEMP TABLE group_samples AS
SELECT round(100 * utilization_ratio)::BIGINT AS utilization,
    round(1000 * memory_used_bytes / memory_bytes)::BIGINT AS memory,
    round(1000 * sm_active_ratio)::BIGINT AS sm, round(1000 * power_watts / power_limit_watts)::BIGINT AS power,
    sum(s.ended_at - s.started_at)::BIGINT AS length
FROM gpu_samples s JOIN (
    SELECT gpu_uuid, max(memory_bytes) AS memory_bytes, max(power_limit_watts) AS power_limit_watts
    FROM inventory GROUP BY ALL
) USING (gpu_uuid)
WHERE up AND utilization_ratio IS NOT NULL AND memory_used_bytes IS NOT NULL AND memory_bytes IS NOT NULL
"""
_HELD = """
    AND EXISTS (SELECT 1 FROM allocations a JOIN of_group USING (run_id) WHERE a.gpu_uuid = s.gpu_uuid
        AND a.started_at <= s.started_at AND coalesce(a.ended_at, 9223372036854775807) >= s.ended_at)
"""


@dataclass(frozen=True, slots=True)
class GpuCurves:
    """Percent: utilization, memory, SM activity (where a GPU tells it), power of the limit; None: nothing was told."""

    utilization: Distribution
    memory: Distribution
    sm: Distribution | None
    power: Distribution | None


def gpu_curves(session: "Session", stages: frozenset[str] | None, *, laden: bool = False) -> GpuCurves:
    """Return the distributions of GPUs held by runs of these stages (None: of all), or of those in use alone.

    A sample counts for as long as it covers; one that a run holds only in part is left out. That there is
    no sample of a group at all is our own mistake.
    """
    session.execute("CREATE OR REPLACE TEMP TABLE of_group (run_id VARCHAR)")
    runs = [] if stages is None else sorted(_runs(session, stages))
    session.load("of_group", ("run_id",), [(run,) for run in runs])
    session.execute((_SAMPLES if stages is None else _SAMPLES + _HELD) + " GROUP BY ALL")
    utilization, memory = (_curve(session, name, unit, laden) for name, unit in (("utilization", 1), ("memory", 10)))
    assert utilization is not None, "BUG: a group without samples"
    assert memory is not None, "BUG: a group without samples"
    return GpuCurves(utilization, memory, _curve(session, "sm", 10, laden), _curve(session, "power", 10, laden))


def cpu_curve(session: "Session") -> Distribution | None:
    """Return the distribution of hosts' busy processors, in percent of all; None where no host told it."""
    rows = session.rows(
        """
        SELECT round(1000 * cpu_busy_ratio)::BIGINT AS permille, sum(ended_at - started_at)::BIGINT FROM host_samples
        WHERE cpu_busy_ratio IS NOT NULL GROUP BY ALL
        """
    )
    return Distribution.weighed({permille / 10: length for permille, length in rows}) if rows else None


def link_idle_share(session: "Session") -> float | None:
    """Return the share of time in which a host's RDMA ports sent nothing at all, in percent."""
    (idle, whole) = session.row(
        """
        SELECT sum(ended_at - started_at) FILTER (transmit_bytes = 0)::BIGINT, sum(ended_at - started_at)::BIGINT
        FROM network_samples WHERE link_kind <> 'ethernet' AND transmit_bytes IS NOT NULL
        """
    )
    return 100 * (idle or 0) / whole if whole else None


def _curve(session: "Session", column: str, unit: int, laden: bool) -> Distribution | None:
    least = round(10 * LADEN_PERCENT) if laden else -1
    rows = session.rows(
        f"""
        SELECT {column}, sum(length)::BIGINT FROM group_samples
        WHERE memory > {least} AND {column} IS NOT NULL GROUP BY 1
        """
    )
    return Distribution.weighed({value / unit: length for value, length in rows}) if rows else None


def _runs(session: "Session", stages: frozenset[str]) -> set[str]:
    rows = session.rows(
        """
        SELECT a.run_id, any_value(a.name), any_value(a.queue), any_value(a.labels),
            a.run_id IN (SELECT run_id FROM service_samples)
        FROM allocations a GROUP BY a.run_id
        """
    )
    told = {run: stage_named(RunNames(*named)) for run, *named in rows}
    return {run for run, stage in told.items() if stage is not None and stage.word in stages}
