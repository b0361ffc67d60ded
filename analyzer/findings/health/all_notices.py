"""Every rule, asked in turn: what it noticed, and what it could not judge."""

from dataclasses import dataclass

from analyzer.findings.health import gpus, hosts, queues, runs, services
from analyzer.findings.health.notice import Notice, Rule, Span, gather
from analyzer.ledger.coverage import Unjudged
from collector.lake.tiers import kept_from
from collector.store.session import Session

# In the order in which they are read: what is broken or not known, what costs capacity, what a run could do better.
RULES: tuple[Rule, ...] = (
    gpus.HARDWARE,
    gpus.find_memory_errors,
    hosts.find_links,
    gpus.find_slow_gpus,
    gpus.UNHELD_MEMORY,
    gpus.find_foreign_processes,
    hosts.find_silent_agents,
    hosts.find_drivers,
    queues.find_fragmentation,
    runs.CPU_ONLY,
    queues.find_mixed,
    runs.find_long_starts,
    runs.find_full_memory,
    runs.find_idle_tensor_cores,
    runs.find_packed_stages,
    runs.find_too_large,
    runs.find_checkpoints,
    services.find_service_notices,
)
_HOURS = ("gpu_hours", "run_hours", "network_hours", "process_hours")  # what is counted where samples have expired


@dataclass(frozen=True, slots=True)
class PeriodNotices:
    """What all rules said of a period, each in its own order."""

    notices: tuple[Notice, ...]
    unjudged: tuple[Unjudged, ...]


def notices_in(session: Session, start_us: int, end_us: int, rules: tuple[Rule, ...] = RULES) -> PeriodNotices:
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
