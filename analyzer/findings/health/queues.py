"""Who shares what: GPUs that are free while runs wait that would fit on them, and services beside training."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agent.wire.units import HOUR_US
from analyzer.findings.finding import EvidenceLine
from analyzer.findings.health.notice import LIMITS, Notice, NoticeLimits, Span, noticed, rows_of, values_of
from analyzer.ledger.coverage import Unjudged
from analyzer.queries.statements import statements
from analyzer.text.words import brief_percent, some
from collector.store.session import Session

Why = Literal["pieces", "kept", "room"]


@dataclass(frozen=True, slots=True)
class Wait:
    """One run that waited. `nodes` is 0 and `sku` None until it began; times are microseconds UTC."""

    run_id: str
    name: str | None
    queue: str
    gpus: int
    nodes: int
    sku: str | None
    reason: str | None
    from_us: int
    until_us: int

    def shape(self, gpus_per_host: int) -> tuple[int, int]:
        """Return how many hosts it needs, and how many GPUs on each: as it began, else as few hosts as can be."""
        hosts = self.nodes or -(-self.gpus // gpus_per_host)
        return hosts, -(-self.gpus // hosts)


@dataclass(frozen=True, slots=True)
class Free:
    """GPUs of one host that nobody held for one whole hour."""

    hour: int
    node: str
    sku: str | None
    free: int
    kept: int


@dataclass(frozen=True, slots=True)
class Site:
    """What runs may be placed on: free GPUs by hour, the hosts of each queue, and the size of a host."""

    free: Mapping[int, Sequence[Free]]
    queues: Mapping[str, frozenset[str]]
    gpus_per_host: int

    def hosts(self, wait: Wait, hour: int) -> list[Free]:
        """Return the hosts with free GPUs that this run could have had: its queue's, and of its kind."""
        own = self.queues.get(wait.queue) if wait.queue else None
        return [
            host
            for host in self.free.get(hour, ())
            if (own is None or host.node in own) and (wait.sku is None or host.sku == wait.sku)
        ]


def find_fragmentation(session: Session, span: Span) -> Iterator[Notice | Unjudged]:
    """Yield a notice for each queue and reason, by queue: GPUs in pieces, kept back, or in one piece and not given."""
    told, waits, free, queues, size = statements("findings/health/fragmentation.sql")
    if not rows_of(session, span, told)[0][0]:
        yield span.unjudged("fleet/fragmentation", "no scheduler reports when runs were submitted (submitted_at)")
        return
    found = [Wait(*row) for row in rows_of(session, span, waits, wait_us=LIMITS.waited_ms * 1000)]
    by_hour: dict[int, list[Free]] = defaultdict(list)
    for row in rows_of(session, span, free):
        by_hour[row[0]].append(Free(*row))
    hosts: dict[str, set[str]] = defaultdict(set)
    for queue, node in rows_of(session, span, queues):
        hosts[queue].add(node)
    ((gpus_per_host,),) = rows_of(session, span, size)
    site = Site(by_hour, {queue: frozenset(nodes) for queue, nodes in hosts.items()}, gpus_per_host or 1)
    yield from _fragmentation_notices(found, site)


