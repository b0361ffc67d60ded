"""What slow hosts cost a run in all: what their own clocks lose, and what every other rank waits for them meanwhile.

In a synchronous run each step ends with its slowest rank. So whoever ends the slowness of a host ends two findings of
its run, the loss of its clocks and its peers' wait, and two changes that do so are alternatives: they stand on both.

What peers wait for a GPU is what its clocks lost, and never longer: of a run on n GPUs of which the slowest lost t, all
ranks together lost n x t, those that were slow themselves by their clocks and the others by waiting. What was booked as
wait beyond that has another reason beside the clocks, or was measured too long, and is not promised back.

Work that a failure threw away later was slow too, and is booked as lost. A failure that comes with the hour takes as
many hours of a faster run, one that comes with the step spares them. Nobody can tell: only the lucky tail has them.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from analyzer.findings.finding import Finding
from analyzer.queries.statements import statements
from analyzer.recommendations.proposal import Proposal
from analyzer.recommendations.saving import BEYOND, Share, share_of_loss
from analyzer.recommendations.trigger import Trigger, with_findings

if TYPE_CHECKING:
    from collector.store.session import Session

WAIT = ("communicating", "straggler")
# What stays with the host. A limit of power holds back whatever works as hard, so that another host may be as slow.
_OF_THE_HOST = (("throttled", "thermal"), ("throttled", "hardware"))

THROWN_AWAY = ("lost_work", "throttled")

Loss = tuple[str, str]  # state and cause


@dataclass(frozen=True, slots=True)
class SlowHour:
    """What one run lost in one hour by one host: in all, and at most on one GPU of the host (0 of a wait)."""

    run_id: str
    hour: int
    node: str
    loss: Loss
    gpus: int  # of the run
    longest_ms: int
    milliseconds: int


def ended_together(
    session: "Session",
    proposed: Sequence[tuple[Trigger, Proposal]],
    found: Sequence[Finding],
    start_us: int,
    end_us: int,
) -> list[tuple[Trigger, Proposal]]:
    """Return what is proposed, in its order; what ends the slowness of hosts stands on all that their slowness cost."""
    runs = {run for trigger, proposal in proposed if proposal.slow_hosts for run in trigger.run_ids}
    hours = _read(session, runs, start_us, end_us)
    return [
        _with_all(trigger, proposal, found, [hour for hour in hours if hour.run_id in trigger.run_ids])
        if proposal.slow_hosts
        else (trigger, proposal)
        for trigger, proposal in proposed
    ]


def ended_ms(hours: Iterable[SlowHour], against: Loss, nodes: Collection[str], *others: Loss) -> int:
    """Return how much of a loss, and of others beside it, ends with the slowness of these hosts, in milliseconds.

    In hours in which their clocks lost time the run lost that on all its GPUs, as far as so much was booked. In hours
    in which they did not, what was waited for them ends only where the change is against the wait.
    """
    by_hour: dict[tuple[str, int], list[SlowHour]] = defaultdict(list)
    for hour in hours:
        if hour.node in nodes and hour.loss in (against, *others):
            by_hour[hour.run_id, hour.hour].append(hour)
    return sum(_ended(each, against) for each in by_hour.values())


def thrown_away_ms(hours: Iterable[SlowHour], nodes: Collection[str]) -> int:
    """Return what runs lost by the clocks of these hosts in work that was thrown away later, in milliseconds."""
    longest: dict[tuple[str, int], int] = defaultdict(int)
    for hour in hours:
        if hour.node in nodes and hour.loss == THROWN_AWAY:
            key = (hour.run_id, hour.hour)
            longest[key] = max(longest[key], hour.gpus * hour.longest_ms)
    return sum(longest.values())


def coincide(hours: Sequence[SlowHour], one: Loss, other: Loss, nodes: Collection[str]) -> bool:
    """Return whether some run had both losses by these hosts in one hour."""
    seen = [
        {(each.run_id, each.hour) for each in hours if each.node in nodes and each.loss == of} for of in (one, other)
    ]
    return not seen[0].isdisjoint(seen[1])


def _ended(hour: Sequence[SlowHour], against: Loss) -> int:
    """Return what ends of one hour of one run."""
    waited = sum(one.milliseconds for one in hour if one.loss == WAIT)
    clocks = [one for one in hour if one.loss != WAIT]
    if not clocks:
        return waited if against == WAIT else 0
    lost = sum(one.milliseconds for one in clocks)
    longest: dict[Loss, int] = defaultdict(int)
    for one in clocks:
        longest[one.loss] = max(longest[one.loss], one.longest_ms)
    return min(lost + waited, max(lost, clocks[0].gpus * sum(longest.values())))


def _with_all(
    trigger: Trigger, proposal: Proposal, found: Sequence[Finding], hours: Sequence[SlowHour]
) -> tuple[Trigger, Proposal]:
    """Return a change with all that it ends: the findings of its runs, and the share of them that is its hosts'."""
    against = (trigger.state or "", trigger.cause)
    others = [
        finding
        for finding in found
        if (finding.state, finding.cause) in (_OF_THE_HOST if against == WAIT else (WAIT,))
        and not finding.suspicion
        and not set(finding.run_ids).isdisjoint(trigger.run_ids)
        and coincide(hours, against, (finding.state, finding.cause), proposal.slow_hosts)
    ]
    ended = ended_ms(hours, against, proposal.slow_hosts, *((each.state, each.cause) for each in others))
    if not isinstance(proposal.saves, Share) or not ended:
        return trigger, proposal
    whole = with_findings(trigger, others)
    share = share_of_loss(proposal.saves, ended, whole.milliseconds or 0)
    lucky = share_of_loss(proposal.saves, ended + thrown_away_ms(hours, proposal.slow_hosts), whole.milliseconds or 0)
    return whole, replace(proposal, saves=replace(share, p95=min(BEYOND, lucky.p95)))


def _read(session: "Session", runs: Collection[str], start_us: int, end_us: int) -> list[SlowHour]:
    if not runs:
        return []
    (select,) = statements("recommendations/slow_hours.sql")
    rows = session.rows(select, {"runs": sorted(runs), "start": start_us, "end": end_us})
    return [SlowHour(run, hour, node, (state, cause), *amounts) for run, hour, node, state, cause, *amounts in rows]
