"""What was decided on a request: gates, verdict, the other offer and the choices. Facts and short texts, no layout.

Money is in millionths of the currency, moments in microseconds UTC, shares in thousandths. None is unknown. The page,
the e-mail, the API and the terminal all show this one object.
"""

import json
from dataclasses import dataclass
from functools import cache
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from analyzer.capacity.gate.request import HOURS_A_WEEK, Request
from analyzer.errors import LedgerError
from analyzer.text.words import counted, decimal, money, nearest, plain

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
    """One policy check that somebody with the role overrode: who, when and why."""

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

    def label(self, name: str | None) -> str:
        """Return what people call one of its gates; the name of one that it no longer has."""
        return next((gate.label for gate in self.gates if gate.name == name), name or "")


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
        raise LedgerError(f"this version cannot read a decision of schema {str(schema)[:40]!r}")
    try:
        return _reader().validate_json(json.dumps(document), strict=True)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        raise LedgerError(f"a decision cannot be read: {'.'.join(map(str, fault['loc']))}: {fault['msg']}") from error


@cache
def _reader() -> TypeAdapter[Decided]:
    return TypeAdapter(Decided)


def duration_words(request: Request) -> str:
    """Return "8 weeks", or "100 hours"."""
    if request.hours % HOURS_A_WEEK == 0:
        return counted(request.hours // HOURS_A_WEEK, "week")
    return counted(request.hours, "hour")


def growth_words(growth_permille: int) -> str:
    """Return "3", or "1.5"."""
    whole, rest = divmod(growth_permille, 1000)
    return f"{whole:,}" if rest == 0 else f"{decimal(growth_permille, 3).rstrip('0')}"


def headline(decided: Decided) -> str:
    """Return the answer in a sentence or two, after the verdict's word."""
    if decided.verdict == "PASS":
        return _passed(decided)
    if decided.verdict == "INCOMPLETE":
        named = _named([gate for gate in not_evaluated(decided) if gate.required])
        return f"{named} could not be evaluated. That is not a pass."
    return f"{failed_words(decided)}. {offer_words(decided.request, decided.offer)}".strip()


def failed_words(decided: Decided) -> str:
    """Return "3 of 12 policy checks failed", and how many more required ones could not be evaluated."""
    open_ones = sum(gate.required for gate in not_evaluated(decided))
    rest = f", {open_ones} not evaluated" if open_ones else ""
    return f"{len(failed(decided))} of {len(decided.gates)} policy checks failed{rest}"


def _passed(decided: Decided) -> str:
    if decided.pilot:
        return f"As a pilot, on one condition: {decided.condition}."
    required = [gate for gate in decided.gates if gate.required]
    waived = {waiver.gate for waiver in decided.waivers} & {gate.name for gate in required if gate.outcome != "PASS"}
    told = f"All {len(required)} required policy checks passed" + (
        f", {len(waived)} of them by override" if waived else ""
    )
    rest = [gate for gate in (*failed(decided), *not_evaluated(decided)) if not gate.required]
    return f"{told}.{f' Optional and not passed: {_named(rest)}.' if rest else ''}"


def offer_words(request: Request, offer: Offer | None) -> str:
    """Return "Fix the loader first: then 16 more GPUs do what 32 were asked for (likely), …"; "" without an offer."""
    if offer is None or offer.likely.more >= request.gpus:
        return ""
    more, to_buy = offer.likely.more, offer.likely.to_buy
    if more == 0:
        return (
            f"{offer.fix} first: then today's {offer.today_gpus:,} GPUs do what {request.gpus:,} more were asked for "
            "(likely)."
        )
    told = f"{offer.fix} first: then {more:,} more GPUs do what {request.gpus:,} were asked for (likely)"
    if to_buy is None:
        return f"{told}."
    if to_buy == 0:
        return f"{told}, and the fleet has {more:,} free: nothing to buy."
    return f"{told}; {to_buy:,} of them to buy."


def at_length(decided: Decided) -> str:
    """Return the page's paragraph: how much the work loses, what that is worth in GPUs, and the other offer."""
    offer, waits_permille = decided.offer, decided.waits_permille
    if offer is None:
        return headline(decided)
    parts = []
    if waits_permille:
        share = f"{decimal(waits_permille, 1)}%"
        worth = decimal(nearest(offer.today_gpus * waits_permille, 100), 1)
        parts.append(
            f"The {offer.today_gpus:,} GPUs the team uses for this lose {share} of their time to input starvation, "
            f"which is worth {worth} of them."
        )
    if offer.likely.more < decided.request.gpus:
        does = f"{offer.likely.more:,} more do" if offer.likely.more else "the same GPUs do"
        parts.append(f"{offer.fixed}, {does} what {decided.request.gpus:,} were asked for{_free(offer)}.")
    return " ".join(parts) or headline(decided)


def _free(offer: Offer) -> str:
    if offer.free_gpus is None or offer.likely.to_buy is None or not offer.likely.more:
        return ""
    bought = "no purchase" if offer.likely.to_buy == 0 else f"{offer.likely.to_buy:,} to buy"
    return f", and {offer.free_gpus:,} stand free: {bought}"


def line(decided: Decided) -> str:
    """Return a request in one line, as the weekly e-mail lists it."""
    request = decided.request
    asked = f"{request.gpus:,} {plain(request.sku.partition('-')[0])} for {duration_words(request)}"
    told = f"{decided.request_id} {plain(request.team)}, {asked}: {decided.verdict}"
    if decided.verdict == "PASS":
        return told + (" as a pilot" if decided.pilot else "") + (" with overrides" if decided.waivers else "")
    if decided.offer is not None and decided.offer.likely.more < request.gpus:
        return f"{told}, {decided.offer.likely.more:,} would do after {plain(decided.offer.advice_id)}"
    stopped = failed(decided) or not_evaluated(decided)
    return f"{told}, {_named(stopped[:3])}" if stopped else told


def price_words(decided: Decided) -> str:
    """Return "43,008 GPU-hours = $111,820.80 at $2.60 (contract)", or what is missing for a price."""
    hours = f"{decided.request.gpu_hours:,} GPU-hours"
    if decided.rate is None:
        return f"{hours}; no price is known for {plain(decided.request.sku)}"
    rate = decided.rate
    each = money(rate.micros_per_gpu_hour, rate.currency)
    return f"{hours} = {money(decided.micros, rate.currency)} at {each} ({plain(rate.told)})"


def _named(gates: "tuple[Gate, ...] | list[Gate]") -> str:
    return ", ".join(gate.label for gate in gates)
