"""One finding, as the API writes it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import Path
from pydantic import Field

from analyzer.findings.finding import Finding
from analyzer.findings.finding_sentence import finding_sentence
from analyzer.findings.history.case import FindingHistory
from analyzer.findings.history.judgement import Judgement, Mute
from analyzer.findings.history.life import Life
from analyzer.findings.history.record import Record, Tally, VersionTally
from analyzer.ids import pattern
from analyzer.period import Period
from analyzer.queries.ledger_query import known_sum
from analyzer.reports.document import CostMicros, Iso, Micros, Milliseconds, Model, Rounding, Shown, iso
from analyzer.states import booking

FindingId = Annotated[str, Path(pattern=pattern("f"), description="As in the list: f-7kq2x; or how it begins.")]


@dataclass(frozen=True, slots=True)
class FindingContext:
    """What is written beside the figures of findings: the site's words, and what is kept of them."""

    currency: str
    timezone: str
    period: Period
    case: FindingHistory


class Seen(Model):
    """One line of the evidence."""

    what: str
    seen: str
    verdict: str


class LifeItem(Model):
    """When it was opened and closed, as of the end of the period."""

    state: Literal["open", "closed", "reopened"]
    first_at: Micros = Field(description="When it was first opened at all.")
    opened_at: Micros
    updated_at: Micros = Field(description="The end of the last hour in which it was seen.")
    closed_at: Micros | None
    reopened: int

    @classmethod
    def of(cls, life: Life) -> "LifeItem":
        """Return a life as the API writes it."""
        return cls(
            state=life.state,
            first_at=life.first_at,
            opened_at=life.opened_at,
            updated_at=life.updated_at,
            closed_at=life.closed_at,
            reopened=life.reopened,
        )


class WordItem(Model):
    """What somebody said of a finding in a period; the last word counts."""

    finding_id: str
    verdict: Literal["right", "wrong", "planned"]
    because: str
    period_label: str
    rule_version: str | None = Field(description="The version of the rule that was judged.")
    recorded_at: Micros
    recorded_at_iso: Iso

    @classmethod
    def of(cls, word: Judgement) -> "WordItem":
        """Return a judgement as the API writes it; who said it is for the audit."""
        return cls(
            finding_id=word.claim.finding_id,
            verdict=word.verdict,
            because=word.because,
            period_label=word.period_label,
            rule_version=word.claim.rule_version,
            recorded_at=word.recorded_at,
            recorded_at_iso=iso(word.recorded_at),
        )


class MuteItem(Model):
    """Until when lists leave a finding out."""

    finding_id: str
    until: Micros
    until_iso: Iso
    because: str

    @classmethod
    def of(cls, mute: Mute) -> "MuteItem":
        """Return a mute as the API writes it."""
        return cls(finding_id=mute.finding_id, until=mute.until, until_iso=iso(mute.until), because=mute.because)


class TallyItem(Model):
    """Findings that somebody judged; `right` holds the planned ones."""

    judged: int
    right: int
    planned: int
    permille: int | None = Field(description="The share that was right, rounded down; null where none was judged.")

    @classmethod
    def of(cls, tally: Tally) -> "TallyItem":
        """Return a tally as the API writes it."""
        return cls(judged=tally.judged, right=tally.right, planned=tally.planned, permille=tally.permille)


class VersionItem(Model):
    """One version of a rule at one confidence."""

    version: str | None = Field(description="Null where it was judged before versions of single rules were kept.")
    tally: TallyItem

    @classmethod
    def of(cls, one: VersionTally) -> "VersionItem":
        """Return a version's tally as the API writes it."""
        return cls(version=one.version, tally=TallyItem.of(one.tally))


class RuleItem(Model):
    """One rule at one confidence."""

    rule: str
    confidence: str
    tally: TallyItem
    versions: list[VersionItem] = Field(description="The same by version of the rule, the first judged first.")


class RecordItem(Model):
    """How often we were right so far, one word a finding and period."""

    high: TallyItem
    medium: TallyItem
    low: TallyItem
    rules: list[RuleItem]

    @classmethod
    def of(cls, record: Record) -> "RecordItem":
        """Return the record as the API writes it."""
        return cls(
            high=TallyItem.of(record.high),
            medium=TallyItem.of(record.medium),
            low=TallyItem.of(record.low),
            rules=[
                RuleItem(
                    rule=one.rule,
                    confidence=one.confidence,
                    tally=TallyItem.of(one.tally),
                    versions=[VersionItem.of(version) for version in one.versions],
                )
                for one in record.rules
            ],
        )


class FindingItem(Model):
    """One loss of one subject. Its id stays from week to week; `at_stake_micros` is null where no price is known."""

    id: str
    rule: str
    rule_version: str | None = Field(description="Of this rule: its revision, and a digest of the numbers it reads.")
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
    hosts: list[str]
    sentence: str = Field(description="Who, where, why, and what it has cost since when.")
    life: LifeItem | None = Field(description="What the book says; null where it has no such finding yet.")
    judgement: WordItem | None
    mute: MuteItem | None
    evidence: list[Seen]
    wrong_if: str
    display: Shown


def finding_items(whole: Sequence[Finding], shown: Sequence[Finding], beside: FindingContext) -> list[FindingItem]:
    """Return findings as the API writes them; as shown, those of the whole list add up."""
    at_stake = known_sum(finding.at_stake_micros for finding in whole)
    total = (sum(finding.milliseconds for finding in whole), at_stake, 0)
    rounding = Rounding(total, beside.currency)
    exact = [(finding.milliseconds, finding.at_stake_micros, 0) for finding in whole]
    display = {
        finding.id: amounts.display
        for finding, amounts in zip(whole, rounding.parts(exact, rounding.hours[0], rounding.costs[0]), strict=True)
    }
    return [_item(finding, display[finding.id], beside) for finding in shown]


def _item(finding: Finding, display: Shown, beside: FindingContext) -> FindingItem:
    life, mute = beside.case.lives.get(finding.id), beside.case.mutes.get(finding.id)
    word = beside.case.word(finding.id, beside.period)
    return FindingItem(
        id=finding.id,
        rule=finding.rule,
        rule_version=finding.rule_version,
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
        hosts=list(finding.hosts),
        sentence=finding_sentence(finding, beside.currency, beside.timezone),
        life=LifeItem.of(life) if life else None,
        judgement=WordItem.of(word) if word else None,
        mute=MuteItem.of(mute) if mute else None,
        evidence=[Seen(what=line.what, seen=line.seen, verdict=line.verdict) for line in finding.evidence],
        wrong_if=finding.wrong_if,
        display=display,
    )
