"""Hosts whose driver is not their group's, and groups that stay behind the fleet. No version is bad by itself."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from analyzer.findings.finding import EvidenceLine
from analyzer.findings.health.limits import LIMITS, NoticeLimits
from analyzer.findings.health.notice import Notice, Span, notice_id
from analyzer.ledger.unjudged import Unjudged
from analyzer.queries.statements import statements
from analyzer.text.wording import some

if TYPE_CHECKING:
    from collector.store.session import Session

_RULE = "fleet/drivers"


@dataclass(frozen=True, slots=True)
class HostDriver:
    """The driver of one host; None where nobody told."""

    node_group: str
    node: str
    driver: str | None


def find_notices(session: "Session", span: Span) -> Iterator[Notice | Unjudged]:
    """Yield a notice for each group and version that is not the group's, then for groups behind the fleet."""
    (select,) = statements("findings/health/drivers.sql")
    hosts = [HostDriver(*row) for row in session.rows(select, {"start": span.start_us, "end": span.end_us})]
    if hosts and all(host.driver is None for host in hosts):
        yield span.unjudged(_RULE, "no host's driver version was told (inventory)")
    yield from notices_of(hosts)


def notices_of(hosts: Sequence[HostDriver], limits: NoticeLimits = LIMITS) -> Iterator[Notice]:
    """Yield notices; `hosts` are in order of their group. Groups too small for a majority are left out."""
    known = [host for host in hosts if host.driver is not None]
    fleet = _majority([host.driver or "" for host in known], limits)
    for group, members in groupby(known, lambda host: host.node_group):
        found = list(members)
        usual = _majority([host.driver or "" for host in found], limits)
        if usual is None:
            continue
        for version in sorted({host.driver or "" for host in found} - {usual}, key=_order):
            yield _odd(group, version, usual, found)
        if fleet is not None and _order(usual) < _order(fleet):
            yield _behind(group, usual, fleet, [host.node for host in found])


def _odd(group: str, version: str, usual: str, hosts: Sequence[HostDriver]) -> Notice:
    nodes = [host.node for host in hosts if host.driver == version]
    is_older = _order(version) < _order(usual)
    todo = "bring them up to the others" if is_older else "finish the upgrade, or take it back"
    return Notice(
        notice_id(_RULE, f"{group} {version}"),
        _RULE,
        nodes[0] if len(nodes) == 1 else group,
        f"driver {version} on {some(nodes)}, {usual} on most of the {len(hosts)} hosts of {group}: {todo}, "
        "so that one run has one driver",
        "platform",
        "high" if is_older else "medium",
        node=nodes[0] if len(nodes) == 1 else None,
        evidence=tuple(
            EvidenceLine(f"driver {each}", f"{sum(host.driver == each for host in hosts)} of {len(hosts)} hosts")
            for each in sorted({host.driver or "" for host in hosts}, key=_order)
        ),
        wrong_if="these hosts are kept apart on purpose, as to try a driver, or the upgrade is under way",
    )


def _behind(group: str, usual: str, fleet: str, nodes: list[str]) -> Notice:
    return Notice(
        notice_id(_RULE, f"{group} behind"),
        _RULE,
        group,
        f"driver {usual} on {group} ({some(nodes)}), {fleet} on most of the fleet: plan its upgrade",
        "platform",
        "medium",
        evidence=(EvidenceLine("driver", usual, f"{fleet} on most hosts"),),
        wrong_if="the newer driver no longer supports these GPUs",
    )


def _majority(versions: Sequence[str], limits: NoticeLimits) -> str | None:
    """Return what more than half have, or None: of too few hosts, or where nothing has that many."""
    if len(versions) < limits.peers:
        return None
    version, count = min(Counter(versions).items(), key=lambda item: (-item[1], item[0]))
    return version if count * 1000 > limits.majority_permille * len(versions) else None


def _order(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, which sort as versions do: 570.86.15 before 570.124.6."""
    return tuple(int(part) for part in re.findall(r"\d+", version))
