"""The sentences of the reports: the number, the change, the best next step, what a bill will do."""

from collections.abc import Sequence

from agent.wire.units import MICROS
from analyzer.findings.words import rule_words
from analyzer.ledger.breakdown import breakdown_lines
from analyzer.ledger.coverage import NotJudged, Sku
from analyzer.queries.ledger_query import LARGE_GAP, Breakdown, alike_measured
from analyzer.recommendations.recommendation import Recommendation, over_words
from analyzer.reports.recommendation_words import FREE, NOT_PRICED, cost_short
from analyzer.reports.week import WeekReport, best_next_step
from analyzer.text.words import (
    AT_LEAST,
    UNKNOWN,
    at_least,
    counted,
    gpu_hours,
    kind_of,
    money,
    money_decimals,
    nearest,
    nothing_avoidable,
    percent,
    plain,
    symbol,
    unheld_words,
)


def first_sentence(report: WeekReport) -> str:
    """Return the answer: what was avoidable, the change, and the best next step."""
    if not report.breakdown.entries:
        if report.part and report.hours.known:
            return f"No run of {report.part.words} held a GPU in this {kind_of(report.period)}."
        return "The ledger has no hour of this period: run gpuledger admin analyze, or ask for another period."
    gap = _unmeasured(report) if report.avoidable.entries else ""
    return f"{_avoidable(report)}{gap}.{unheld_sentence(report)}{next_step(report)}"


def unheld_sentence(report: WeekReport) -> str:
    """Return that GPUs worked which nobody held, with a space before it; nothing where that is little or not known."""
    free = report.unheld
    if free is None or free.activity is None or free.worked * LARGE_GAP < free.milliseconds:
        return ""
    return f" {unheld_words(free.milliseconds, free.worked, free.activity)}: add the allocations of its scheduler."


def _avoidable(report: WeekReport) -> str:
    """Return what was avoidable, as the table rounds it: the same figure reads the same everywhere."""
    if not report.avoidable.entries:
        return _nothing_found(report)
    table = breakdown_lines(report.breakdown, report.previous)
    line = next(line for line in table if line.klass == "avoidable" and line.level in ("class", "only"))
    share = f"({line.percent}%){_change(report)}"
    if line.money in (None, UNKNOWN):
        return f"{line.hours} GPU-hours were avoidable {share}"
    if report.breakdown.unpriced:
        part = f"({line.percent}% of GPU time){_change(report)}"
        return f"{symbol(report.currency)}{line.money} of what has a price was avoidable {part}"
    return f"{symbol(report.currency)}{line.money} was avoidable {share}"


def is_unmeasured(report: WeekReport) -> bool:
    """Return whether nothing was measured of what runs held, or of all of it."""
    held, silent = report.measured.held_milliseconds, report.measured.not_measured_milliseconds
    return not report.breakdown.measured.milliseconds or (held > 0 and silent == held)


def _nothing_found(report: WeekReport) -> str:
    """Return that nothing avoidable was found, of what that is said; where nothing was measured, that."""
    if report.measured.held_milliseconds and is_unmeasured(report):
        return nothing_avoidable(1, 1)
    told = nothing_avoidable(report.measured.held_milliseconds, report.measured.not_measured_milliseconds)
    rules = [f"{rule_words(one.rule)} ({_whom(one.subjects)})" for one in report.not_judged]
    return f"{told}; insufficient data for {', '.join(rules)}" if rules and report.measured.held_milliseconds else told


def is_unheld(report: WeekReport) -> bool:
    """Return whether nobody told of a run that held a GPU, and nothing else was lost either."""
    return not report.measured.held_milliseconds and not report.avoidable.entries


def _unmeasured(report: WeekReport) -> str:
    """Return how much of the held time nobody measured, where the headline cannot stand without it."""
    held, silent = report.measured.held_milliseconds, report.measured.not_measured_milliseconds
    if silent * LARGE_GAP <= held:
        return ""
    return f"; {percent(silent, held)} of held GPU-hours was not measured"


