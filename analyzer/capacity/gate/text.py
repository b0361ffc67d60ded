"""A decision on the terminal, as screen 5 has it, kept requests in a list, and what the profile's page shows of one."""

from datetime import date, datetime, timedelta

from analyzer.capacity.gate.decided import (
    Decided,
    Evidence,
    Need,
    Offer,
    Option,
    duration_words,
    failed,
    failed_words,
    growth_words,
    headline,
    not_evaluated,
    price_words,
)
from analyzer.capacity.gate.request import Request
from analyzer.capacity.gate.request_store import Event, KeptRequest
from analyzer.capacity.gate.supply import Work
from analyzer.capacity.profile.first_page import DecisionView, ShownGate, ShownOption
from analyzer.period import local
from analyzer.text.layout import TextLayout
from analyzer.text.table import TableColumn, paper_lines
from analyzer.text.words import UNKNOWN, counted, day, decimal, gpu_hours, moment_words, money, plain, plain_sentence

_REMEDY = 10


def decided_text(decided: Decided, layout: TextLayout, *, kept: bool) -> str:
    """Return the whole page. `kept` says whether a registry has it, so that it can be waived by its id."""
    lines = [*_head(decided, layout), "", *_answer(decided, layout), ""]
    lines += paper_lines(_CHECKS, _shown_gates(decided))
    if decided.remedies and decided.verdict != "PASS":
        lines += ["", "WHAT WOULD PASS", *_remedies(decided, layout)]
    if decided.waivers:
        lines += ["", "OVERRIDES", *_waivers(decided, layout)]
    if decided.offer is not None and decided.verdict != "PASS":
        lines += ["", *_offer(decided, decided.offer, layout)]
    if decided.missing:
        lines += ["", "NOT KNOWN", *(part for text in decided.missing for part in layout.wrap(text, "  ", "    "))]
    lines += ["", *_waive_words(decided, layout, kept=kept)]
    return layout.page(lines)


def _day_words(iso: str) -> str:
    """Return an ISO date as "1 Dec"."""
    return day(datetime.fromisoformat(iso)).split(" ", 1)[1]


def _head(decided: Decided, layout: TextLayout) -> list[str]:
    request = decided.request
    asked = asked_words(request, layout.cut(request.sku, 20))
    team = layout.cut(request.team, max(8, layout.width - len(asked) - 16))
    lines = [
        *layout.ends(f"request   {asked}", team),
        *layout.wrap(price_words(decided), " " * _REMEDY),
    ]
    lines += layout.wrap(f"for {plain_sentence(request.why)}", " " * _REMEDY) if decided.pilot else []
    lines += layout.wrap(profile_words(decided.evidence), "profile   ", " " * _REMEDY)
    if decided.evidence is not None and decided.evidence.judged:
        lines += layout.wrap(decided.evidence.judged, "based on  ", " " * _REMEDY)
    return [*lines, f"policy    {layout.cut(decided.policy, 60)}"]


def asked_words(request: Request, sku: str) -> str:
    """Return "32 more H100-80GB for 8 weeks, from 1 Dec"."""
    return f"{request.gpus:,} more {sku} for {duration_words(request)}, from {_day_words(request.starts)}"


def profile_words(evidence: Evidence | None) -> str:
    """Return what a request is judged by, and who signed it."""
    if evidence is None:
        return "none: a pilot of a team without history"
    first, last = local(evidence.since_us, evidence.timezone), local(evidence.until_us - 1, evidence.timezone)
    runs = f"{evidence.runs:,} run{'' if evidence.runs == 1 else 's'}, {gpu_hours(evidence.milliseconds)} GPU-hours"
    days = f"{_day_words(first.date().isoformat())} - {_day_words(last.date().isoformat())}"
    return f"{runs}, {days}; {_signature(evidence)}"


def _signature(evidence: Evidence) -> str:
    if evidence.state == "trusted":
        return f"signed by {plain(evidence.signed_by or '')}, valid"
    return {
        "edited": "edited after it was signed",
        "unsigned": "not signed",
        "unknown_key": f"signed by key {evidence.key_id}, which the policy does not name",
    }.get(evidence.state, evidence.state)


def _answer(decided: Decided, layout: TextLayout) -> list[str]:
    return layout.labelled(decided.verdict, headline(decided), 2 + max(8, len(decided.verdict) + 2))


_CHECKS = (
    TableColumn[ShownGate]("  policy check", lambda gate: gate.label, width=32, align="<", is_cut=True),
    TableColumn[ShownGate]("this request", lambda gate: gate.value, width=19, align="<", is_cut=True),
    TableColumn[ShownGate]("bar", lambda gate: gate.bar, width=20, align="<", is_cut=True),
    TableColumn[ShownGate]("", lambda gate: gate.outcome, width=4),
)


def _shown_gates(decided: Decided) -> tuple[ShownGate, ...]:
    waived = {waiver.gate for waiver in decided.waivers}
    return tuple(
        ShownGate(
            plain(gate.label),
            plain(gate.value),
            plain(gate.bar),
            "override" if gate.name in waived and gate.outcome != "PASS" else gate.outcome,
        )
        for gate in decided.gates
    )


def _remedies(decided: Decided, layout: TextLayout) -> list[str]:
    lines = []
    for remedy in decided.remedies:
        lines += layout.wrap(", ".join(remedy.gates), "  ")
        lines += layout.wrap(plain_sentence(remedy.text), " " * _REMEDY)
    return lines


