"""Two sides of a comparison as text: the answer first, then where the time of a run went, each column adding up."""

from math import exp

from agent.wire.units import HOUR_MS, SECOND_US
from analyzer.interfaces.text.run_text import predicted
from analyzer.queries.ledger_query import Breakdown
from analyzer.recommendations.lifecycle.outcome import Effect, Interval
from analyzer.recommendations.lifecycle.work import Unit
from analyzer.reports.compare import ComparedSide, Comparison
from analyzer.reports.host_side import RecordingReport
from analyzer.text.layout import TextLayout
from analyzer.text.table import TableColumn, name_column, paper_lines
from analyzer.text.words import (
    apportion,
    counted,
    decimal,
    duration,
    hours_decimals,
    money,
    nearest,
    percent,
    plain,
    signed,
)


def largest_move(before: Breakdown, now: Breakdown) -> str:
    """Return which avoidable share of the measured time moved most, from what to what.

    Empty where nothing was avoidable. Of a side of which nothing was measured no share is known, and none has fallen.
    """
    blind = [
        side for side, one in (("before", before), ("after", now)) if one.milliseconds and not one.measured.entries
    ]
    if blind:
        return f"Nothing was measured {' and '.join(blind)}: where the time went cannot be compared."
    then, today = _shares(before), _shares(now)
    avoidable = {entry.label for entry in (*before.of("avoidable").entries, *now.of("avoidable").entries)}
    if not avoidable:
        return ""
    label = max(avoidable, key=lambda each: (abs(today.get(each, 0) - then.get(each, 0)), each))
    old, new = then.get(label, 0), today.get(label, 0)
    word = "fell" if new < old else "rose" if new > old else "stayed"
    told = f"{label.capitalize()} {word} from {percent(old, 1000)} to {percent(new, 1000)}"
    if not before.has_gap and not now.has_gap:
        return f"{told}."
    gaps = (percent(one.milliseconds - one.measured.milliseconds, one.milliseconds) for one in (before, now))
    shares = " and ".join(gaps)
    return f"{told} of what was measured ({shares} of it was not)."


def _shares(breakdown: Breakdown) -> dict[str, int]:
    known = breakdown.measured
    whole = max(1, known.milliseconds)
    return {entry.label: nearest(entry.milliseconds * 1000, whole) for entry in known.entries}


_PER: dict[Unit, tuple[int, str]] = {
    "tokens": (1_000_000, "million tokens"),
    "samples": (1_000, "thousand samples"),
    "steps": (1_000, "thousand steps"),
}
_ONE: dict[Unit, str] = {"tokens": "token", "samples": "sample", "steps": "step", "run": "completed run"}


_Row = tuple[str, str | None, str | None, str | None]  # what, before, after, and the change


def compare_text(found: Comparison, layout: TextLayout) -> str:
    """Return the comparison as text."""
    return layout.page(
        [
            *layout.wrap(f"{plain(found.subject)}: {_sizes(found)}", ""),
            "",
            *layout.wrap(comparison_answer(found)),
            "",
            *_table(found, layout),
            "",
            *_not_told(found, layout),
        ]
    )


def comparison_answer(found: Comparison) -> str:
    """Return how much more or less the same work cost, and which avoidable share moved most."""
    return f"{_answer(found)} {largest_move(found.before.breakdown, found.after.breakdown)}".strip()


def _sizes(found: Comparison) -> str:
    one, other = len(found.before.run_ids), len(found.after.run_ids)
    if one == other == 1:
        return "two runs side by side"
    return f"{counted(one, 'run')} before, {counted(other, 'run')} after; mean per run"


