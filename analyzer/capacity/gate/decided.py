"""What was decided on a request: gates, verdict, the other offer and the choices. Facts and short texts, no layout.

Money is in millionths of the currency, moments in microseconds UTC, shares in thousandths. None is unknown. The page,
the e-mail, the API and the terminal all show this one object.
"""

import json
from dataclasses import dataclass
from functools import cache
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from analyzer.capacity.gate.request import Request
from analyzer.errors import LedgerError

SCHEMA = "gpuledger-gate-1"
Outcome = Literal["PASS", "FAIL", "N/E"]  # N/E: not evaluated
Verdict = Literal["PASS", "FAIL", "INCOMPLETE"]
InTime = Literal["yes", "likely", "no"]


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate: what this request has, the bar, and which of the three it came to; `why` where nobody can say."""

    name: str
    label: str
    outcome: Outcome
    value: str
    bar: str
    required: bool
    waivable: bool
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Remedy:
    """What would make some gates pass."""

    gates: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Waiver:
    """One gate that somebody with the role waived: who, when and why."""

    gate: str
    reason: str
    who: str
    role: str
    recorded_at: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the request is judged by: the profile in one line. `age_days` is of the last that was measured."""

    runs: int
    run_names: tuple[str, ...]
    milliseconds: int
    since_us: int
    until_us: int
    timezone: str
    team: str | None
    site: str
    state: str
    signed_by: str | None
    key_id: str | None
    sha256: str
    signature: str
    age_days: int
    judged: str = ""  # which of the profile's runs count, where not all do


@dataclass(frozen=True, slots=True)
class Rate:
    """What one GPU-hour costs, and who says so."""

    micros_per_gpu_hour: int
    told: str
    currency: str


@dataclass(frozen=True, slots=True)
class Need:
    """GPUs at one speed after the fix. `needed_tenths` is rounded up; `more` are whole hosts beyond today's GPUs."""

    speedup_permille: int
    needed_tenths: int
    gpus: int
    more: int
    to_buy: int | None
    micros: int | None
    less_micros: int | None


@dataclass(frozen=True, slots=True)
class Offer:
    """The other offer: what is needed once the fix is made, likely (P50) and careful (P20)."""

    advice_id: str
    what: str  # "r-3mx8 (num_workers 4 -> 8)"
    fix: str  # "Fix the loader"
    fixed: str  # "With the loader fixed"
    hours_to_prove: int | None
    today_gpus: int
    growth_permille: int
    likely: Need
    careful: Need
    free_gpus: int | None
    free_day: str | None


@dataclass(frozen=True, slots=True)
class Option:
    """One thing that can be decided."""

    letter: str
    what: str
    more: int
    to_buy: int | None
    micros: int | None
    in_time: InTime
    if_wrong: str
    advised: bool


@dataclass(frozen=True, slots=True)
class Decided:
    """All of it. `headline` is the answer in a sentence or two; `missing` says what no figure could be made without."""

    schema: str
    request_id: str
    request: Request
    decided_at: int
    policy: str
    policy_digest: str
    evidence: Evidence | None
    verdict: Verdict
    pilot: bool
    condition: str | None
    gates: tuple[Gate, ...]
    remedies: tuple[Remedy, ...]
    rate: Rate | None
    micros: int | None
    offer: Offer | None
    options: tuple[Option, ...]
    headline: str
    at_length: str
    missing: tuple[str, ...]
    waivers: tuple[Waiver, ...] = ()
    waits_permille: int | None = None  # how much of the work's GPU time waited for input


def verdict_of(gates: tuple[Gate, ...], waivers: tuple[Waiver, ...] = ()) -> Verdict:
    """Return FAIL where a required gate failed, INCOMPLETE where one could not be evaluated, else PASS.

    A gate that was waived stops nothing, unless it is one that cannot be waived.
    """
    waived = {waiver.gate for waiver in waivers}
    left = {gate.outcome for gate in gates if gate.required and not (gate.waivable and gate.name in waived)}
    if "FAIL" in left:
        return "FAIL"
    return "INCOMPLETE" if "N/E" in left or not gates else "PASS"


def failed(decided: Decided) -> tuple[Gate, ...]:
    """Return the gates that failed and that nobody waived."""
    return _left(decided, "FAIL")


def not_evaluated(decided: Decided) -> tuple[Gate, ...]:
    """Return the gates that could not be evaluated and that nobody waived."""
    return _left(decided, "N/E")


def _left(decided: Decided, outcome: Outcome) -> tuple[Gate, ...]:
    waived = {waiver.gate for waiver in decided.waivers}
    return tuple(gate for gate in decided.gates if gate.outcome == outcome and gate.name not in waived)


def decided_of(document: object) -> Decided:
    """Return the decision that plain data says; what one that was kept before does not have yet has its default.

    Raises:
        LedgerError: it is none, or of another version.
    """
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise LedgerError(f"a decision of schema {str(schema)[:40]!r} is none that this version reads")
    try:
        return _reader().validate_json(json.dumps(document), strict=True)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        raise LedgerError(f"a decision cannot be read: {'.'.join(map(str, fault['loc']))}: {fault['msg']}") from error


@cache
def _reader() -> TypeAdapter[Decided]:
    return TypeAdapter(Decided)
