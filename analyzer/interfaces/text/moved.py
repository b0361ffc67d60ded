"""Which loss changed most from one breakdown to another, in words."""

from analyzer.queries.ledger_query import Breakdown
from analyzer.text.words import nearest, percent


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