def _change(report: WeekReport) -> str:
    before = report.previous.of("avoidable") if report.previous else None
    if before is None or report.previous is None or report.previous.priced != report.breakdown.priced:
        return ""
    if not alike_measured(report.breakdown, report.previous):  # less may be less that was looked at
        return ""
    what = f"the {kind_of(report.period)} before"
    what = what if report.hours.complete else f"by this hour of {what}"
    if not report.breakdown.priced:
        difference = report.avoidable.milliseconds - before.milliseconds
        return f", {gpu_hours(abs(difference), 0)} GPU-hours {'less' if difference < 0 else 'more'} than {what}"
    difference = (report.avoidable.cost_micros or 0) - (before.cost_micros or 0)
    amount = money(abs(difference), report.currency, money_decimals(report.breakdown.cost_micros))
    return f", {amount} {'less' if difference < 0 else 'more'} than {what}"


def next_step(report: WeekReport) -> str:
    """Return what to do first and what it saves, with a space before it; nothing where nothing is recommended."""
    best = best_next_step(report.recommendations)
    if best is None:
        return ""
    saves = (
        f"about {symbol(report.currency)}{nearest(best.saves_micros.p50, MICROS):,}"
        if best.saves_micros
        else f"about {gpu_hours(best.saves_milliseconds.p50)} GPU-hours"
    )
    over = over_words(best.saves_over_seconds)
    step = f" Do this first: {plain(best.subject)}: {plain(best.title)} ({best.id}), saves {saves} {over}"
    return f"{step}{_why_first(best, report)}."


def _why_first(best: Recommendation, report: WeekReport) -> str:
    """Return why it is not what saves most, where another is: the list is by saving, the best step net of moving."""
    most = report.recommendations[0]
    if most.id == best.id:
        return ""
    cost, costs_more = cost_short(best, report.currency), cost_short(most, report.currency)
    has_side_effects = best.ends_work or not best.losers.startswith("none")
    free = " and costs nothing to try" if cost == FREE and not has_side_effects else ""
    moving = "what moving costs is not known" if costs_more == NOT_PRICED else costs_more
    moving = "it ends somebody's work" if most.ends_work else moving
    return f"{free}; {most.id} saves more, but {moving}"


def fleet_words(fleet: Sequence[Sku]) -> str:
    """Return "128 H100, 64 A100 = 192 GPUs"; the full model where the short one would be ambiguous."""
    names = {sku.sku for sku in fleet}
    counts: dict[str, int] = {}
    for sku in fleet:
        name = short_sku(sku.sku, names)
        counts[name] = counts.get(name, 0) + sku.gpus
    total = counted(sum(counts.values()), "GPU")
    if len(counts) == 1:
        return f"{total} {next(iter(counts))}"
    return f"{', '.join(f'{gpus:,} {name}' for name, gpus in counts.items())} = {total}"


def short_sku(sku: str | None, among: set[str | None]) -> str:
    """Return "H100" for "H100-80GB", but the whole of it where another kind shares the short name."""
    if sku is None:
        return "of unknown model"
    short = plain(sku).split("-")[0]
    return short if sum(1 for other in among if other and other.split("-")[0] == short) == 1 else plain(sku)


def cost_words(breakdown: Breakdown, currency: str) -> str:
    """Return what all of it cost, marked where a part has no price; a dash where nothing has one."""
    cost = breakdown.cost_micros
    return at_least(money(cost, currency, money_decimals(cost)), breakdown.is_part)


def unpriced_words(breakdown: Breakdown, currency: str) -> list[str]:
    """Return one sentence for each kind of GPU that has no price, and what the mark of sums without them means."""
    marked = [f"{AT_LEAST} marks sums without them"] if breakdown.is_part else []
    found = [
        f"{symbol(currency).strip()} unknown: no price for {plain(part.sku or 'GPUs of unknown model')} "
        f"({gpu_hours(part.milliseconds)} GPU-hours)"
        for part in breakdown.unpriced
    ]
    return found + marked


def _whom(subjects: int) -> str:
    return "1 run or host" if subjects == 1 else f"{subjects:,} runs or hosts"


def data_gap_words(rule: NotJudged) -> str:
    """Return which rule lacked data, for whom, and which."""
    whom = plain(rule.example) if rule.subjects == 1 else _whom(rule.subjects)
    return f"{rule_words(rule.rule)} of {whom}: {plain(rule.missing)}"
