"""Recommendations as text: the list, and one with the lines to paste."""

from collections.abc import Sequence

from analyzer.period import Period
from analyzer.placement.recommendation import Range, Recommendation
from analyzer.report.paper import Paper
from analyzer.report.rounding import nearest
from analyzer.report.words import MICROS, gpu_hours, plain, symbol


def saves_words(advice: Recommendation, currency: str) -> str:
    """Return "$842 / $1,022 / $1,142 a week (P20/P50/P80)", or GPU-hours where no price is known."""
    words = (
        money_range(advice.saves_micros, currency)
        if advice.saves_micros
        else f"{time_range(advice.saves_milliseconds)} GPU-hours"
    )
    return f"{words} a week (P20/P50/P80)"


def money_range(saves: Range, currency: str) -> str:
    """Return the three quantiles of an amount."""
    sign = symbol(currency)
    return " / ".join(f"{sign}{nearest(micros, MICROS):,}" for micros in (saves.p20, saves.p50, saves.p80))


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
    for one in advice[:top]:
        saves = money_range(one.saves_micros, currency) if one.saves_micros else time_range(one.saves_milliseconds)
        title = paper.cut(f"{one.subject}: {one.title}", width - 1)
        head.append(f"  {one.id:<8}{title:<{width}}{one.actor or '-':<10}{saves:>24}")
    return paper.page([*head, "", f"next: gpuledger show {advice[0].id}"])


def recommendation_text(advice: Recommendation, currency: str, paper: Paper) -> str:
    """Return one recommendation: from, to, why, what it saves, what moving costs, and the lines to paste."""
    actor = f"{advice.actor or 'not known'}{f' ({plain(advice.team)})' if advice.team else ''}"
    found = paper.wrap(f"{plain(advice.subject)}: {plain(advice.title)}", f"{advice.id}  ", " " * 8)
    found.append("")
    for label, text in (
        ("from", advice.from_),
        ("to", advice.to),
        ("why", advice.why),
        ("saves", saves_words(advice, currency)),
        ("moving costs", advice.cost_to_move),
        ("who can act", actor),
        ("who loses", advice.losers),
    ):
        found += paper.labelled(label, " ".join(plain(word) for word in text.split()))
    if advice.artefact:
        found += ["", "  PASTE", *(f"    {plain(line)}" for line in advice.artefact.splitlines())]
    return paper.page([*found, "", f"next: gpuledger explain {advice.finding_ids[0]}" if advice.finding_ids else ""])
