"""The report of a week or a month as text: 80 columns, the answer first, every column adding up."""

from collections.abc import Iterator, Sequence

from analyzer.finops.budgets.text import budget_lines
from analyzer.finops.charges.closing import edited_words
from analyzer.finops.reconcile.invoice_matches import match_words
from analyzer.finops.targets import target_lines
from analyzer.interfaces.text.finding_text import record_words
from analyzer.interfaces.text.savings_text import bill_words, checked_lines, saving_column, savings_head
from analyzer.interfaces.text.sentences import (
    cost_words,
    data_gap_words,
    first_sentence,
    fleet_words,
    short_sku,
    unpriced_words,
)
from analyzer.ledger.breakdown import breakdown_lines, breakdown_table
from analyzer.ledger.coverage import CLOSED, Silent
from analyzer.period import local
from analyzer.prices.price_book import repriced_words
from analyzer.recommendations.recommendation import Recommendation
from analyzer.reports.groups import MeasuredWith
from analyzer.reports.month import MonthPage
from analyzer.reports.week import ChargeLine, GroupLine, WeekReport, charge_lines, group_lines
from analyzer.text.layout import TextLayout
from analyzer.text.table import TableColumn, name_column, paper_lines
from analyzer.text.words import (
    UNKNOWN,
    apportion,
    counted,
    day,
    days,
    decimal,
    duration,
    gpu_hours,
    hours_decimals,
    kind_of,
    money,
    owner_word,
    percent,
    plain,
    short_moment,
    symbol,
)

_KINDS_SHOWN = 3
# Held by tests/analyzer/ledger/test_judge.py: no rule is sure of what a GPU's work waits for without SM activity.
_CAPPED = "input starvation at most medium"


def measured_with_words(judged: Sequence[MeasuredWith]) -> str | None:
    """Return what the measured time was measured with; None where that is known of none of it."""
    total = sum(one.milliseconds for one in judged)
    active, busy = [one.sm_activity or 0 for one in judged], [one.utilization or 0 for one in judged]
    parts = [sum(active), sum(busy), total - sum(active) - sum(busy)]
    if parts[2] == total:
        return None
    shares = apportion(1000, [part * 1000 for part in parts], total)
    skus = [one.sku for one in judged]
    said: list[str] = []
    for name, share, amounts, limit in (
        ("SM activity", shares[0], active, ""),
        ("NVML utilization", shares[1], busy, f": {_CAPPED}"),
    ):
        if share:
            of = "" if said else " of measured GPU-hours"
            said.append(f"{name} {percent(share)}{of} ({_kinds(skus, amounts, total)}{limit})")
    if shares[2]:
        said.append(f"not recorded for {percent(shares[2])}")
    return ", ".join(said)


def _kinds(skus: Sequence[str | None], amounts: Sequence[int], total: int) -> str:
    """Return the kinds of GPU that have a part in it that can be seen, largest first; a stray second names none."""
    most = sorted(zip(amounts, skus, strict=True), key=lambda one: -one[0])
    shown = [sku for amount, sku in most if amount * 1000 >= total] or [most[0][1]]
    names = [short_sku(sku, set(skus)) for sku in shown[:_KINDS_SHOWN]]
    more = len(shown) - _KINDS_SHOWN
    return ", ".join([*names, f"{counted(more, 'kind')} more"] if more > 0 else names)


RECOMMENDATIONS_SHOWN = 5
_NOT_JUDGED_SHOWN = 4
CHECKED_SHOWN = 3
_LABEL = 16  # the column of labels at the top,
_QUALITY = 21  # and under DATA QUALITY


def week_text(report: WeekReport, layout: TextLayout, top: int = RECOMMENDATIONS_SHOWN) -> str:
    """Return the report as text for this paper."""
    body = [line for section in _week_sections(report, layout, top) if section for line in (*section, "")]
    return layout.page([*body[:-1], _next(report)] if report.breakdown.entries else body[:-1])


def _week_sections(report: WeekReport, layout: TextLayout, top: int | None = None) -> list[list[str]]:
    """Return the report's sections, some of them empty; a month's report has them too."""
    if not report.breakdown.entries:
        return [_period(report, layout), layout.wrap(first_sentence(report))]
    return [
        _head(report, layout),
        layout.wrap(first_sentence(report)),
        breakdown_table(breakdown_lines(report.breakdown, report.previous), layout, symbol(report.currency)),
        _groups(report, layout),
        _charged(report, layout),
        _recommendations(report, layout, top or RECOMMENDATIONS_SHOWN),
        checked_lines(report.checked[:CHECKED_SHOWN], report.currency, report.period.timezone, layout),
        _corrections(report, layout),
        _data_quality(report, layout),
    ]