def _answer(found: Comparison) -> str:
    if found.unit is None or found.change is None:
        return "Neither says how much work it did: only time can be compared."
    share = 1 - exp(found.change)
    what = "costs" if found.is_priced else "takes GPU time:"
    word = "less" if share >= 0 else "more"
    prices = ", both at the prices of before" if found.is_priced else ""
    unknown = " How much work either did is not known: it may be less work." if found.unit == "run" else ""
    how_much = f"{abs(100 * share):.1f}"
    told = f"A {_ONE[found.unit]} {what} {how_much}% {word} than before{prices}.{unknown}"
    if float(how_much) == 0:
        same = "costs as much" if found.is_priced else "takes as much GPU time"
        told = f"A {_ONE[found.unit]} {same} as before{prices}.{unknown}"
    return f"{told} {_interval(found.effect)}" if found.effect is not None else told


def _interval(effect: Effect) -> str:
    return f"95% interval: {_ends(effect.by_t.sure)}." + ("" if effect.is_shown else " That may be no change at all.")


def _ends(interval: Interval) -> str:
    """Return "28.0% to 36.1% less", or both ways where no change lies in it."""
    low, high = (100 * share for share in interval.saved())
    if low >= 0:
        return f"{low:.1f}% to {high:.1f}% less"
    return f"{-high:.1f}% to {-low:.1f}% more" if high <= 0 else f"{-low:.1f}% more to {high:.1f}% less"


def comparison_rows(found: Comparison) -> list[_Row]:
    """Return what stands side by side: GPU-hours of each state of the mean run, their total, cost, and work done."""
    sides = (found.before, found.after)
    rows: list[_Row] = _time_rows(sides)
    rows += _both("cost", [_cost(found, side) for side in sides])
    if found.unit in _PER:
        rows += _both(found.unit, [None if side.units is None else f"{_a_run(side, side.units):,}" for side in sides])
        per = f"{'cost per' if found.is_priced else 'GPU-hours per'} {_PER[found.unit][1]}"
        rows += _both(per, [_per(found, side) for side in sides])
    return rows


def _table(found: Comparison, layout: TextLayout) -> list[str]:
    columns: tuple[TableColumn[_Row], ...] = (
        name_column("GPU-HOURS", lambda row: row[0], 38 + layout.extra),
        TableColumn(layout.cut(found.before.label, 12), lambda row: row[1], width=14),
        TableColumn(layout.cut(found.after.label, 12), lambda row: row[2], width=14),
        TableColumn("change", lambda row: row[3], width=14),
    )
    return paper_lines(columns, comparison_rows(found))


def _time_rows(sides: tuple[ComparedSide, ComparedSide]) -> list[_Row]:
    """Return a row a state, in GPU-hours of the mean run, and their total; what nobody measured is not 0."""
    decimals = hours_decimals(max(_a_run(side, side.breakdown.milliseconds) for side in sides))
    columns = [_hours(side, decimals) for side in sides]
    blind = [not side.breakdown.measured.milliseconds for side in sides]
    rows: list[_Row] = []
    for label in dict.fromkeys((*columns[0], *columns[1])):
        then, now = (
            None if is_blind and label not in column else column.get(label, 0)
            for column, is_blind in zip(columns, blind, strict=True)
        )
        change = None if then is None or now is None else signed(now - then, decimals)
        rows.append((label, _decimal(then, decimals), _decimal(now, decimals), change))
    return rows


def _decimal(units: int | None, decimals: int) -> str | None:
    return None if units is None else decimal(units, decimals)


def _both(label: str, figures: list[str | None]) -> list[_Row]:
    before, after = figures
    return [] if before is None or after is None else [(label, before, after, "")]


def _a_run(side: ComparedSide, amount: int) -> int:
    return nearest(amount, len(side.run_ids))


def _hours(side: ComparedSide, decimals: int) -> dict[str, int]:
    """Return a run's mean GPU-hours by label, in the last decimal shown, summing to the total's."""
    runs, scale = len(side.run_ids) * HOUR_MS, 10**decimals
    exact = [entry.milliseconds * scale for entry in side.breakdown.entries]
    total = nearest(sum(exact), runs)
    rounded = apportion(total, exact, runs)
    named = {entry.label: units for entry, units in zip(side.breakdown.entries, rounded, strict=True)}
    return {**named, "total": total}


