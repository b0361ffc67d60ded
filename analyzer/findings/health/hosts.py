"""Hosts to look at: RDMA ports unlike those beside them, drivers unlike their group's, and agents that fall silent."""

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

from agent.wire.units import HOUR_US
from analyzer.findings.finding import EvidenceLine
from analyzer.findings.health.gpus import Replays, replay_notices
from analyzer.findings.health.notice import LIMITS, Notice, NoticeLimits, Span, noticed, rows_of, values_of
from analyzer.ledger.coverage import Unjudged
from analyzer.queries.statements import statements
from analyzer.text.words import counted, some
from collector.lake.tiers import kept_from
from collector.store.session import Session

SILENT_AGENTS = "fleet/silent_agents"
_GIGABIT = 125_000_000  # bytes a second
_LOOK_BACK_US = 2 * HOUR_US  # how far the last word is sought to the microsecond; before that the hour is enough

H = TypeVar("H", bound=Hashable)


def _majority(values: Sequence[H], limits: NoticeLimits, order: Sequence[H]) -> H | None:
    """Return what more than half have, of equals the first in order; None of too few, or where none has so many."""
    if len(values) < limits.peers:
        return None
    counts = Counter(values)
    most = max(order, key=lambda value: counts[value])
    return most if counts[most] * 1000 > limits.majority_permille * len(values) else None


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


def find_links(session: Session, span: Span) -> Iterator[Notice | Unjudged]:
    """Yield notices of GPUs' links, then of ports, by host. One that is narrower than it could be is the hardware's."""
    replays, ports, told = statements("findings/health/links.sql")
    (newest,) = session.row("SELECT coalesce(max(hour), 0) FROM notice_gpu_hours")
    if not rows_of(session, span, told, last=max(span.start_us, newest))[0][0]:
        yield span.unjudged("fleet/links/pcie", "no GPU reports PCIe replays (field 94)")
    if kept_from(session, ["gpu_samples"]) > span.start_us:
        yield span.unjudged("fleet/links/pcie", "the samples of a part of this period have expired")
    yield from replay_notices([Replays(*row) for row in rows_of(session, span, replays)])
    found = [Port(*row) for row in rows_of(session, span, ports)]
    if found and all(port.speed is None for port in found):
        yield span.unjudged("fleet/links/speed", "no RDMA port reports its speed")
    yield from port_notices(found)
    if newest and newest + HOUR_US > span.start_us:
        yield span.unjudged("fleet/links/nvlink", "agents send NVLink traffic but no NVLink error counters")


