"""The portfolio as text: workloads by word, the ones that want something done first."""

from collections.abc import Sequence

from analyzer.portfolio.reading import Portfolio
from analyzer.portfolio.review import WORDS, Reviewed
from analyzer.report.paper import Paper
from analyzer.report.words import MS_PER_HOUR, UNKNOWN, amount, counted, days, gpu_hours, money, plain, symbol

ROWS = 20
SMALL_HOURS = 1  # GPU-hours: below, a workload is counted and not listed


def portfolio_text(report: Portfolio, paper: Paper, top: int | None = None) -> str:
    """Return the review as text."""
    lines = [f"portfolio {report.period.label}   {days(report.period)}, {report.period.timezone}", ""]
    lines += [*paper.wrap(_first(report)), ""]
    shown = [one for one in report.reviewed if one.workload.milliseconds >= SMALL_HOURS * MS_PER_HOUR]
    shown = shown[: top or ROWS]
    width = 20 + paper.extra
    sign = symbol(report.currency).strip()
    lines.append(f"{'WORKLOAD':<{width}}{'team':<16}{'GPU-hours':>10}{sign:>10}  what to do")
    for word in WORDS:
        for one in shown:
            if one.word == word:
                lines += _row(one, width, paper)
    if rest := [one.workload for one in report.reviewed if one not in shown]:
        head = f"and {counted(len(rest), 'smaller one')}"
        hours = gpu_hours(sum(each.milliseconds for each in rest), 0)
        paid = _sum([each.micros for each in rest])
        cost = UNKNOWN if paid is None else amount(paid, 0)
        lines.append(f"  {head:<{width + 14}}{hours:>10}{cost:>10}")
    lines += [
        "",
        *paper.wrap("A word is what its GPUs did, not what its results are worth: that is for the review."),
        "",
    ]
    return paper.page([*lines, "next: gpuledger recommend      gpuledger report units"])


def _first(report: Portfolio) -> str:
    if not report.reviewed:
        return "No run held a GPU in this period."
    parts = []
    for word in WORDS:
        those = [one.workload for one in report.reviewed if one.word == word]
        if not those:
            continue
        paid = _sum([each.micros for each in those])
        worth = gpu_hours(sum(each.milliseconds for each in those), 0) + " GPU-hours"
        parts.append(f"{word} {len(those)} ({worth if paid is None else money(paid, report.currency, 0)})")
    return f"{counted(len(report.reviewed), 'workload')}: {', '.join(parts)}."


def _sum(costs: Sequence[int | None]) -> int | None:
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None


def _row(one: Reviewed, width: int, paper: Paper) -> list[str]:
    each = one.workload
    cost = UNKNOWN if each.micros is None else amount(each.micros, 0)
    name, team = paper.cut(each.name, width - 3), paper.cut(each.team or "unmapped", 15)
    head = f"  {name:<{width - 2}}{team:<16}{gpu_hours(each.milliseconds, 0):>10}{cost:>10}  {one.word}"
    ids = f" ({', '.join(map(plain, one.advice[:2]))})" if one.advice else ""
    return [head, *paper.wrap(f"{one.why}{ids}", "      ", "      ")]
