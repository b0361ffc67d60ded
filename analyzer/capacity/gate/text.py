"""A decision on the terminal, as screen 5 has it: what is asked, the answer, every gate, what would pass, the offer."""

from datetime import date

from analyzer.capacity.gate.decided import Decided, Evidence, Gate, Need, Offer
from analyzer.capacity.gate.request import Request
from analyzer.capacity.gate.words import duration_words, growth_words, headline, price_words
from analyzer.period import local
from analyzer.text.layout import TextLayout
from analyzer.text.words import decimal, gpu_hours, money, plain, plain_sentence

_LABEL, _VALUE, _BAR = 30, 19, 20
_REMEDY = 10
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def decided_text(decided: Decided, layout: TextLayout, *, kept: bool) -> str:
    """Return the whole page. `kept` says whether a registry has it, so that it can be waived by its id."""
    lines = [*_head(decided, layout), "", *_answer(decided, layout), "", *_gates(decided, layout)]
    if decided.remedies and decided.verdict != "PASS":
        lines += ["", "WHAT WOULD PASS", *_remedies(decided, layout)]
    if decided.waivers:
        lines += ["", "WAIVED", *_waivers(decided, layout)]
    if decided.offer is not None and decided.verdict != "PASS":
        lines += ["", *_offer(decided, decided.offer, layout)]
    if decided.missing:
        lines += ["", "NOT KNOWN", *(part for text in decided.missing for part in layout.wrap(text, "  ", "    "))]
    lines += ["", *_waive_words(decided, layout, kept=kept)]
    return layout.page(lines)


def day_words(iso: str) -> str:
    """Return an ISO date as "1 Dec"."""
    day = date.fromisoformat(iso)
    return f"{day.day} {_MONTHS[day.month - 1]}"


def _head(decided: Decided, layout: TextLayout) -> list[str]:
    request = decided.request
    asked = asked_words(request, layout.cut(request.sku, 20))
    team = layout.cut(request.team, max(8, layout.width - len(asked) - 16))
    lines = [
        f"request   {asked}".ljust(62 + layout.extra) + f" {team}",
        *layout.wrap(price_words(decided), " " * _REMEDY),
    ]
    lines += layout.wrap(f"for {plain_sentence(request.why)}", " " * _REMEDY) if decided.pilot else []
    lines += layout.wrap(profile_words(decided.evidence), "profile   ", " " * _REMEDY)
    if decided.evidence is not None and decided.evidence.judged:
        lines += layout.wrap(decided.evidence.judged, "judged by ", " " * _REMEDY)
    return [*lines, f"policy    {layout.cut(decided.policy, 60)}"]


def asked_words(request: Request, sku: str) -> str:
    """Return "32 more H100-80GB for 8 weeks, from 1 Dec"."""
    return f"{request.gpus:,} more {sku} for {duration_words(request)}, from {day_words(request.starts)}"


def profile_words(evidence: Evidence | None) -> str:
    """Return what a request is judged by, and who signed it."""
    if evidence is None:
        return "none: a pilot of a team without history"
    first, last = local(evidence.since_us, evidence.timezone), local(evidence.until_us - 1, evidence.timezone)
    runs = f"{evidence.runs:,} run{'' if evidence.runs == 1 else 's'}, {gpu_hours(evidence.milliseconds)} GPU-hours"
    days = f"{day_words(first.date().isoformat())} - {day_words(last.date().isoformat())}"
    return f"{runs}, {days}; {_signature(evidence)}"


def _signature(evidence: Evidence) -> str:
    if evidence.state == "trusted":
        return f"signed by {plain(evidence.signed_by or '')}, valid"
    return {
        "edited": "edited after it was signed",
        "unsigned": "signed by nobody",
        "unknown_key": f"signed by key {evidence.key_id}, which the policy does not name",
    }.get(evidence.state, evidence.state)


def _answer(decided: Decided, layout: TextLayout) -> list[str]:
    column = 2 + max(8, len(decided.verdict) + 2)
    return layout.wrap(headline(decided), f"  {decided.verdict}".ljust(column), " " * column)


def _gates(decided: Decided, layout: TextLayout) -> list[str]:
    waived = {waiver.gate for waiver in decided.waivers}
    head = f"  {'gate':<{_LABEL}}{'this request':<{_VALUE}}bar"
    return [head, *(_gate(gate, layout, waived=gate.name in waived) for gate in decided.gates)]


