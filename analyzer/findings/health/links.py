"""Links that send packets again, RDMA ports slower than those beside them, and ports whose errors stand out.

A link that is narrower than it could be is the hardware rule's.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from agent.wire.units import HOUR_US
from analyzer.findings.finding import EvidenceLine
from analyzer.findings.health.limits import LIMITS, NoticeLimits
from analyzer.findings.health.notice import Notice, Span, notice_id
from analyzer.ledger.unjudged import Unjudged
from analyzer.queries.statements import statements
from analyzer.text.wording import counted
from collector.lake.tiers.retained import kept_from

if TYPE_CHECKING:
    from collector.store.session import Session

_RULE = "fleet/links"
_GIGABIT = 125_000_000  # bytes a second


@dataclass(frozen=True, slots=True)
class Replays:
    """PCIe packets that one GPU sent again."""

    node: str
    gpu_uuid: str
    worst_hour: int
    replays: int
    hours: int  # in which there were any


@dataclass(frozen=True, slots=True)
class Port:
    """One RDMA port over a period."""

    node_group: str
    link_kind: str
    node: str
    device: str
    speed: int | None  # bytes a second
    errors: int
    ms: int

    @property
    def errors_per_hour(self) -> int:
        """Errors an hour of what was measured."""
        return self.errors * 3_600_000 // self.ms if self.ms else 0


def find_notices(session: "Session", span: Span) -> Iterator[Notice | Unjudged]:
    """Yield notices of GPUs, then of ports, by host."""
    replays, ports, told = statements("findings/health/links.sql")
    (newest,) = session.row("SELECT coalesce(max(hour), 0) FROM notice_gpu_hours")
    if not session.row(told, {"last": max(span.start_us, newest), "end": span.end_us})[0]:
        yield span.unjudged(f"{_RULE}/pcie", "no GPU told of PCIe packets sent again (field 94)")
    if kept_from(session, ["gpu_samples"]) > span.start_us:
        yield span.unjudged(f"{_RULE}/pcie", "the samples of a part of this period have expired")
    values: dict[str, object] = {"start": span.start_us, "end": span.end_us, "replays": LIMITS.replays_per_hour}
    for row in session.rows(replays, values):
        yield from _judged_replays(Replays(*row))
    found = [Port(*row) for row in session.rows(ports)]
    if found and all(port.speed is None for port in found):
        yield span.unjudged(f"{_RULE}/speed", "no RDMA port told of its speed")
    yield from judged_ports(found)
    if newest and newest + HOUR_US > span.start_us:
        yield span.unjudged(f"{_RULE}/nvlink", "agents send NVLink traffic and none of its error counters")


def _judged_replays(seen: Replays, limits: NoticeLimits = LIMITS) -> Iterator[Notice]:
    """Yield a notice where an hour had more replays than is recommended."""
    if seen.worst_hour < limits.replays_per_hour:
        return
    yield Notice(
        notice_id(f"{_RULE}/pcie", seen.gpu_uuid),
        f"{_RULE}/pcie",
        seen.gpu_uuid,
        f"{seen.worst_hour:,} PCIe packets sent again in its worst hour: reseat it, or change its riser or cable",
        "platform",
        "high" if seen.hours > 1 else "medium",
        node=seen.node,
        gpu_uuid=seen.gpu_uuid,
        evidence=(
            EvidenceLine("replays", f"{seen.replays:,} in {counted(seen.hours, 'hour')}"),
            EvidenceLine("worst hour", f"{seen.worst_hour:,}", f"{limits.replays_per_hour} are recommended at most"),
        ),
        wrong_if="they all came with one reset of the link",
    )


def judged_ports(ports: Sequence[Port], limits: NoticeLimits = LIMITS) -> Iterator[Notice]:
    """Yield notices of ports that are not as those of their group; `ports` are in order of group and kind."""
    for (group, _), members in groupby(ports, lambda port: (port.node_group, port.link_kind)):
        found = list(members)
        usual = _usual_speed(found, limits)
        for port in found:
            if usual is not None and port.speed is not None and port.speed < usual:
                yield _slow(port, usual, group)
            others = sorted(other.errors_per_hour for other in found if other is not port)
            median = others[(len(others) - 1) // 2] if others else 0
            rate = port.errors_per_hour
            is_odd = len(found) >= limits.peers and rate >= limits.port_errors_factor * max(1, median)
            if is_odd and rate >= limits.port_errors_per_hour:
                yield _erring(port, rate, median)


def _slow(port: Port, usual: int, group: str) -> Notice:
    speed = port.speed or 0
    return _of_port(
        "speed",
        port,
        f"{port.device} runs at {speed // _GIGABIT} Gbit/s where most ports of {group} run at {usual // _GIGABIT}: "
        "see cable, transceiver and the switch's port; every run that spans this host waits for it",
        (EvidenceLine("speed", f"{speed // _GIGABIT} Gbit/s", f"{usual // _GIGABIT} elsewhere"),),
        "it is another kind of port, for storage or management",
    )


def _erring(port: Port, rate: int, median: int) -> Notice:
    return _of_port(
        "errors",
        port,
        f"{port.device} had {rate:,} errors an hour, the median port beside it {median:,}: change its cable",
        (
            EvidenceLine("errors", f"{port.errors:,}", f"{rate:,} an hour"),
            EvidenceLine("beside it", f"{median:,} an hour"),
        ),
        "they are drops of a full queue and no fault of the link",
    )


def _of_port(kind: str, port: Port, sentence: str, evidence: tuple[EvidenceLine, ...], wrong_if: str) -> Notice:
    rule = f"{_RULE}/{kind}"
    return Notice(
        notice_id(rule, f"{port.node}/{port.device}"),
        rule,
        f"{port.node}/{port.device}",
        sentence,
        "platform",
        "medium",
        node=port.node,
        evidence=evidence,
        wrong_if=wrong_if,
    )


def _usual_speed(ports: Sequence[Port], limits: NoticeLimits) -> int | None:
    """Return the speed that more than half of the ports have; None of too few ports."""
    speeds = [port.speed for port in ports if port.speed is not None]
    if len(speeds) < limits.peers:
        return None
    speed, count = min(Counter(speeds).items(), key=lambda item: (-item[1], -item[0]))
    return speed if count * 1000 > limits.majority_permille * len(speeds) else None
