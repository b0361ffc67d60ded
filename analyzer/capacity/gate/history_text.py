"""Kept requests on the terminal: the list, and the history of one."""

from analyzer.capacity.gate.decided import Decided
from analyzer.capacity.gate.request_store import Event, KeptRequest
from analyzer.capacity.gate.words import duration_words
from analyzer.text.layout import TextLayout
from analyzer.text.words import moment_words, plain, plain_sentence


def list_text(found: list[KeptRequest], timezone: str, layout: TextLayout) -> str:
    """Return one line a request, the newest first."""
    if not found:
        return layout.page(["no capacity request is kept here"])
    head = f"{'id':<10}{'asked':<18}{'team':<16}{'what':<24}verdict"
    return layout.page([head, *(_line(one, timezone, layout) for one in found)])


def _line(one: KeptRequest, timezone: str, layout: TextLayout) -> str:
    request, decided = one.decided.request, one.decided
    what = f"{request.gpus:,} {request.sku.partition('-')[0]}, {duration_words(request)}"
    return (
        f"{decided.request_id:<10}{moment_words(one.asked_at, timezone):<18}{layout.cut(request.team, 15):<16}"
        f"{layout.cut(what, 23):<24}{_verdict_words(decided)}"
    )


def _verdict_words(decided: Decided) -> str:
    """Return "PASS", "PASS (pilot)" or "PASS (waived)"."""
    if decided.verdict != "PASS":
        return decided.verdict
    return "PASS (pilot)" if decided.pilot else "PASS (waived)" if decided.waivers else "PASS"


def history_text(one: KeptRequest, timezone: str, layout: TextLayout) -> str:
    """Return the history of a request, the oldest first."""
    return layout.page(["HISTORY", *(part for event in one.history for part in _event(event, timezone, layout))])


def _event(event: Event, timezone: str, layout: TextLayout) -> list[str]:
    who = f"{plain(event.who)} ({event.role})"
    if event.kind == "waived":
        told = f"{event.gate} waived by {who}: {plain_sentence(event.reason or '')}. Since then: {event.verdict}"
    else:
        told = f"{event.verdict}; asked by {who}"
    return layout.wrap(told, f"  {moment_words(event.at, timezone)}  ".ljust(20), " " * 20)
