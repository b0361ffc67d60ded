"""A plan's moves against what was found: of one loss no second is promised twice, and none that no finding has."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from analyzer.findings.finding import Finding
from analyzer.recommendations.proposal import Proposal
from analyzer.recommendations.trigger import Trigger
from analyzer.states import Confidence

_STATE, CAUSE = "communicating", "cross_rack"
_SURE: tuple[Confidence, ...] = ("low", "medium", "high")


def against(
    planned: Sequence[tuple[Trigger, Proposal]], found: Sequence[Finding]
) -> Iterator[tuple[Trigger, Proposal]]:
    """Yield what a plan moves, a move out of several racks with the findings whose seconds it would give back.

    With their ids it competes with whatever else would save those. A run of which nothing was found is left where it
    is. Of a finding's runs one moves in a plan: all bear one name, and a recommendation is known by it.
    """
    claimed: set[str] = set()
    for trigger, proposal in sorted(planned, key=lambda one: (-(one[0].milliseconds or 0), one[0].subject)):
        if trigger.cause != CAUSE:
            yield trigger, proposal
            continue
        own = [finding for finding in found if _is_about(finding, trigger)]
        ids = {finding.id for finding in own}
        if own and not ids & claimed:
            claimed |= ids
            yield _standing_on(trigger, own), proposal


def _is_about(finding: Finding, trigger: Trigger) -> bool:
    is_crossing = (finding.state, finding.cause) == (_STATE, CAUSE) and not finding.suspicion
    return is_crossing and not set(finding.run_ids).isdisjoint(trigger.run_ids)


def _standing_on(trigger: Trigger, own: Sequence[Finding]) -> Trigger:
    """Return the run's own part of what its findings lost: never more than either says."""
    first = own[0]
    stakes = [finding.at_stake_micros for finding in own]
    known = None if None in stakes or trigger.micros is None else sum(stake or 0 for stake in stakes)
    return replace(
        trigger,
        subject=first.subject.removesuffix(f" ({len(first.run_ids)})"),
        team=first.team,
        actor=first.actor,
        confidence=min((finding.confidence for finding in own), key=_SURE.index),
        finding_ids=tuple(finding.id for finding in own),
        milliseconds=min(trigger.milliseconds or 0, sum(finding.milliseconds for finding in own)),
        micros=None if known is None else min(trigger.micros or 0, known),
        state=_STATE,
    )
