"""What a finding is: what, where, when, how sure, at stake, and the sentence a person reads."""

from dataclasses import dataclass

from analyzer.states import Confidence


@dataclass(frozen=True, slots=True)
class Evidence:
    """One line of the evidence: "loader workers", "8, each at 97-100 % of a core", "<- the limit"."""

    what: str
    seen: str
    verdict: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One loss of one subject in one period. Findings share no GPU-second; at stake, they sum to what is avoidable.

    `subject` is a run's name, with a count where many runs of that name are meant ("det-sweep (41)"), or a node.
    `at_stake_micros` is None where no price is known. The id depends on subject, state and cause alone, so that a
    finding keeps it from week to week.
    """

    id: str
    rule: str
    subject: str
    run_ids: tuple[str, ...]
    team: str | None
    state: str
    cause: str
    what: str  # "input: preprocessing", "idle, memory held", "across racks"
    milliseconds: int
    at_stake_micros: int | None
    confidence: Confidence
    actor: str | None
    first_at: int
    last_at: int
    still_open: bool
    caused_by: str | None
    sentence: str  # who, where, how much of the time, the limit, the counterfactual; report.finding_told adds the price
    evidence: tuple[Evidence, ...]
    wrong_if: str
    suspicion: bool = False  # below medium confidence: its seconds stay unexplained, and it claims nothing
    hosts: tuple[str, ...] = ()
    rule_version: str | None = None  # of its rule, when its last hour was judged; None where that was not kept
    caused_on: str | None = None  # the host of the GPU that caused it
