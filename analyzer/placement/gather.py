"""Who proposes what: each finding's rule, each notice's, and what is looked for in the fleet as a whole."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from analyzer.findings import Finding
from analyzer.notices.book import look
from analyzer.placement.grounds import Grounds, of_finding, of_notice
from analyzer.placement.held_up import ended_together
from analyzer.placement.proposal import Proposal
from analyzer.placement.rules import FINDINGS, FLEET, NOTICES
from analyzer.placement.site import Site
from analyzer.placement.site_reading import is_there

if TYPE_CHECKING:
    from collector.store.session import Session


def gather(
    session: "Session", site: Site, found: Sequence[Finding], start_us: int, end_us: int
) -> Iterator[tuple[Grounds, Proposal]]:
    """Yield every change that is proposed for a period, with what it stands on; suspicions give none."""
    yield from ended_together(session, list(_of_findings(found, site)), found, start_us, end_us)
    if is_there(session, "notices"):
        for notice in look(session, start_us, end_us).notices:
            for noticed in NOTICES:
                if noticed.rule == notice.rule and (proposal := noticed.propose(notice, site)) is not None:
                    yield of_notice(notice), proposal
    for look_at in FLEET:
        yield from look_at(session, site, start_us, end_us)


def _of_findings(found: Sequence[Finding], site: Site) -> Iterator[tuple[Grounds, Proposal]]:
    for finding in found:
        if finding.suspicion:
            continue
        for rule in FINDINGS:
            if (rule.state, rule.cause) == (finding.state, finding.cause):
                proposal = rule.propose(finding, site)
                if proposal is not None:
                    yield of_finding(finding), proposal