def _gate(gate: Gate, layout: TextLayout, *, waived: bool) -> str:
    label, value, bar = (layout.cut(text, width - 1) for text, width in _columns(gate))
    outcome = "waived" if waived and gate.outcome != "PASS" else gate.outcome
    return f"  {label:<{_LABEL}}{value:<{_VALUE}}{bar:<{_BAR}}{outcome:>4}"


def _columns(gate: Gate) -> tuple[tuple[str, int], ...]:
    return ((gate.label, _LABEL), (gate.value, _VALUE), (gate.bar, _BAR))


def _remedies(decided: Decided, layout: TextLayout) -> list[str]:
    lines = []
    for remedy in decided.remedies:
        lines += layout.wrap(", ".join(remedy.gates), "  ")
        lines += layout.wrap(plain_sentence(remedy.text), " " * _REMEDY)
    return lines


def _waivers(decided: Decided, layout: TextLayout) -> list[str]:
    lines = []
    for waiver in decided.waivers:
        day = local(waiver.recorded_at, decided.evidence.timezone if decided.evidence else "UTC")
        who = f"{plain(waiver.who)} ({waiver.role}), {day.day} {_MONTHS[day.month - 1]} {day.year}"
        lines += layout.wrap(f"{waiver.gate}: {plain_sentence(waiver.reason)}; {who}", "  ", " " * _REMEDY)
    return lines


def _offer(decided: Decided, offer: Offer, layout: TextLayout) -> list[str]:
    work = layout.cut(", ".join(decided.request.work), 24)
    lines = layout.wrap(
        f"THE OTHER OFFER   ({growth_words(offer.growth_permille)} times today's work on {work}, which holds "
        f"{offer.today_gpus:,} GPUs)",
        "",
        "                  ",
    )
    lines += ["                                      likely (P50)      careful (P20)"]
    return lines + [f"  {label:<34}{likely:>14}{careful:>19}" for label, likely, careful in offer_rows(decided, offer)]


def offer_rows(decided: Decided, offer: Offer) -> list[tuple[str, str, str]]:
    """Return the other offer as rows: what, likely (P50), careful (P20)."""
    likely, careful = offer.likely, offer.careful
    found = [
        ("speed after the fix", _speed(likely), _speed(careful)),
        ("GPUs needed in all", _needed(likely), _needed(careful)),
        ("more GPUs", f"{likely.more:,}", f"{careful.more:,}"),
    ]
    if offer.free_gpus is not None and offer.free_day is not None:
        free = f"{offer.free_gpus:,}"
        found.append((f"free on the lowest day ({day_words(offer.free_day)})", free, free))
        found.append(("to buy", f"{likely.to_buy:,}", f"{careful.to_buy:,}"))
    if decided.rate is not None:
        currency = decided.rate.currency
        span = duration_words(decided.request)
        found.append((f"price of {span}", money(likely.micros, currency), money(careful.micros, currency)))
        found.append(("less than asked", _less(likely, currency), _less(careful, currency)))
    return found


def _speed(need: Need) -> str:
    hundredths = (need.speedup_permille + 5) // 10
    return f"{decimal(hundredths, 2)}x"


def _needed(need: Need) -> str:
    return f"{decimal(need.needed_tenths, 1)}  -> {need.gpus:,}"


def _less(need: Need, currency: str) -> str:
    return "nothing" if need.less_micros is None or need.less_micros <= 0 else money(need.less_micros, currency)


def _waive_words(decided: Decided, layout: TextLayout, *, kept: bool) -> list[str]:
    code = f"exit code {0 if decided.verdict == 'PASS' else 1}"
    waived = {waiver.gate for waiver in decided.waivers}
    stops = [
        gate.name
        for gate in decided.gates
        if gate.required and gate.waivable and gate.outcome != "PASS" and gate.name not in waived
    ]
    if not kept:
        return [f"{decided.request_id} is kept nowhere; --store or --server keeps it, and lets it be waived", code]
    if not stops:
        return [f"kept as {decided.request_id}", code]
    command = f'to waive: gpuledger gate waive {decided.request_id} {stops[0]} --reason "..."'
    role = "(role: approver)"
    told = [f"{command} {role}"] if len(command) + len(role) < layout.width else [command, f"          {role}"]
    return [*told, code]
