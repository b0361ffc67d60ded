"""GPUs that are free while runs wait that would fit on them: in pieces, kept back, or in one piece and not given."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from agent.wire.units import HOUR_US
from analyzer.findings.finding import EvidenceLine
from analyzer.findings.health.limits import LIMITS, NoticeLimits
from analyzer.findings.health.notice import Notice, Span, notice_id
from analyzer.ledger.unjudged import Unjudged
from analyzer.queries.statements import statements
from analyzer.text.wording import counted, some

if TYPE_CHECKING:
    from collector.store.session import Session

_RULE = "fleet/fragmentation"
Why = Literal["pieces", "kept", "room"]
_WRONG_IF = (
    "the run asks for more than GPUs (cores, memory, a kind of GPU), or may spread over more hosts than is assumed"
)


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


def find_notices(session: "Session", span: Span) -> Iterator[Notice | Unjudged]:
    """Yield a notice for each queue and reason, by queue."""
    told, waits, free, queues, size = statements("findings/health/fragmentation.sql")
    period: dict[str, object] = {"start": span.start_us, "end": span.end_us}
    if not session.row(told)[0]:
        yield span.unjudged(_RULE, "no scheduler tells when runs were asked for (submitted_at)")
        return
    found = [Wait(*row) for row in session.rows(waits, period | {"wait_us": LIMITS.waited_ms * 1000})]
    by_hour: dict[int, list[Free]] = defaultdict(list)
    for row in session.rows(free, period):
        by_hour[row[0]].append(Free(*row))
    hosts: dict[str, set[str]] = defaultdict(set)
    for queue, node in session.rows(queues):
        hosts[queue].add(node)
    site = Site(by_hour, {queue: frozenset(nodes) for queue, nodes in hosts.items()}, session.row(size, period)[0] or 1)
    yield from _judged(found, site)


def _judged(waits: Sequence[Wait], site: Site, limits: NoticeLimits = LIMITS) -> Iterator[Notice]:
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
        yield from _notice(queue, why, runs, site, limits)


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


def _notice(
    queue: str, why: Why, runs: Mapping[Wait, Sequence[int]], site: Site, limits: NoticeLimits
) -> Iterator[Notice]:
    hours = sorted({hour for each in runs.values() for hour in each})
    idle = sum(_idle(why, [wait for wait, when in runs.items() if hour in when], site, hour) for hour in hours)
    if idle < limits.waited_gpu_hours:
        return
    worst = max(hours, key=lambda hour: (sum(host.free + host.kept for host in site.free.get(hour, ())), -hour))
    names = sorted({wait.name or wait.run_id for wait in runs})
    told = all(wait.reason is not None for wait in runs)
    key = queue if told else f"{queue} untold"
    words = {
        "pieces": "on no host as many as they need: pack small runs on fewer hosts, or let the scheduler defragment",
        "kept": "kept by a drain or a reservation: end what is over, or let short runs backfill it",
        "room": "enough of them on hosts that these runs may use: see limits, backfill and priorities",
    }
    yield Notice(
        notice_id(f"{_RULE}/{why}", key),
        f"{_RULE}/{why}",
        f"queue {queue}" if queue else "all queues",
        f"{idle:,} GPU-hours free while {counted(len(runs), 'run')} ({some(names)}) waited, {words[why]}",
        "capacity" if why == "kept" else "platform",
        "high" if told and why == "pieces" else "medium" if told else "low",
        run_ids=tuple(sorted(wait.run_id for wait in runs)),
        evidence=(
            EvidenceLine("waiting", f"{sum(len(each) for each in runs.values()):,} run-hours", "in whole hours"),
            EvidenceLine("free at most", _by_host(site.free.get(worst, ()), why)),
            EvidenceLine("why, says the scheduler", some(sorted({wait.reason or "nothing" for wait in runs}))),
        ),
        wrong_if=_WRONG_IF,
    )


def _idle(why: Why, waits: Sequence[Wait], site: Site, hour: int) -> int:
    """Return how many GPUs stood free for these runs in one hour: no more than they asked for, each GPU once."""
    hosts = {host.node: host for wait in waits for host in site.hosts(wait, hour)}
    there = sum(host.free + (host.kept if why == "kept" else 0) for host in hosts.values())
    return min(there, sum(wait.gpus for wait in waits))


def _by_host(hosts: Sequence[Free], why: Why) -> str:
    counts = [(host.node, host.free + (host.kept if why == "kept" else 0)) for host in hosts]
    return some([f"{count} on {node}" for node, count in counts if count])
