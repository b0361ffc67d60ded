"""What a change stands on: a finding, a notice, or what the fleet owns and does not use."""

from dataclasses import dataclass

from analyzer.findings import Finding
from analyzer.notices.notice import Notice
from analyzer.states import Confidence


@dataclass(frozen=True, slots=True)
class Grounds:
    """The loss behind a change, and whose it is.

    `milliseconds` of GPU time and `micros` of money are lost in the period; None where a notice, which claims no
    second, is all there is: then the proposal says what it saves by itself.
    """

    subject: str
    team: str | None
    actor: str | None
    cause: str
    confidence: Confidence
    run_ids: tuple[str, ...] = ()
    finding_ids: tuple[str, ...] = ()
    notice_ids: tuple[str, ...] = ()
    milliseconds: int | None = None
    micros: int | None = None
    state: str | None = None

    @property
    def key(self) -> str:
        """The subject without the count of its runs, which changes from week to week."""
        return self.subject.removesuffix(f" ({len(self.run_ids)})")


def of_finding(finding: Finding) -> Grounds:
    """Return a finding as the grounds of a change."""
    return Grounds(
        finding.subject,
        finding.team,
        finding.actor,
        finding.cause,
        finding.confidence,
        finding.run_ids,
        (finding.id,),
        milliseconds=finding.milliseconds,
        micros=finding.at_stake_micros,
        state=finding.state,
    )


def of_notice(notice: Notice) -> Grounds:
    """Return a notice as the grounds of a change."""
    return Grounds(
        notice.subject,
        notice.team,
        notice.actor,
        notice.rule,
        notice.confidence,
        notice.run_ids,
        notice_ids=(notice.id,),
    )
