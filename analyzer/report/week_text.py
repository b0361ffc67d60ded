"""The report of a week as text: 80 columns, the answer first, every column adding up."""

from collections.abc import Iterator, Sequence

from analyzer.period import local
from analyzer.placement.recommendation import Recommendation
from analyzer.report.by_team import TeamRow
from analyzer.report.coverage import Silent
from analyzer.report.paper import Paper
from analyzer.report.rounding import apportion, nearest
from analyzer.report.sentences import bill_sentence, first_sentence, fleet_words, judged_words, unpriced_words
from analyzer.report.table import Line, column_like, lines
from analyzer.report.week import WeekReport
from analyzer.report.words import (
    MICROS,
    MS_PER_HOUR,
    NO_BREAK,
    UNKNOWN,
    counted,
    day,
    days,
    decimal,
    duration,
    gpu_hours,
    hours_decimals,
    money,
    money_decimals,
    percent,
    plain,
    symbol,
)

WORTH_DOING_SHOWN = 5
NOT_JUDGED_SHOWN = 4


def week_text(report: WeekReport, paper: Paper, top: int = WORTH_DOING_SHOWN) -> str:
    """Return the report as text for this paper."""
    if not report.breakdown.entries:
        return paper.page([*_head(report, paper), "", *paper.wrap(first_sentence(report))])
    sections = (
        _head(report, paper),
        paper.wrap(first_sentence(report)),
        went("WHERE IT WENT", lines(report.breakdown, report.previous), paper, symbol(report.currency)),
        _teams(report, paper),
        _worth_doing(report, paper, top),
        _corrections(report, paper),
        _how_sure(report, paper),
    )
    body = [line for section in sections if section for line in (*section, "")]
    return paper.page([*body[:-1], _next(report)])


def _head(report: WeekReport, paper: Paper) -> list[str]:
    period = report.period
    kind = "week" if "-W" in period.label else "period"
    left = f"{kind} {period.label}".ljust(16) + f"{days(period)}, {period.timezone}"
    status = _status(report)
    head = [f"{left}{status:>{paper.width - 2 - len(left)}}" if len(left) + len(status) < paper.width - 4 else left]
    if head[0] == left:
        head.append(" " * 16 + status)
    name = f"fleet {plain(report.cluster)}" if report.cluster else "fleet"
    owned = f"{gpu_hours(report.breakdown.milliseconds, hours_decimals(report.breakdown.milliseconds))} GPU-hours owned"
    cost = report.breakdown.cost_micros
    paid = f", {money(cost, report.currency, money_decimals(cost))}" if cost is not None else ""
    head += paper.wrap(f"{fleet_words(report.fleet)}, {owned}{paid}", name.ljust(15) + " ", " " * 16)
    return head + paper.wrap(_prices(report), "prices".ljust(16), " " * 16)


def _status(report: WeekReport) -> str:
    hours = report.hours
    if hours.status is None:
        return "not analysed"
    if hours.complete:
        return hours.status
    return f"{hours.status}, {hours.known:,} of {hours.expected:,} hours"


def _prices(report: WeekReport) -> str:
    options = {sku.purchase_option for sku in report.fleet if sku.purchase_option}
    bought = ", ".join(sorted(option.replace("_", " ") for option in options))
    versions = ", ".join(version[:12] for version in report.hours.price_versions)
    known = f"{bought or 'option unknown'}; price book {versions}" if versions else "none known"
    return "; ".join([known, *unpriced_words(report.breakdown, report.currency)])


def went(title: str, table: Sequence[Line], paper: Paper, sign: str) -> list[str]:
    """Return a breakdown as a table with bars; columns without figures are left out."""
    with_money, with_change = table[0].money is not None, any(line.change is not None for line in table)
    label = max(20 if paper.extra > -10 else 18, *(len(line.label) + 1 for line in table))
    hours = 12 if paper.extra > -10 else 10
    fixed = 15 + label + hours + 10 * with_money + 7 + 6 * with_change
    bar = max(0, min(10 + max(0, paper.extra), paper.width - fixed))
    head = f"{'GPU-hours':>{hours}}" + f"{sign.strip():>10}" * with_money + f"{'%':>7}" + f"{'+/-':>6}" * with_change
    largest = max((line.share for line in table if line.level != "total"), default=0.0)
    found = [title.ljust(13 + label + bar) + head]
    for line in table:
        drawn = "" if line.level == "total" else paper.bar(line.share, largest, bar)
        first = line.label if line.level == "total" else line.klass if line.level in ("class", "only") else ""
        name = "" if line.level == "total" else paper.cut(line.label, label - 1)
        text = f"  {first:<11}{name:<{label}}{drawn:<{bar}}{line.hours:>{hours}}"
        text += f"{line.money:>10}" if with_money else ""
        text += f"{line.percent:>7}" + (f"{line.change or '':>6}" if with_change else "")
        found.append(text)
    return found