def port_notices(ports: Sequence[Port], limits: NoticeLimits = LIMITS) -> Iterator[Notice]:
    """Yield notices of ports that are not as those of their group; `ports` are in order of group and kind."""
    for _, members in groupby(ports, lambda port: (port.node_group, port.link_kind)):
        found = list(members)
        speeds = [port.speed for port in found if port.speed is not None]
        usual = _majority(speeds, limits, sorted(set(speeds), reverse=True))
        for port in found:
            subject, rate = f"{port.node}/{port.device}", port.errors_per_hour
            if usual is not None and port.speed is not None and port.speed < usual:
                values = values_of(port, gigabits=port.speed // _GIGABIT, usual=usual // _GIGABIT)
                yield noticed("fleet/links/speed", subject, values, node=port.node)
            others = sorted(other.errors_per_hour for other in found if other is not port)
            median = others[(len(others) - 1) // 2] if others else 0
            is_odd = len(found) >= limits.peers and rate >= limits.port_errors_factor * max(1, median)
            if is_odd and rate >= limits.port_errors_per_hour:
                values = values_of(port, rate=rate, median=median)
                yield noticed("fleet/links/errors", subject, values, node=port.node)


@dataclass(frozen=True, slots=True)
class HostDriver:
    """The driver of one host; None where nobody told."""

    node_group: str
    node: str
    driver: str | None


def find_drivers(session: Session, span: Span) -> Iterator[Notice | Unjudged]:
    """Yield a notice for each group and version that is not the group's, then for groups behind the fleet."""
    (select,) = statements("findings/health/drivers.sql")
    hosts = [HostDriver(*row) for row in rows_of(session, span, select)]
    if hosts and all(host.driver is None for host in hosts):
        yield span.unjudged("fleet/drivers", "no host reports its driver version (inventory)")
    yield from driver_notices(hosts)


def driver_notices(hosts: Sequence[HostDriver], limits: NoticeLimits = LIMITS) -> Iterator[Notice]:
    """Yield notices; `hosts` are in order of their group. Groups too small for a majority are left out.

    No version is bad by itself: the fleet's own majority is what one is held to.
    """
    known = [(host.node_group, host.node, host.driver) for host in hosts if host.driver is not None]
    fleet = _usual_driver([driver for *_, driver in known], limits)
    for group, members in groupby(known, lambda host: host[0]):
        of_node = {node: driver for _, node, driver in members}
        usual = _usual_driver(list(of_node.values()), limits)
        if usual is None:
            continue
        versions = sorted(set(of_node.values()), key=_version_order)
        for version in versions:
            if version != usual:
                yield _odd_driver(group, version, usual, of_node, versions)
        if fleet is not None and _version_order(usual) < _version_order(fleet):
            values = {"usual": usual, "group": group, "nodes": some(list(of_node)), "fleet": fleet}
            key = ("fleet/drivers", f"{group} behind")
            yield noticed("fleet/drivers", group, values, words_of="fleet/drivers/behind", key=key)


def _odd_driver(group: str, version: str, usual: str, of_node: dict[str, str], versions: Sequence[str]) -> Notice:
    nodes = [node for node, driver in of_node.items() if driver == version]
    is_older = _version_order(version) < _version_order(usual)
    values = {
        "version": version,
        "nodes": some(nodes),
        "usual": usual,
        "hosts": len(of_node),
        "group": group,
        "todo": "upgrade them to match the others" if is_older else "finish the upgrade, or roll it back",
    }
    counts = Counter(of_node.values())
    return noticed(
        "fleet/drivers",
        nodes[0] if len(nodes) == 1 else group,
        values,
        key=("fleet/drivers", f"{group} {version}"),
        evidence=[EvidenceLine(f"driver {each}", f"{counts[each]} of {len(of_node)} hosts") for each in versions],
        node=nodes[0] if len(nodes) == 1 else None,
        confidence="high" if is_older else "medium",
    )


def _usual_driver(versions: Sequence[str], limits: NoticeLimits) -> str | None:
    return _majority(versions, limits, sorted(set(versions)))


def _version_order(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, which sort as versions do: 570.86.15 before 570.124.6."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


@dataclass(frozen=True, slots=True)
class Agent:
    """What was heard of one owned host in a period. Sums are of the period, None where the agent does not say."""

    node: str
    gpus: int
    never_seen: bool
    is_expected: bool  # owned to the end, and not down in its scheduler's word
    last_at: int | None = None  # microseconds UTC
    told_ms: int | None = None  # for how long the agent told of itself
    gaps: int | None = None  # beats that it missed
    beat_ms: int | None = None
    dropped_batches: int = 0
    dropped_rows: int = 0
    offset_ms: int | None = None  # from the collector's clock, the median, without its sign
    paused: bool = False


def find_silent_agents(session: Session, span: Span) -> Iterator[Notice | Unjudged]:
    """Yield notices by host: owned ones of which nobody hears, agents that miss beats, lose batches or the time."""
    (select,) = statements("findings/health/silence.sql")
    (newest,) = session.row(
        "SELECT max(hour) FROM ledger_hours WHERE hour >= ? AND hour < ?", [span.start_us, span.end_us]
    )
    if newest is None:
        return
    since = max(span.start_us, newest + HOUR_US - _LOOK_BACK_US)
    agents = [Agent(*row) for row in rows_of(session, span, select, newest=since)]
    if agents and all(agent.never_seen and agent.last_at is None for agent in agents):
        # Job history alone, as an import brings it: agents that were never there are not silent.
        missing = f"no host reports telemetry: none of {counted(len(agents), 'host')} was measured"
        yield span.unjudged(SILENT_AGENTS, missing)
        return
    if agents and all(agent.told_ms is None for agent in agents):
        # What an import or a Prometheus brought has no agent: that its samples end somewhere is no agent's silence.
        missing = "no agent reports its own health (agent_samples): silence, gaps and clock offset are unknown"
        yield span.unjudged(SILENT_AGENTS, missing)
        return
    yield from agent_notices(agents)


def agent_notices(agents: Sequence[Agent], limits: NoticeLimits = LIMITS) -> Iterator[Notice]:
    """Yield notices of all hosts; the newest word of any of them is what silence is measured against."""
    newest = max((agent.last_at for agent in agents if agent.last_at is not None), default=None)
    for agent in agents:
        if agent.never_seen and agent.last_at is None:
            yield _of_agent("never_seen", agent)
        elif newest is not None and agent.last_at is not None and agent.is_expected:
            silent_ms = (newest - agent.last_at) // 1000
            if silent_ms > limits.silent_ms:
                why = "paused by its operator" if agent.paused else "silent"
                yield _of_agent("silent", agent, silent_ms=silent_ms, why=why)
        if agent.dropped_batches:
            batches = counted(agent.dropped_batches, "batch").replace("batchs", "batches")
            yield _of_agent("dropped", agent, batches=batches)
        missed = _missed_beats(agent)
        if missed is not None and missed > limits.missed_beats_permille:
            yield _of_agent("gaps", agent, missed=missed, most=limits.missed_beats_permille)
        if agent.offset_ms is not None and agent.offset_ms > limits.clock_offset_ms:
            seconds, most = agent.offset_ms / 1000, limits.clock_offset_ms / 1000
            yield _of_agent("clock", agent, seconds=seconds, most=most)


def _missed_beats(agent: Agent) -> int | None:
    """Return the share of its time that an agent missed, permille; None where that is not told, or none was missed."""
    if not agent.gaps or not agent.told_ms or not agent.beat_ms:
        return None
    return 1000 * agent.gaps * agent.beat_ms // (agent.told_ms + agent.gaps * agent.beat_ms)


def _of_agent(kind: str, agent: Agent, **more: object) -> Notice:
    rule = f"{SILENT_AGENTS}/{kind}"
    return noticed(rule, agent.node, values_of(agent, **more), node=agent.node)
