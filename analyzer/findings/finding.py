"""What a finding is: what, where, when, how sure, at stake, and the sentence a person reads; and its document."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from agent.wire.units import WEEK_US
from analyzer.findings.judgement import FindingHistory, Judgement, Mute
from analyzer.findings.life import Life
from analyzer.period import WEEKDAYS, Period, iso, local
from analyzer.states import Confidence, booking
from analyzer.text.as_json import WHOLE, CostMicros, Iso, Micros, Milliseconds, Name, Sentence
from analyzer.text.display import Display, displays
from analyzer.text.words import CENTS_UNDER, day, gpu_hours, money


@dataclass(frozen=True, slots=True)
class EvidenceLine:
    """One line of the evidence: "loader workers", "8, each at 97-100% of a core", "<- the limit"."""

    __pydantic_config__: ClassVar[ConfigDict] = WHOLE

    what: Sentence
    seen: Sentence
    verdict: Sentence = ""


@dataclass(frozen=True, slots=True)
class Sign:
    """One number and its mark. `holds` is None where the number was not reported, or is no test by itself."""

    what: str
    seen: str
    needed: str
    holds: bool | None


@dataclass(frozen=True, slots=True)
class Finding:
    """One loss of one subject in one period. Findings share no GPU-second; at stake, they sum to what is avoidable.

    `subject` is a run's name, with a count where many runs of that name are meant ("det-sweep (41)"), or a node.
    `at_stake_micros` is None where no price is known. The id depends on subject, state and cause alone, so that a
    finding keeps it from week to week.
    """

    __pydantic_config__: ClassVar[ConfigDict] = WHOLE

    id: str
    rule: str
    subject: Name
    run_ids: tuple[Name, ...]
    team: Name | None
    state: str
    cause: str
    what: str  # "input: preprocessing", "idle, memory in use", "across racks"
    milliseconds: Milliseconds
    at_stake_micros: CostMicros | None
    confidence: Confidence
    actor: Annotated[str | None, Field(description="Owner: run, platform or capacity.")]
    first_at: Micros
    last_at: Micros
    still_open: bool
    caused_by: Annotated[Name | None, Field(description="The GPU, node or run at its root.")]
    claim: Annotated[Sentence, Field(description="Who, where, how much of the time, and the limit: without figures.")]
    evidence: tuple[EvidenceLine, ...]
    wrong_if: Annotated[Sentence, Field(description="This is wrong if: what would disprove it.")]
    suspicion: Annotated[
        bool, Field(description="Below medium confidence: its time stays unexplained, and no cost is counted.")
    ] = False
    hosts: tuple[Name, ...] = ()
    rule_version: Annotated[
        str | None, Field(description="Of this rule: its revision, and a digest of the numbers it reads.")
    ] = None  # as its last hour was judged; None where that was not kept
    caused_on: Annotated[Name | None, Field(description="The host of the GPU that caused it.")] = None


# A type of its own, for a finding is made of the ledger alone: the site's clock and currency, and what people have said
# of it since, are known where it is read.
@dataclass(frozen=True, slots=True, kw_only=True)
class FindingDocument(Finding):
    """One loss of one subject, as every document has it. Its id stays; `at_stake_micros` is null without a price."""

    label: Annotated[str, Field(description="The label of the state and cause on screens.")]
    sentence: Annotated[Sentence, Field(description="Who, where, why, and its cost since when.")]
    first_at_iso: Iso
    last_at_iso: Iso
    run_count: Annotated[int, Field(description="Of all runs: an assistant gets the first of them.")]
    host_count: Annotated[int, Field(description="Of all hosts, likewise.")]
    life: Annotated[Life | None, Field(description="Its recorded history; null where there is none yet.")]
    judgement: Judgement | None
    mute: Mute | None
    display: Display

    @property
    def is_open(self) -> bool:
        """Whether it is open by the book; where the book has no such finding, by the period's own last hours."""
        return self.still_open if self.life is None else self.life.state != "closed"


def finding_documents(
    found: Sequence[Finding],
    period: Period,
    currency: str,
    history: FindingHistory,
    whole: Sequence[Finding] | None = None,
) -> tuple[FindingDocument, ...]:
    """Return findings of a period as documents; as displayed, those of the `whole` list that they are of add up."""
    listed = found if whole is None else whole
    shown = displays([(finding.milliseconds, finding.at_stake_micros) for finding in listed], currency)
    by_id = dict(zip((finding.id for finding in listed), shown, strict=True))
    return tuple(
        FindingDocument(
            **{field.name: getattr(finding, field.name) for field in fields(Finding)},
            label=booking(finding.state, None if finding.suspicion else finding.cause or None).label,
            sentence=finding_sentence(finding, currency, period.timezone),
            first_at_iso=iso(finding.first_at),
            last_at_iso=iso(finding.last_at),
            run_count=len(finding.run_ids),
            host_count=len(finding.hosts),
            life=history.lives.get(finding.id),
            judgement=history.word(finding.id, period),
            mute=history.mutes.get(finding.id),
            display=by_id[finding.id],
        )
        for finding in found
    )


def finding_sentence(finding: Finding, currency: str, timezone: str) -> str:
    """Return the sentence with its figures: "... 12.3 GPU-hours, $84 since Monday." """
    return f"{finding.claim} {figures(finding, currency, timezone)}."


def figures(finding: Finding, currency: str, timezone: str) -> str:
    """Return "12.3 GPU-hours, $84 since Monday"; what is longer ago has a date, and what has ended both ends."""
    hours = f"{gpu_hours(finding.milliseconds)} GPU-hours"
    stake = finding.at_stake_micros
    paid = "" if stake is None else f", {money(stake, currency, 2 if stake < CENTS_UNDER else 0)}"
    return f"{hours}{paid} {_since(finding, timezone)}"


def _since(finding: Finding, timezone: str) -> str:
    first, last = local(finding.first_at, timezone), local(finding.last_at - 1, timezone)
    if not finding.still_open:
        return f"on {day(first)}" if first.date() == last.date() else f"from {day(first)} to {day(last)}"
    if finding.last_at - finding.first_at < WEEK_US:
        return f"since {WEEKDAYS[first.weekday()].capitalize()}"
    return f"since {day(first)}"
