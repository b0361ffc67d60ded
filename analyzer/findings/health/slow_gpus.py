"""GPUs that keep run after run waiting: a slow rank is its run's finding, the same GPU in several a sick board."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from agent.wire.units import HOUR_MS
from analyzer.findings.finding import EvidenceLine
from analyzer.findings.health.notice import Notice, Span
from analyzer.ids import short_id
from analyzer.measures.efficiency import efficiency_query
from analyzer.measures.efficiency.stragglers import Straggler, stragglers

if TYPE_CHECKING:
    from collector.store.session import Session

_RULE = "slow_gpu"
_RUNS_LEAST = 2


def find_notices(session: "Session", span: Span) -> Iterator[Notice]:
    """Yield the GPUs for which several runs waited, the dearest first."""
    yield from notices_of(stragglers(efficiency_query.waited(session, span.start_us, span.end_us)))


def notices_of(found: Iterable[Straggler]) -> Iterator[Notice]:
    """Yield a notice for each GPU that cost two runs or more an hour of GPU time together."""
    for one in found:
        if one.gpu_uuid is None or len(one.run_ids) < _RUNS_LEAST or one.milliseconds < HOUR_MS:
            continue
        hours = f"{one.milliseconds / HOUR_MS:,.1f} GPU-hours"
        yield Notice(
            short_id("n", _RULE, one.gpu_uuid),
            _RULE,
            one.gpu_uuid,
            f"{len(one.run_ids)} runs waited {hours} for it: look at its clocks, links and cooling",
            "platform",
            "medium",
            node=one.node,
            gpu_uuid=one.gpu_uuid,
            run_ids=one.run_ids,
            evidence=(EvidenceLine("waited for it", hours, f"by the other ranks of {len(one.run_ids)} runs"),),
            wrong_if="those runs gave the rank on it more to do than the others",
        )
