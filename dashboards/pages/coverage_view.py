"""How much of what is owned was measured, hour by hour, and which hosts were silent."""

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.wire.units import HOUR_US
from analyzer.charts.series import Chart, Trace, chart
from analyzer.interfaces.text.week_text import silent_words
from analyzer.ledger.coverage import measured
from analyzer.period import Period
from analyzer.queries.ledger_query import ledger_sums
from analyzer.text.words import percent
from dashboards.pages.read_pages import Sheet

if TYPE_CHECKING:
    from analyzer.interfaces.api.request_service import RequestContext

BARS = 84  # at most so many; a week gives bars of two hours


@dataclass(frozen=True, slots=True)
class Coverage:
    """The sentence that answers, the chart of what is not known, and the hosts that were silent longest."""

    sentence: str
    chart: Chart
    silent: tuple[str, ...]


def coverage(context: "RequestContext", period: Period) -> Coverage:
    """Return what of a period was measured."""
    found = measured(context.session, period)
    known = percent(found.held - found.silent, found.held) if found.held else ""
    sentence = f"{known} of held GPU-hours were measured." if known else "No run is known to have held a GPU."
    silent = tuple(silent_words(node, period.timezone) for node in found.nodes)
    return Coverage(sentence, _chart(context, period), silent)


def coverage_sheet(context: "RequestContext", period: Period) -> Sheet:
    """Return every hour, exact."""
    head = ("hour_us", "owned_milliseconds", "not_measured_milliseconds", "unexplained_milliseconds")
    return Sheet(head, _hours(context, period))


def _hours(context: "RequestContext", period: Period) -> list[tuple[int, ...]]:
    """Return of each hour the milliseconds that were owned, not measured, and unexplained."""
    hours: dict[int, list[int]] = {}
    for each in ledger_sums(context.session, "hour", "state", period=period):
        hour, state = each.keys
        found = hours.setdefault(hour, [0, 0, 0])
        found[0] += each.milliseconds
        found[1] += each.milliseconds if state == "unobserved" else 0
        found[2] += each.milliseconds if state == "unexplained" else 0
    return [(hour, *amounts) for hour, amounts in hours.items()]


def _chart(context: "RequestContext", period: Period) -> Chart:
    width = max(1, -(-period.hours // BARS)) * HOUR_US
    sums: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    for hour, *amounts in _hours(context, period):
        bar = sums[(hour - period.start) // width]
        for place, amount in enumerate(amounts):
            bar[place] += amount
    starts = [period.start + bar * width for bar in range(-(-(period.end - period.start) // width))]
    bars = [sums.get(bar, [0, 0, 0]) for bar in range(len(starts))]
    silent = tuple(round(100 * one[1] / one[0], 2) if one[0] else None for one in bars)
    unclear = tuple(round(100 * one[2] / one[0], 2) if one[0] else None for one in bars)
    traces = (Trace("not measured", "unknown", silent), Trace("low, unexplained", "overhead", unclear))
    return chart("What is not known of the fleet", "% of owned", starts, period.timezone, traces)
