"""One finding, as the API writes it."""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from analyzer.api.amounts import Rounding
from analyzer.api.model import CostMicros, Iso, Micros, Milliseconds, Model, Shown, iso
from analyzer.findings import Finding
from analyzer.report.readings import known_sum
from analyzer.states import booking


class Seen(Model):
    """One line of the evidence."""

    what: str
    seen: str
    verdict: str


class FindingItem(Model):
    """One loss of one subject. Its id stays from week to week; `at_stake_micros` is null where no price is known."""

    id: str
    rule: str
    subject: str
    run_ids: list[str]
    team: str | None
    state: str
    cause: str
    label: str = Field(description="What people are shown for the state and cause.")
    what: str
    milliseconds: Milliseconds
    at_stake_micros: CostMicros | None
    confidence: Literal["high", "medium", "low"]
    actor: str | None = Field(description="Who can act: run, platform or capacity.")
    first_at: Micros
    first_at_iso: Iso
    last_at: Micros
    last_at_iso: Iso
    still_open: bool
    suspicion: bool = Field(description="Below medium confidence: its time stays unexplained, and it claims nothing.")
    caused_by: str | None = Field(description="The GPU, node or run that is the root of it.")
    sentence: str
    evidence: list[Seen]
    wrong_if: str
    display: Shown


def finding_items(whole: Sequence[Finding], shown: Sequence[Finding], currency: str) -> list[FindingItem]:
    """Return findings as the API writes them; as shown, those of the whole list add up."""
    at_stake = known_sum(finding.at_stake_micros for finding in whole)
    total = (sum(finding.milliseconds for finding in whole), at_stake, 0)
    rounding = Rounding(total, currency)
    exact = [(finding.milliseconds, finding.at_stake_micros, 0) for finding in whole]
    display = {
        finding.id: amounts.display
        for finding, amounts in zip(whole, rounding.parts(exact, rounding.hours[0], rounding.costs[0]), strict=True)
    }
    return [_item(finding, display[finding.id]) for finding in shown]


def _item(finding: Finding, display: Shown) -> FindingItem:
    return FindingItem(
        id=finding.id,
        rule=finding.rule,
        subject=finding.subject,
        run_ids=list(finding.run_ids),
        team=finding.team,
        state=finding.state,
        cause=finding.cause,
        label=booking(finding.state, None if finding.suspicion else finding.cause or None).label,
        what=finding.what,
        milliseconds=finding.milliseconds,
        at_stake_micros=finding.at_stake_micros,
        confidence=finding.confidence,
        actor=finding.actor,
        first_at=finding.first_at,
        first_at_iso=iso(finding.first_at),
        last_at=finding.last_at,
        last_at_iso=iso(finding.last_at),
        still_open=finding.still_open,
        suspicion=finding.suspicion,
        caused_by=finding.caused_by,
        sentence=finding.sentence,
        evidence=[Seen(what=line.what, seen=line.seen, verdict=line.verdict) for line in finding.evidence],
        wrong_if=finding.wrong_if,
        display=display,
    )
