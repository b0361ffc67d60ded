"""Recommendations as text: the list, and one with the lines to paste."""

import textwrap
from collections.abc import Sequence

from analyzer.period import Period
from analyzer.placement.recommendation import Range, Recommendation
from analyzer.report.paper import Paper
from analyzer.report.words import CENTS_UNDER, MICROS, gpu_hours, money, plain

WEEK_US = 7 * 86_400_000_000
LEAST_MICROS = MICROS  # a week; the list leaves out what likely saves less


def saves_words(advice: Recommendation, currency: str) -> str:
    """Return "$842 / $1,022 / $1,142 a week (P20/P50/P80)", or GPU-hours where no price is known."""
    words = (
        money_range(advice.saves_micros, currency)
        if advice.saves_micros
        else f"{time_range(advice.saves_milliseconds)} GPU-hours"
    )
    return f"{words} a week (P20/P50/P80)"


def saves_in_run(advice: Recommendation, span_us: int, currency: str) -> str:
    """Return what it saves each run of this length: the saving a week was scaled up from what one run lost."""
    if advice.saves_micros:
        words = money_range(in_span(advice.saves_micros, span_us), currency)
    else:
        words = f"{time_range(in_span(advice.saves_milliseconds, span_us))} GPU-hours"
    return f"{words} each run (P20/P50/P80)"


def in_span(weekly: Range, span_us: int) -> Range:
    """Return the part of a week's saving that falls to a span."""
    return Range(*(part * span_us // WEEK_US for part in (weekly.p20, weekly.p50, weekly.p80)))


def actor_words(advice: Recommendation) -> str:
    """Return who can act; of a run it is its team."""
    if advice.actor != "run" or not advice.team:
        return advice.actor or "not known"
    return f"run ({plain(advice.team)})"


def money_range(saves: Range, currency: str) -> str:
    """Return the three quantiles of an amount."""
    decimals = 2 if abs(saves.p80) < CENTS_UNDER else 0
    return " / ".join(money(micros, currency, decimals) for micros in (saves.p20, saves.p50, saves.p80))


def time_range(saves: Range) -> str:
    """Return the three quantiles of GPU time in GPU-hours."""
    return " / ".join(gpu_hours(milliseconds) for milliseconds in (saves.p20, saves.p50, saves.p80))


def recommendations_text(
    period: Period, advice: Sequence[Recommendation], currency: str, paper: Paper, top: int | None = None
) -> str:
    """Return the list, those that save most first."""
    kind = "week" if "-W" in period.label else "period"
    head = [f"{len(advice)} recommendations, {kind} {period.label}; saves per week as P20 / P50 / P80", ""]
    if not advice:
        return paper.page([f"no recommendation for {kind} {period.label}: gpuledger findings says what was lost"])
    width = 34 + paper.extra
    shown = [one for one in advice if top is not None or not _is_small(one)][:top]
    for one in shown:
        saves = money_range(one.saves_micros, currency) if one.saves_micros else time_range(one.saves_milliseconds)
        title, *rest = textwrap.wrap(plain(f"{one.subject}: {one.title}"), width - 1, max_lines=2, placeholder=" ...")
        head.append(f"  {one.id:<7} {title:<{width}}{one.actor or '-':<10}{saves:>24}")
        head += [f"{'':10}{line}" for line in rest]
    if top is None and len(shown) < len(advice):
        least = f"under {money(LEAST_MICROS, currency, 0)} a week each: --top {len(advice)}"
        head += ["", *paper.wrap(f"{len(advice) - len(shown):,} more save {least}")]
    return paper.page([*head, "", f"next: gpuledger show {advice[0].id}"])


def _is_small(advice: Recommendation) -> bool:
    return advice.saves_micros is not None and advice.saves_micros.p50 < LEAST_MICROS


def recommendation_text(advice: Recommendation, currency: str, paper: Paper) -> str:
    """Return one recommendation: from, to, why, what it saves, what moving costs, and the lines to paste."""
    found = paper.wrap(f"{plain(advice.subject)}: {plain(advice.title)}", f"{advice.id}  ", " " * 8)
    found.append("")
    for label, text in (
        ("from", advice.from_),
        ("to", advice.to),
        ("why", advice.why),
        ("saves", saves_words(advice, currency)),
        ("moving costs", advice.cost_to_move),
        ("who can act", actor_words(advice)),
        ("who loses", advice.losers),
    ):
        found += paper.labelled(label, " ".join(plain(word) for word in text.split()))
    if advice.artefact:
        found += ["", "  PASTE", *(f"    {plain(line)}" for line in advice.artefact.splitlines())]
    return paper.page([*found, "", f"next: gpuledger explain {advice.finding_ids[0]}" if advice.finding_ids else ""])
