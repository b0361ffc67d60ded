"""The answer in sentences: for the terminal, the page and the e-mail."""

from analyzer.capacity.gate.decided import Decided, Gate, Offer, failed, not_evaluated
from analyzer.capacity.gate.request import HOURS_A_WEEK, Request
from analyzer.text.rounding import nearest
from analyzer.text.words import NO_BREAK, counted, decimal, money, plain


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
    """Return "3 of 12 gates", and how many more of those that must pass nobody could evaluate."""
    open_ones = sum(gate.required for gate in not_evaluated(decided))
    return f"{len(failed(decided))} of {len(decided.gates)} gates{f', {open_ones} not evaluated' if open_ones else ''}"


def _passed(decided: Decided) -> str:
    if decided.pilot:
        return f"As a pilot, on a condition: {decided.condition}."
    required = [gate for gate in decided.gates if gate.required]
    waived = {waiver.gate for waiver in decided.waivers} & {gate.name for gate in required if gate.outcome != "PASS"}
    told = f"all {len(required)} required gates" + (f", {len(waived)} of them by a waiver" if waived else "")
    rest = [gate for gate in (*failed(decided), *not_evaluated(decided)) if not gate.required]
    return f"{told}.{f' Not passed, and optional: {_named(rest)}.' if rest else ''}"


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
        share = f"{decimal(waits_permille, 1)}{NO_BREAK}%"
        worth = decimal(nearest(offer.today_gpus * waits_permille, 100), 1)
        parts.append(
            f"The {offer.today_gpus:,} GPUs the team uses for this wait for input {share} of the time, which is worth "
            f"{worth} of them."
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
        return told + (" as a pilot" if decided.pilot else "") + (" with waivers" if decided.waivers else "")
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
