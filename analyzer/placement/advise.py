"""From each finding to one concrete change: from, to, why, what it saves a week, what it costs to move."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from analyzer.findings import Finding
from analyzer.ids import short_id
from analyzer.placement.grounds import Grounds, of_finding
from analyzer.placement.proposal import Proposal, Saved
from analyzer.placement.recommendation import Recommendation
from analyzer.placement.rules import FINDINGS
from analyzer.placement.saving import weekly
from analyzer.placement.site import Site, read_site

if TYPE_CHECKING:
    from collector.store.session import Session


def recommendations(session: "Session", found: Sequence[Finding], start_us: int, end_us: int) -> list[Recommendation]:
    """Return what to change for these findings, by money saved a week (P50); suspicions give none."""
    site = read_site(session, start_us, end_us)
    advised = [advice for finding in found if (advice := _advise(finding, site, end_us - start_us)) is not None]
    return sorted(
        advised, key=lambda r: (-(r.saves_micros.p50 if r.saves_micros else 0), -r.saves_milliseconds.p50, r.id)
    )


def _advise(finding: Finding, site: Site, period_us: int) -> Recommendation | None:
    if finding.suspicion:
        return None
    for rule in FINDINGS:
        if (rule.state, rule.cause) == (finding.state, finding.cause):
            proposal = rule.propose(finding, site)
            return _recommendation(of_finding(finding), proposal, period_us) if proposal else None
    return None


def _recommendation(grounds: Grounds, proposal: Proposal, period_us: int) -> Recommendation:
    saved = _saved(grounds, proposal, period_us)
    return Recommendation(
        id=short_id("r", grounds.key, grounds.team or "", proposal.kind, grounds.cause),
        finding_ids=grounds.finding_ids,
        kind=proposal.kind,
        subject=grounds.subject,
        team=grounds.team,
        actor=proposal.actor or grounds.actor,
        title=proposal.title,
        from_=proposal.from_,
        to=proposal.to,
        why=proposal.why,
        saves_milliseconds=saved.milliseconds,
        saves_micros=saved.micros,
        cost_to_move=proposal.cost_to_move,
        cost_to_move_micros=_moving(grounds, proposal),
        artefacts=proposal.artefacts,
        losers=proposal.losers,
    )


def _saved(grounds: Grounds, proposal: Proposal, period_us: int) -> Saved:
    """Return what a proposal saves a week: an amount of its own, or a share of what it stands on."""
    if isinstance(proposal.saves, Saved):
        return proposal.saves
    return Saved(
        weekly(grounds.milliseconds or 0, period_us, proposal.saves),
        None if grounds.micros is None else weekly(grounds.micros, period_us, proposal.saves),
    )


def _moving(grounds: Grounds, proposal: Proposal) -> int | None:
    """Return the price of the GPU time that moving takes, at the finding's own rate; None where no price is known."""
    if proposal.moving_gpu_ms == 0:
        return 0
    if grounds.micros is None or not grounds.milliseconds:
        return None
    return grounds.micros * proposal.moving_gpu_ms // grounds.milliseconds