def _period(report: WeekReport, layout: TextLayout) -> list[str]:
    period = report.period
    dates = f"{days(period)}, {period.timezone}"
    *head, last = layout.labelled(f"{kind_of(period)} {period.label}", dates, _LABEL, indent=0)
    return [*head, *layout.ends(last, status_words(report), _LABEL)]


def _head(report: WeekReport, layout: TextLayout) -> list[str]:
    head = _period(report, layout)
    name = "runs of" if report.part else f"fleet {plain(report.cluster)}" if report.cluster else "fleet"
    paid = f", {cost_words(report.breakdown, report.currency)}" if report.breakdown.cost_micros is not None else ""
    head += layout.labelled(name, f"{gpus_words(report)}{paid}", _LABEL, indent=0)
    return head + layout.labelled("prices", prices_words(report), _LABEL, indent=0)


def gpus_words(report: WeekReport) -> str:
    """Return which GPUs for how long: "64 H100 = 64 GPUs, 10,752 GPU-hours owned", or whose runs held which."""
    time = gpu_hours(report.breakdown.milliseconds, hours_decimals(report.breakdown.milliseconds))
    gpus = fleet_words(report.fleet) if report.fleet else "no GPU"
    return f"{report.part.words}: {time} GPU-hours held on {gpus}" if report.part else f"{gpus}, {time} GPU-hours owned"


def status_words(report: WeekReport) -> str:
    """Return how settled the period's hours are and since when or until when, and how many where some are missing."""
    hours = report.hours
    if hours.status is None:
        return "not analysed"
    known = "" if hours.complete else f", {hours.known:,} of {hours.expected:,} hours"
    return f"{_settled(hours.status, report)}{known}"


def _settled(status: str, report: WeekReport) -> str:
    """Return "closed 17 Nov 06:00"; what is open says when it is due, which is past where nobody has analysed since."""
    at = short_moment(report.final_at if status == "final" else report.closes_at, report.period.timezone)
    if status == "provisional":
        return f"preliminary, final on {short_moment(report.final_at, report.period.timezone)}"
    return f"{status} {at}" if status in CLOSED else f"{status}, closes {at}"


def prices_words(report: WeekReport) -> str:
    """Return what the money rests on: how the GPUs were bought, which price book, what has no price."""
    options = {sku.purchase_option for sku in report.fleet if sku.purchase_option}
    bought = ", ".join(sorted(option.replace("_", " ") for option in options))
    versions = ", ".join(version[:12] for version in report.hours.price_versions)
    known = f"{bought or 'option unknown'}; price list {versions}" if versions else "none known"
    invoice = [match_words(report.invoice)] if versions else []
    stale = [*repriced_words(report.repriced), *edited_words(report.edited)]
    return "; ".join([known, *stale, *unpriced_words(report.breakdown, report.currency), *invoice])


def _groups(report: WeekReport, layout: TextLayout) -> list[str]:
    table = group_lines(report, report.table)
    sign = symbol(report.currency).strip()
    priced = table[0].money is not None
    columns: tuple[TableColumn[GroupLine], ...] = (
        name_column(f"BY {report.table.by.replace('-', ' ').upper()}", _name, _name_width(layout)),
        TableColumn("GPU-hours", lambda line: line.hours, width=12),
        *((TableColumn(sign, lambda line: line.money, width=10),) if priced else ()),
        TableColumn("useful", lambda line: line.useful, width=9),
        TableColumn(f"avoidable {sign if priced else 'h'}", lambda line: line.avoidable, width=14),
    )
    return paper_lines(columns, table)


def _charged(report: WeekReport, layout: TextLayout) -> list[str]:
    table = charge_lines(report)
    if not table:
        return []
    sign = symbol(report.currency).strip()
    columns: tuple[TableColumn[ChargeLine], ...] = (
        name_column("CHARGED", _name, _name_width(layout)),
        TableColumn(f"cost {sign}", lambda line: line.cost, width=12),
        TableColumn(f"charged {sign}", lambda line: line.charged, width=14),
        TableColumn(f"platform bears {sign}", lambda line: line.left, width=19),
    )
    return paper_lines(columns, table)