def _waivers(decided: Decided, layout: TextLayout) -> list[str]:
    lines = []
    for waiver in decided.waivers:
        at = local(waiver.recorded_at, decided.evidence.timezone if decided.evidence else "UTC")
        who = f"{plain(waiver.who)} ({waiver.role}), {_day_words(at.date().isoformat())} {at.year}"
        told = f"{plain(decided.label(waiver.gate))}: {plain_sentence(waiver.reason)}; {who}"
        lines += layout.wrap(told, "  ", " " * _REMEDY)
    return lines


_OFFERED = (
    TableColumn[tuple[str, str, str]]("", lambda row: row[0], width=36, align="<"),
    TableColumn[tuple[str, str, str]]("likely (P50)", lambda row: row[1], width=14),
    TableColumn[tuple[str, str, str]]("careful (P20)", lambda row: row[2], width=19),
)


def _offer(decided: Decided, offer: Offer, layout: TextLayout) -> list[str]:
    work = layout.cut(", ".join(decided.request.work), 24)
    lines = layout.wrap(
        f"THE OTHER OFFER   ({growth_words(offer.growth_permille)} times today's work on {work}, which holds "
        f"{offer.today_gpus:,} GPUs)",
        "",
        "                  ",
    )
    return lines + paper_lines(_OFFERED, offer_rows(decided, offer))


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
        found.append((f"free on the lowest day ({_day_words(offer.free_day)})", free, free))
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
        return [
            f"{decided.request_id} is not saved; --store or --server saves it, and allows overrides",
            code,
        ]
    if not stops:
        return [f"saved as {decided.request_id}", code]
    command = f'gpuledger capacity request override {decided.request_id} {stops[0]} --reason "..."'
    line = f"to override: {command} (role: approver)"
    told = [line] if len(line) < layout.width else ["to override (role: approver):", f"  {command}"]
    return [*told, code]


def list_text(found: list[KeptRequest], timezone: str, layout: TextLayout) -> str:
    """Return one line a request, the newest first."""
    if not found:
        return layout.page(["there are no capacity requests yet"])
    columns = (
        TableColumn[KeptRequest]("id", lambda kept: kept.decided.request_id, width=10, align="<"),
        TableColumn[KeptRequest]("asked", lambda kept: moment_words(kept.asked_at, timezone), width=18, align="<"),
        TableColumn[KeptRequest]("team", lambda kept: kept.decided.request.team, width=16, align="<", is_cut=True),
        TableColumn[KeptRequest]("what", lambda kept: _what(kept.decided.request), width=24, align="<", is_cut=True),
        TableColumn[KeptRequest]("verdict", lambda kept: _verdict_words(kept.decided), align="<"),
    )
    return layout.page(paper_lines(columns, found, indent=""))


def _what(request: Request) -> str:
    return f"{request.gpus:,} {request.sku.partition('-')[0]}, {duration_words(request)}"


def _verdict_words(decided: Decided) -> str:
    """Return "PASS", "PASS (pilot)" or "PASS (override)"."""
    if decided.verdict != "PASS":
        return decided.verdict
    return "PASS (pilot)" if decided.pilot else "PASS (override)" if decided.waivers else "PASS"


def history_text(one: KeptRequest, timezone: str, layout: TextLayout) -> str:
    """Return the history of a request, the oldest first."""
    events = (_event(one.decided, event, timezone, layout) for event in one.history)
    return layout.page(["HISTORY", *(line for lines in events for line in lines)])


def _event(decided: Decided, event: Event, timezone: str, layout: TextLayout) -> list[str]:
    who = f"{plain(event.who)} ({event.role})"
    if event.kind == "waived":
        why = plain_sentence(event.reason or "")
        told = f"{plain(decided.label(event.gate))} overridden by {who}: {why}. Verdict now: {event.verdict}"
    else:
        told = f"{event.verdict}; requested by {who}"
    return layout.labelled(moment_words(event.at, timezone), told, 20)


_HOURS_A_DAY = 24


def shown_of(decided: Decided, work: Work | None = None) -> DecisionView:
    """Return what page one says of a request; `work` is the part of the profile that was judged."""
    request = decided.request
    asked = (
        f"{plain(request.team)} asks for {request.gpus:,} more {plain(request.sku)}, {_day_words(request.starts)} to "
        f"{_last_day(request.starts, request.hours)} ({duration_words(request)})"
    )
    return DecisionView(
        request_id=decided.request_id,
        asked=(asked, price_words(decided), f"Why: {plain_sentence(request.why)}"),
        verdict=_verdict(decided),
        answer=decided.headline if decided.verdict == "PASS" else decided.at_length,
        options=tuple(_option(one, decided) for one in decided.options),
        gates=_shown_gates(decided),
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
    return f"Based on {decided.evidence.judged}."


def _last_day(starts: str, hours: int) -> str:
    days = max(1, -(-hours // _HOURS_A_DAY))
    return _day_words((date.fromisoformat(starts) + timedelta(days=days - 1)).isoformat())


def _verdict(decided: Decided) -> str:
    if decided.verdict == "FAIL":
        return f"FAIL, {failed_words(decided)}"
    if decided.verdict == "INCOMPLETE":
        return f"INCOMPLETE, {len(not_evaluated(decided))} of {len(decided.gates)} policy checks not evaluated"
    waived = f", {counted(len(decided.waivers), 'override')}" if decided.waivers else ""
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