def _teams(report: WeekReport, paper: Paper) -> list[str]:
    rows = report.teams
    total, priced = report.breakdown, report.breakdown.cost_micros is not None
    decimals = hours_decimals(total.milliseconds)
    hours = _flat([row.breakdown.milliseconds for row in rows], MS_PER_HOUR, decimals)
    avoidable = [row.breakdown.of("avoidable") for row in rows]
    if priced:
        cost_decimals = money_decimals(total.cost_micros)
        costs = _flat([row.breakdown.cost_micros or 0 for row in rows], MICROS, cost_decimals)
        lost = _under_total([part.cost_micros or 0 for part in avoidable], report, cost_decimals)
    else:
        lost = _flat([part.milliseconds for part in avoidable], MS_PER_HOUR, decimals)
    sign = symbol(report.currency).strip()
    head = f"{'GPU-hours':>12}" + (f"{sign:>10}" if priced else "") + f"{'useful':>9}"
    head += f"{'avoidable ' + (sign if priced else 'h'):>14}"
    width = 27 + max(-8, paper.extra)
    found = ["BY TEAM".ljust(width) + head]
    names = [*(paper.cut(_team_name(row), width - 3) for row in rows), "total"]
    for place, name in enumerate(names):
        text = f"  {name:<{width - 2}}{hours[place]:>12}" + (f"{costs[place]:>10}" if priced else "")
        is_team = place < len(rows)
        useful = _useful(rows[place], report) if is_team else ""
        shown = UNKNOWN if is_team and not avoidable[place].milliseconds and not rows[place].held else lost[place]
        found.append(f"{text}{useful:>9}{shown:>14}")
    return found


def _team_name(row: TeamRow) -> str:
    if not row.held:
        return "nobody (not allocated)"
    return row.team if row.team is not None else "unmapped"


def _useful(row: TeamRow, report: WeekReport) -> str:
    if not row.held:
        return UNKNOWN
    useful, whole = row.breakdown.of("useful"), row.breakdown
    if report.breakdown.priced:
        return percent(useful.cost_micros or 0, whole.cost_micros or 0)
    return percent(useful.milliseconds, whole.milliseconds)


def _flat(exact: list[int], denominator: int, decimals: int) -> list[str]:
    total = nearest(sum(exact) * 10**decimals, denominator)
    return [*column_like(total, exact, denominator, decimals), decimal(total, decimals)]


def _under_total(exact: list[int], report: WeekReport, decimals: int) -> list[str]:
    """Return the avoidable money of each team, adding up to the figure that the table above prints."""
    shown = next((line.money for line in lines(report.breakdown) if line.klass == "avoidable"), None)
    total = int((shown or "0").replace(",", "").replace(".", ""))
    return [*column_like(total, exact, MICROS, decimals), decimal(total, decimals)]


def _worth_doing(report: WeekReport, paper: Paper, top: int) -> list[str]:
    shown = report.recommendations[:top]
    if not shown:
        return []
    count = f"{len(shown)} of {len(report.recommendations)}"
    unit = "saves per week, P50" if _all_priced(shown) else "GPU-hours saved per week, P50"
    found = [f"WORTH DOING ({count}; who can act; {unit})"]
    amounts, together = saving_column(shown, report.currency)
    width = 49 + paper.extra
    for recommendation, amount in zip(shown, amounts, strict=True):
        title = paper.cut(f"{recommendation.subject}: {recommendation.title}", width - 1)
        found.append(f"  {recommendation.id:<8}{title:<{width}}{recommendation.actor or '':<9}{amount:>8}")
    return found + paper.wrap(f"Together {together}: {bill_sentence(report.fleet)}")


def _all_priced(shown: Sequence[Recommendation]) -> bool:
    return all(recommendation.saves_micros is not None for recommendation in shown)


def saving_column(shown: Sequence[Recommendation], currency: str) -> tuple[list[str], str]:
    """Return what each saves a week (P50) and the sum, as printed and adding up: money, or time without prices."""
    if _all_priced(shown):
        exact = [saves.p50 for recommendation in shown if (saves := recommendation.saves_micros)]
        total = nearest(sum(exact), MICROS)
        sign = symbol(currency)
        return [f"{sign}{units:,}" for units in apportion(total, exact, MICROS)], f"{sign}{total:,}"
    exact = [recommendation.saves_milliseconds.p50 for recommendation in shown]
    total = nearest(sum(exact) * 10, MS_PER_HOUR)
    units = apportion(total, [milliseconds * 10 for milliseconds in exact], MS_PER_HOUR)
    return [f"{decimal(unit, 1)} h" for unit in units], f"{decimal(total, 1)} GPU-hours"


def _corrections(report: WeekReport, paper: Paper) -> list[str]:
    if not report.corrections:
        return []
    found = ["CORRECTED SINCE IT CLOSED (not in the figures above)"]
    for entry in report.corrections:
        cost = f", {money(entry.cost_micros, report.currency)}" if entry.cost_micros is not None else ""
        found += paper.labelled("", f"{entry.label}: {gpu_hours(entry.milliseconds)} GPU-hours{cost}", 4)
    return found


def _how_sure(report: WeekReport, paper: Paper) -> list[str]:
    held, silent = report.measured.held, report.measured.silent
    share = decimal((held - silent) * 1000 // held, 1) if held else UNKNOWN  # rounded down: 100 means all
    words = [f"{share}{NO_BREAK}% of held GPU-hours" if held else "no GPU was held"]
    words += [_silent_words(node, report.period.timezone) for node in report.measured.nodes[:2]]
    found = ["HOW SURE WE ARE", *paper.labelled("measured", "; ".join(words))]
    judged = [judged_words(rule) for rule in report.not_judged]
    if judged:
        more = len(judged) - NOT_JUDGED_SHOWN
        rest = [f"and {counted(more, 'rule')} more"] if more > 0 else []
        found += paper.labelled("not judged", "; ".join([*judged[:NOT_JUDGED_SHOWN], *rest]))
    return found


def _silent_words(node: Silent, timezone: str) -> str:
    first = day(local(node.first_hour, timezone)).split()[0]
    return f"{plain(node.node)} silent for {duration(node.milliseconds // 1000)} from {first}"


def _next(report: WeekReport) -> str:
    runs: Iterator[str] = (run_id for finding in report.findings for run_id in finding.run_ids)
    run_id = next(runs, None)
    return "next: gpuledger findings" + (
        f"       gpuledger report run {plain(run_id).split('/')[-1]}" if run_id else ""
    )
