"""Every rule, asked in turn: what it noticed, and what it could not judge."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.findings.health import (
    checkpoints,
    cpu_only,
    drivers,
    ecc,
    fragmentation,
    hardware,
    hbm_headroom,
    links,
    mixed,
    mixed_precision,
    packed_stages,
    silent_agents,
    slow_gpus,
    too_large,
    zombie_memory,
)
from analyzer.findings.health.gathering import gather
from analyzer.findings.health.notice import Notice, Rule, Span
from analyzer.findings.health.serving import service_notices as serving
from analyzer.ledger.unjudged import Unjudged
from collector.lake.tiers.retained import kept_from

if TYPE_CHECKING:
    from collector.store.session import Session

# In the order in which they are read: what is broken or not known, what costs capacity, what a run could do better.
RULES: tuple[Rule, ...] = (
    hardware.find_notices,
    ecc.find_notices,
    links.find_notices,
    slow_gpus.find_notices,
    zombie_memory.find_notices,
    silent_agents.find_notices,
    drivers.find_notices,
    fragmentation.find_notices,
    cpu_only.find_notices,
    mixed.find_notices,
    hbm_headroom.find_notices,
    mixed_precision.find_notices,
    packed_stages.find_notices,
    too_large.find_notices,
    checkpoints.find_notices,
    serving.find_notices,
)
_HOURS = ("gpu_hours", "run_hours", "network_hours", "process_hours")  # what is counted where samples have expired


@dataclass(frozen=True, slots=True)
class PeriodNotices:
    """What all rules said of a period, each in its own order."""

    notices: tuple[Notice, ...]
    unjudged: tuple[Unjudged, ...]


def notices_in(session: "Session", start_us: int, end_us: int, rules: tuple[Rule, ...] = RULES) -> PeriodNotices:
    """Return what is to be looked at in [start_us, end_us), microseconds UTC."""
    span = Span(start_us, end_us)
    gather(session, span)
    said = [each for rule in rules for each in rule(session, span)]
    if kept_from(session, _HOURS) > start_us:
        said.append(span.unjudged("fleet/observations/expired", "the hours of a part of this period have expired"))
    return PeriodNotices(
        tuple(each for each in said if isinstance(each, Notice)),
        tuple(each for each in said if isinstance(each, Unjudged)),
    )