def _name(line: GroupLine | ChargeLine) -> str:
    return line.name


def _name_width(layout: TextLayout) -> int:
    return 27 + max(-8, layout.extra)


def _recommendations(report: WeekReport, layout: TextLayout, top: int) -> list[str]:
    shown = report.recommendations[:top]
    if not shown:
        return []
    count = f"{len(shown)} of {len(report.recommendations)}"
    amounts, together = saving_column(shown, report.currency)
    columns: tuple[TableColumn[tuple[Recommendation, str]], ...] = (
        TableColumn("", lambda row: row[0].id, width=10, align="<"),
        TableColumn("", lambda row: _title(row[0]), width=48 + layout.extra, align="<", is_cut=True),
        TableColumn("", lambda row: owner_word(row[0].actor), width=10, align="<"),
        TableColumn("", lambda row: row[1], width=8),
    )
    found = layout.wrap(f"TOP RECOMMENDATIONS ({count}): owner, {savings_head(shown)}", "", "  ")
    found += paper_lines(columns, list(zip(shown, amounts, strict=True)))
    bill = bill_words(shown, report.fleet, report.currency, report.period.timezone)
    return found + (layout.wrap(f"Together {together}: {bill}") if together else [])


def _title(recommendation: Recommendation) -> str:
    return f"{recommendation.subject}: {recommendation.title}"


def _corrections(report: WeekReport, layout: TextLayout) -> list[str]:
    if not report.corrections:
        return []
    found = ["CORRECTED SINCE IT CLOSED (not in the figures above)"]
    return [*found, *(line for words in correction_words(report) for line in layout.labelled("", words, 4))]


def correction_words(report: WeekReport) -> list[str]:
    """Return what was moved after the period had closed, a state each."""
    found = []
    for entry in report.corrections:
        cost = f", {money(entry.cost_micros, report.currency)}" if entry.cost_micros is not None else ""
        found.append(f"{entry.label}: {gpu_hours(entry.milliseconds)} GPU-hours{cost}")
    return found


def _data_quality(report: WeekReport, layout: TextLayout) -> list[str]:
    held, silent = report.measured.held_milliseconds, report.measured.not_measured_milliseconds
    share = decimal((held - silent) * 1000 // held, 1) if held else UNKNOWN  # rounded down: 100 means all
    words = [f"{share}% of held GPU-hours" if held else "no run is known to have held a GPU"]
    words += [silent_words(node, report.period.timezone) for node in report.measured.nodes[:2]]
    found = ["DATA QUALITY", *layout.labelled("measured", "; ".join(words), _QUALITY)]
    if judged_by := measured_with_words(report.by_what):
        found += layout.labelled("measured with", judged_by, _QUALITY)
    judged = [data_gap_words(rule) for rule in report.not_judged]
    if judged:
        more = len(judged) - _NOT_JUDGED_SHOWN
        rest = [f"and {counted(more, 'rule')} more"] if more > 0 else []
        words = [*judged[:_NOT_JUDGED_SHOWN], *rest, "all of them: gpuledger findings --unjudged"]
        found += layout.labelled("insufficient data", "; ".join(words), _QUALITY)
    if report.record is not None:
        found += layout.labelled("accuracy", record_words(report.record), _QUALITY)
    return found


def silent_words(node: Silent, timezone: str) -> str:
    """Return how long a node was not measured, whatever the cause, and from which day."""
    first = day(local(node.first_hour, timezone)).split()[0]
    return f"{plain(node.node)} not measured for {duration(node.milliseconds // 1000)} from {first}"


def _next(report: WeekReport) -> str:
    runs: Iterator[str] = (run_id for finding in report.findings for run_id in finding.run_ids)
    run_id = next(runs, None)
    return f"next: gpuledger findings{report.part.options if report.part else ''}" + (
        f"       gpuledger report run {plain(run_id).split('/')[-1]}" if run_id else ""
    )


def month_text(report: MonthPage, layout: TextLayout, top: int | None = None) -> str:
    """Return the month as text; its budgets' columns sum to the bill of the table."""
    sections = [
        *_week_sections(report.week, layout, top),
        target_lines(report.targets, layout),
        budget_lines(report.budgets, layout, top),
    ]
    body = [line for section in sections if section for line in (*section, "")]
    return layout.page([*body, "next: gpuledger bill units      gpuledger capacity portfolio"])