def _cost(found: Comparison, side: ComparedSide) -> str | None:
    cost = side.breakdown.cost_micros
    return None if cost is None else money(_a_run(side, cost), found.currency)


def _per(found: Comparison, side: ComparedSide) -> str | None:
    if side.units is None or found.unit is None:
        return None
    breakdown = side.breakdown
    many = _PER[found.unit][0]
    if found.is_priced and breakdown.cost_micros is not None:
        return money(nearest(breakdown.cost_micros * many, side.units), found.currency, 3)
    return decimal(nearest(breakdown.milliseconds * many * 1000, side.units * HOUR_MS), 3)


def _not_told(found: Comparison, layout: TextLayout) -> list[str]:
    if found.effect is not None:
        effect = found.effect
        words = f"Welch's t, unequal variances; by 2,000 draws {_ends(effect.by_draws.sure)}"
        return layout.labelled("interval", words)
    few = min(len(found.before.run_ids), len(found.after.run_ids))
    return layout.labelled("interval", f"none: it needs five runs on each side, and one has {few}")


def against_sentence(before: RecordingReport, now: RecordingReport) -> str:
    """Return whether the change worked, by how much, and what the largest loss is now; failures are not compared."""
    both = (("the earlier", before), ("this", now))
    if torn := [name for name, one in both if one.ended is None]:
        return f"Not compared: {' and '.join(torn)} recording has no end, so how long the command took is not known."
    failed = [name for name, one in both if one.ended and one.ended.exit_code != 0]
    if failed:
        return f"Not compared: {' and '.join(failed)} command failed, so a shorter time is no success."
    unlike = _differences(before, now)
    return " ".join([*([f"Not the same work: {'; '.join(unlike)}."] if unlike else []), _faster(before, now)])


def _differences(before: RecordingReport, now: RecordingReport) -> list[str]:
    """Return what makes two commands no measure of each other: the words, the host, the GPUs."""
    then, today = before.header, now.header
    pairs = (
        ("the command was", then.command, today.command),
        ("the host was", then.node, today.node),
        ("it held", counted(before.gpus, "GPU"), counted(now.gpus, "GPU")),
        ("the GPU was", before.run and before.run.facts.sku, now.run and now.run.facts.sku),
    )
    return [
        f"{what} {plain(str(old))}, now {plain(str(new))}" for what, old, new in pairs if old and new and old != new
    ]


def _faster(before: RecordingReport, now: RecordingReport) -> str:
    change = now.microseconds - before.microseconds
    share = percent(abs(change) * 1000, before.microseconds * 1000)
    took = duration(abs(change) // SECOND_US)
    told = f"{'Faster' if change < 0 else 'Slower'} by {took} ({share})." if abs(change) >= SECOND_US else "As fast."
    if why := before.not_judged or now.not_judged:
        return f"{told} {plain(why)}"
    if before.run is None or now.run is None:
        return f"{told} No GPU was watched in {'either' if before.run is now.run else 'one'} of them."
    moved = largest_move(before.run.breakdown, now.run.breakdown)
    lost = now.run.breakdown.main_loss
    blind = now.run.breakdown.has_gap
    left = "" if blind else " Nothing avoidable is left."
    still = f" Still the largest loss: {lost.label}." if lost else left
    return f"{told} {moved}{still}"


def came_out(before: RecordingReport, now: RecordingReport) -> str | None:
    """Return what was predicted for the first change that was to make it faster, and where this run lies against it.

    None where no such change was proposed, or one of the two did not end well: a failure is no success.
    """
    if before.run is None or any(each.ended is None or each.ended.exit_code != 0 for each in (before, now)):
        return None
    said = next(filter(None, (predicted(advice, before) for advice in before.run.recommendations)), None)
    if said is None:
        return None
    took = now.microseconds // 1_000_000
    if took > said.p20:
        place = "came out slower than the range"
    elif took < said.p80:
        place = "came out faster than the range"
    else:
        place = "came out inside the range"
    return f"predicted then for {plain(said.title)}: {said.words}; {place}"
