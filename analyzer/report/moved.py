"""Which loss changed most from one breakdown to another, in words."""

from analyzer.report.readings import Breakdown
from analyzer.report.rounding import nearest
from analyzer.report.words import percent


def largest_move(before: Breakdown, now: Breakdown) -> str:
    """Return which avoidable share of the time moved most, from what to what; empty where nothing was avoidable."""
    then, today = _shares(before), _shares(now)
    avoidable = {entry.label for entry in (*before.of("avoidable").entries, *now.of("avoidable").entries)}
    if not avoidable:
        return ""
    label = max(avoidable, key=lambda each: (abs(today.get(each, 0) - then.get(each, 0)), each))
    old, new = then.get(label, 0), today.get(label, 0)
    word = "fell" if new < old else "rose" if new > old else "stayed"
    return f"{label.capitalize()} {word} from {percent(old, 1000)} to {percent(new, 1000)}."


def _shares(breakdown: Breakdown) -> dict[str, int]:
    whole = max(1, breakdown.milliseconds)
    return {entry.label: nearest(entry.milliseconds * 1000, whole) for entry in breakdown.entries}
