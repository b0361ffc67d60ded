"""A decision as the profile's first page shows it: what is asked, the verdict, the choices, in words."""

from datetime import date, timedelta

from analyzer.capacity.gate.decided import Decided, Option, failed, not_evaluated
from analyzer.capacity.gate.text import day_words
from analyzer.capacity.gate.words import duration_words, failed_words, price_words
from analyzer.capacity.gate.work import Work
from analyzer.capacity.profile.decision_view import DecisionView, ShownGate, ShownOption
from analyzer.text.words import UNKNOWN, counted, money, plain, plain_sentence

_HOURS_A_DAY = 24


def shown_of(decided: Decided, work: Work | None = None) -> DecisionView:
    """Return what page one says of a request; `work` is the part of the profile that was judged."""
    request = decided.request
    waived = {waiver.gate for waiver in decided.waivers}
    asked = (
        f"{plain(request.team)} asks for {request.gpus:,} more {plain(request.sku)}, {day_words(request.starts)} to "
        f"{_last_day(request.starts, request.hours)} ({duration_words(request)})"
    )
    return DecisionView(
        request_id=decided.request_id,
        asked=(asked, price_words(decided), f"Why: {plain_sentence(request.why)}"),
        verdict=_verdict(decided),
        answer=decided.headline if decided.verdict == "PASS" else decided.at_length,
        options=tuple(_option(one, decided) for one in decided.options),
        gates=tuple(
            ShownGate(
                plain(gate.label),
                plain(gate.value),
                plain(gate.bar),
                "waived" if gate.name in waived and gate.outcome != "PASS" else gate.outcome,
            )
            for gate in decided.gates
        ),
        span=duration_words(request),
        in_time=f"{plain(request.needed_for)}?" if request.needed_for else "in time?",
        fix=_fix(decided),
        stopped=_stopped(decided),
        judged=_judged(decided),
        booked=work.booked if work is not None and work.judged and work.is_own else (),
    )


def _stopped(decided: Decided) -> str | None:
    """Return the gates that stop the request: those that failed, and those that nobody could evaluate."""
    parts = [
        f"{what}: {', '.join(plain(gate.label) for gate in gates if gate.required)}."
        for what, gates in (("Failed", failed(decided)), ("Not evaluated", not_evaluated(decided)))
        if any(gate.required for gate in gates)
    ]
    return " ".join(parts) or None


def _judged(decided: Decided) -> str | None:
    """Return which part of what the page shows was judged, where not all of it was."""
    if decided.evidence is None or not decided.evidence.judged:
        return None
    return f"Judged by {decided.evidence.judged}."


def _last_day(starts: str, hours: int) -> str:
    days = max(1, -(-hours // _HOURS_A_DAY))
    return day_words((date.fromisoformat(starts) + timedelta(days=days - 1)).isoformat())


def _verdict(decided: Decided) -> str:
    if decided.verdict == "FAIL":
        return f"FAIL, {failed_words(decided)}"
    if decided.verdict == "INCOMPLETE":
        return f"INCOMPLETE, {len(not_evaluated(decided))} of {len(decided.gates)} gates not evaluated"
    waived = f", {counted(len(decided.waivers), 'waiver')}" if decided.waivers else ""
    return f"PASS{', as a pilot' if decided.pilot else ''}{waived}"


def _option(one: Option, decided: Decided) -> ShownOption:
    currency = decided.rate.currency if decided.rate else "USD"
    return ShownOption(
        what=f"{one.letter} {one.what}",
        gpus=f"+{one.more:,}",
        to_buy=UNKNOWN if one.to_buy is None else f"{one.to_buy:,}",
        price=money(one.micros, currency),
        in_time=one.in_time,
        if_wrong=one.if_wrong,
        advised=one.advised,
    )


def _fix(decided: Decided) -> str | None:
    if decided.offer is None:
        return None
    hours = decided.offer.hours_to_prove
    proof = "" if hours is None else f", {counted(hours, 'hour')} to prove"
    return f"The fix: {plain_sentence(decided.offer.what)}{proof}, on GPUs that the team already holds."