def _fragmentation_notices(waits: Sequence[Wait], site: Site, limits: NoticeLimits = LIMITS) -> Iterator[Notice]:
    """Yield notices: for each queue and reason the whole hours in which its runs waited beside free GPUs.

    Runs of which their scheduler told why they waited are apart from those of which nobody knows.
    """
    seen: dict[tuple[str, Why, bool], dict[Wait, list[int]]] = defaultdict(lambda: defaultdict(list))
    for wait in waits:
        if _waits_for_room(wait, limits):
            for hour in range(-(-wait.from_us // HOUR_US) * HOUR_US, wait.until_us - HOUR_US + 1, HOUR_US):
                why = _why(wait, site.hosts(wait, hour), site.gpus_per_host)
                if why is not None:
                    seen[wait.queue, why, wait.reason is None][wait].append(hour)
    for (queue, why, _), runs in sorted(seen.items(), key=lambda item: item[0]):
        yield from _of_queue(queue, why, runs, site, limits)


def _waits_for_room(wait: Wait, limits: NoticeLimits) -> bool:
    """Whether it waits for GPUs, or nobody says: other reasons are dependencies, limits and holds."""
    reason = wait.reason
    return reason is None or any(word in reason.lower() for word in limits.no_room)


def _why(wait: Wait, hosts: Sequence[Free], gpus_per_host: int) -> Why | None:
    """Return why free GPUs did not help a run in one hour; None where there were too few of them."""
    count, each = wait.shape(gpus_per_host)
    if sum(host.free >= each for host in hosts) >= count:
        return "room"
    if sum(host.free for host in hosts) >= wait.gpus:
        return "pieces"
    return "kept" if sum(host.free + host.kept >= each for host in hosts) >= count else None


def _of_queue(
    queue: str, why: Why, runs: Mapping[Wait, Sequence[int]], site: Site, limits: NoticeLimits
) -> Iterator[Notice]:
    waits_at = {
        hour: [wait for wait, when in runs.items() if hour in when]
        for hour in {at for each in runs.values() for at in each}
    }
    there = {hour: _could_have_had(waits, site, hour) for hour, waits in sorted(waits_at.items())}
    idle = sum(_idle(why, waits_at[hour], hosts) for hour, hosts in there.items())
    if idle < limits.waited_gpu_hours:
        return
    most = max(there.values(), key=lambda hosts: sum(host.free + host.kept for host in hosts))  # the first such hour
    told = all(wait.reason is not None for wait in runs)
    rule, reasons = f"fleet/fragmentation/{why}", sorted({wait.reason or "nothing" for wait in runs})
    yield noticed(
        rule,
        f"queue {queue}" if queue else "all queues",
        {"idle": idle, "runs": len(runs), "names": some(sorted({wait.name or wait.run_id for wait in runs}))},
        key=(rule, queue if told else f"{queue} untold"),
        evidence=(
            EvidenceLine("waiting", f"{sum(len(each) for each in runs.values()):,} run-hours", "in whole hours"),
            EvidenceLine("free at the peak", _by_host(most, why)),
            EvidenceLine("reason, from the scheduler", some(reasons)),
        ),
        confidence="high" if told and why == "pieces" else "medium" if told else "low",
        run_ids=tuple(sorted(wait.run_id for wait in runs)),
    )


def _could_have_had(waits: Sequence[Wait], site: Site, hour: int) -> list[Free]:
    """Return the hosts with free GPUs that any of these runs could have had in one hour, each once, by name."""
    hosts = {host.node: host for wait in waits for host in site.hosts(wait, hour)}
    return [hosts[node] for node in sorted(hosts)]


def _idle(why: Why, waits: Sequence[Wait], hosts: Sequence[Free]) -> int:
    """Return how many GPUs stood free for these runs in one hour: no more than they asked for, each GPU once."""
    there = sum(host.free + (host.kept if why == "kept" else 0) for host in hosts)
    return min(there, sum(wait.gpus for wait in waits))


def _by_host(hosts: Sequence[Free], why: Why) -> str:
    counts = [(host.node, host.free + (host.kept if why == "kept" else 0)) for host in hosts]
    return some([f"{count} on {node}" for node, count in counts if count])


@dataclass(frozen=True, slots=True)
class TimeShare:
    """A part of some time, both in milliseconds."""

    of_ms: int = 0
    ms: int = 0

    @property
    def permille(self) -> int | None:
        """The share, or None of no time at all."""
        return 1000 * self.ms // self.of_ms if self.of_ms else None


@dataclass(frozen=True, slots=True)
class Mixture:
    """One service, the training beside it, and how both did together and apart."""

    run_id: str
    name: str | None
    team: str | None
    ms: int  # hours of hosts in which both held GPUs
    nodes: tuple[str, ...]
    trainings: tuple[str, ...]
    missed: TimeShare  # of the service's time, over its SLO, beside training
    missed_alone: TimeShare
    slowed: TimeShare  # of training's GPU time, throttled or starved, beside the service
    slowed_alone: TimeShare


def find_mixed(session: Session, span: Span) -> Iterator[Notice | Unjudged]:
    """Yield a notice for each service beside training, by name, then for each queue that takes both."""
    make, services, select, queues = statements("findings/health/mixed.sql")
    session.execute(make)
    ids = [run_id for (run_id,) in rows_of(session, span, services)]
    if ids:
        found = [_mixture(*row) for row in rows_of(session, span, select, runs=ids)]
        if not any(mixture.missed.of_ms for mixture in found):
            missing = "no service beside training reports its latency and its SLO (slo_seconds)"
            yield span.unjudged("fleet/mixed", missing)
        for mixture in found:
            yield from mixed_notices(mixture)
    for queue, count, trainings in rows_of(session, span, queues):
        subject, values = f"queue {queue}", {"services": count, "trainings": trainings}
        yield noticed("fleet/mixed", subject, values, words_of="fleet/mixed/queue")


def _mixture(
    run_id: str, name: str | None, team: str | None, ms: int, nodes: list[str], names: list[str], *parts: int
) -> Mixture:
    shares = [TimeShare(*parts[at : at + 2]) for at in range(0, len(parts), 2)]
    return Mixture(run_id, name, team, ms, tuple(nodes), tuple(names), *shares)


def mixed_notices(mixture: Mixture, limits: NoticeLimits = LIMITS) -> Iterator[Notice]:
    """Yield a notice of a service beside training: of medium confidence where either did worse for it, else low."""
    if mixture.ms < limits.mixed_ms:
        return
    missed, slowed = _misses_more(mixture, limits), _loses_more(mixture, limits)
    effect = "neither is measurably worse for it"
    if missed:
        effect = f"it misses its latency SLO {brief_percent(mixture.missed.permille or 0)} of that time"
    elif slowed:
        effect = f"training is throttled or starved {brief_percent(mixture.slowed.permille or 0)} of that time"
    yield noticed(
        "fleet/mixed",
        mixture.name or mixture.run_id,
        values_of(mixture, hosts=some(list(mixture.nodes)), runs=some(list(mixture.trainings)), effect=effect),
        confidence="medium" if missed or slowed else "low",
        node=mixture.nodes[0] if len(mixture.nodes) == 1 else None,
        run_ids=(mixture.run_id,),  # and no team: it names runs of others
    )


def _misses_more(mixture: Mixture, limits: NoticeLimits) -> bool:
    together, alone = mixture.missed.permille, mixture.missed_alone.permille
    if together is None or together < limits.missed_permille or alone is None:
        return False
    return together >= limits.missed_factor * alone


def _loses_more(mixture: Mixture, limits: NoticeLimits) -> bool:
    together, alone = mixture.slowed.permille, mixture.slowed_alone.permille
    return together is not None and alone is not None and together - alone >= limits.slowed_permille
