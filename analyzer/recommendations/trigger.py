"""What a change stands on: a finding, a notice, or what the fleet owns and does not use."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from analyzer.findings.finding import Finding
from analyzer.findings.health.notice import Notice
from analyzer.states import Confidence

_LEAST_SURE_FIRST: tuple[Confidence, ...] = ("low", "medium", "high")


@dataclass(frozen=True, slots=True)
class Trigger:
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
    beside: tuple[tuple[str, str], ...] = ()  # state and cause of its further findings

    @property
    def losses(self) -> tuple[tuple[str | None, str], ...]:
        """State and cause of each finding that it stands on."""
        return ((self.state, self.cause), *self.beside)

    @property
    def key(self) -> str:
        """The subject without the count of its runs, which changes from week to week."""
        return self.subject.removesuffix(f" ({len(self.run_ids)})")


def of_finding(finding: Finding) -> Trigger:
    """Return a finding as the grounds of a change."""
    return Trigger(
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


def with_findings(trigger: Trigger, others: Sequence[Finding]) -> Trigger:
    """Return the same grounds with further findings: their losses added, as sure as the least sure of them.

    The runs stay those of the first, and so does what it is called. Where one has no price, all have none.
    """
    micros = (trigger.micros, *(finding.at_stake_micros for finding in others))
    known = [each for each in micros if each is not None]
    return replace(
        trigger,
        confidence=min((trigger.confidence, *(finding.confidence for finding in others)), key=_LEAST_SURE_FIRST.index),
        finding_ids=(*trigger.finding_ids, *(finding.id for finding in others)),
        milliseconds=(trigger.milliseconds or 0) + sum(finding.milliseconds for finding in others),
        micros=sum(known) if len(known) == len(micros) else None,
        beside=tuple((finding.state, finding.cause) for finding in others),
    )


def of_notice(notice: Notice) -> Trigger:
    """Return a notice as the grounds of a change."""
    return Trigger(
        notice.subject,
        notice.team,
        notice.actor,
        notice.rule,
        notice.confidence,
        notice.run_ids,
        notice_ids=(notice.id,),
    )
