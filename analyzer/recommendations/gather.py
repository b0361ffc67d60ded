"""Who proposes what: each finding's rule, each notice's, what is looked for in the fleet, and a plan of all of it."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from analyzer.findings.finding import Finding
from analyzer.findings.health.all_notices import PeriodNotices
from analyzer.recommendations.advice_request import AdviceRequest
from analyzer.recommendations.fleet_plan.planned import against
from analyzer.recommendations.held_up import ended_together
from analyzer.recommendations.proposal import Proposal
from analyzer.recommendations.rules import FINDINGS, FLEET, NOTICES
from analyzer.recommendations.site import Site
from analyzer.recommendations.trigger import Trigger, of_finding, of_notice

if TYPE_CHECKING:
    from collector.store.session import Session

_Proposed = tuple[Trigger, Proposal]


def gather(
    session: "Session", site: Site, found: Sequence[Finding], start_us: int, end_us: int, wanted: AdviceRequest
) -> Iterator[_Proposed]:
    """Yield every change that is proposed for a period, with what it stands on; suspicions give none.

    Of a run that is what answers its findings, and no sample is looked at.

    Raises:
        StoreError: the store does not answer.
    """
    answers = ended_together(session, list(_of_findings(found, site)), found, start_us, end_us)
    if not wanted.is_of_fleet:
        yield from answers
        return
    noticed = list(_of_notices(wanted.look(session, start_us, end_us), site))
    planned = list(against(wanted.plan(session, site, start_us, end_us), found)) if wanted.plan is not None else []
    if any(proposal.kind == "consolidate" for _, proposal in noticed):  # somebody waits: what lets it in goes first
        planned = [one for one in planned if one[1].kind != "consolidate"]
    moved = {(finding_id, proposal.kind) for trigger, proposal in planned for finding_id in trigger.finding_ids}
    for trigger, proposal in answers:
        if not any((finding_id, proposal.kind) in moved for finding_id in trigger.finding_ids):
            yield trigger, proposal  # else the plan says the same of it, and knows who else wants that rack
    yield from planned
    yield from noticed
    for look_at in FLEET:
        yield from look_at(session, site, start_us, end_us)


def _of_findings(found: Sequence[Finding], site: Site) -> Iterator[_Proposed]:
    for finding in found:
        if finding.suspicion:
            continue
        for rule in FINDINGS:
            if (rule.state, rule.cause) == (finding.state, finding.cause):
                proposal = rule.propose(finding, site)
                if proposal is not None:
                    yield of_finding(finding), proposal


def _of_notices(looked: PeriodNotices, site: Site) -> Iterator[_Proposed]:
    for notice in looked.notices:
        for noticed in NOTICES:
            if noticed.rule == notice.rule and (proposal := noticed.propose(notice, site)) is not None:
                yield of_notice(notice), proposal
