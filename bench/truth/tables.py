"""The tables of the campaign, printed and in the README, made from the raw tallies alone."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from analyzer.states import STATES
from bench.truth.scores import Scores, by_group, is_sub_second
from bench.truth.tally import Key, Tally, summed

MS_PER_HOUR = 3_600_000
WORST = 3  # of what is booked wrongly, shown of each kind of run
SHOWN = 0.02  # of its GPU time, at least

HEADINGS = (
    "runs",
    "starved: precision",
    "recall",
    "right cause",
    "idle precision: runs",
    "GPU time",
    "communication taken for input",
    "abstained",
    "dollars booked / true",
    "median run off by",
    "runs within 10%",
    "high findings right",
    "in state",
)


def score_table(tallies: Mapping[Key, Tally]) -> str:
    """Return the scores of all groups as Markdown."""
    rows = [(name, *_cells(scores)) for name, scores in by_group(tallies).items()]
    return markdown(("", *HEADINGS), rows)


def _cells(scores: Scores) -> list[str]:
    shares = (
        scores.precision,
        scores.recall,
        scores.right_cause,
        scores.idle_precision,
        scores.idle_precision_hours,
        scores.taken_for_input,
        scores.abstained,
        scores.dollars,
        scores.dollars_off,
        scores.dollars_within,
    )
    high = "–" if scores.high_right is None else f"{percent(scores.high_right)} of {scores.high:,}"
    return [f"{scores.runs:,}", *map(percent, shares), high, percent(scores.high_right_state)]


def percent(share: float | None) -> str:
    """Return a share as people read it; a dash where there is none."""
    return "–" if share is None else f"{100 * share:.1f}%"


def confusion_table(tallies: Iterable[Tally]) -> str:
    """Return the GPU-hours by true state (rows) and booked state (columns) as Markdown."""
    pairs = _pairs(tallies)
    columns = [state for state in STATES if any(booked == state for _, booked in pairs)]
    rows = []
    for state in STATES:
        row = {booked: ms for (true, booked), ms in pairs.items() if true == state}
        if row:
            hours = [f"{row.get(column, 0) / MS_PER_HOUR:,.0f}" for column in columns]
            rows.append((state, *hours, percent(row.get(state, 0) / sum(row.values()))))
    return markdown(("true, booked as", *columns, "right"), rows)


def cause_table(tallies: Iterable[Tally]) -> str:
    """Return the runs by true cause (rows) and booked cause (columns) as Markdown."""
    pairs = _split(summed(tallies).causes)
    columns = sorted({booked for _, booked in pairs})
    rows = []
    for true in sorted({true for true, _ in pairs}):
        row = [pairs[true, booked] for booked in columns]
        rows.append((true, *map(str, row), percent(pairs[true, true] / sum(row))))
    return markdown(("true, booked as", *columns, "right"), rows)


def archetype_table(tallies: Mapping[Key, Tally]) -> str:
    """Return for each kind of run how much of it is booked rightly, and the most of what is not, as Markdown.

    Apart for steps under a second. Right is state by state; beside it, with the cause as well.
    """
    rows = []
    for name in sorted({key[0] for key in tallies}):
        own = {key: tally for key, tally in tallies.items() if key[0] == name}
        slow = summed(tally for key, tally in own.items() if not is_sub_second(key))
        quick = summed(tally for key, tally in own.items() if is_sub_second(key))
        found = f"{slow.booked_starved} / {slow.starved}" if slow.starved or slow.booked_starved else ""
        cause = f"{slow.right_cause} / {slow.both_starved}" if slow.both_starved else ""
        under = _right(quick) if quick.runs else "–"
        in_cause = f"{slow.right_ms / slow.held_ms:.0%}" if slow.held_ms else "–"
        rows.append((name, f"{slow.runs + quick.runs}", found, cause, _right(slow), in_cause, under, _wrong(slow)))
    also = ("right", "in cause too", "under a second", "most wrong")
    headings = ("", "runs", "booked starved / are", "right cause / found", *also)
    return markdown(headings, rows)


def _right(tally: Tally) -> str:
    pairs = _pairs([tally])
    return f"{sum(ms for (true, booked), ms in pairs.items() if true == booked) / max(1, sum(pairs.values())):.0%}"


def _wrong(tally: Tally) -> str:
    pairs = _pairs([tally])
    total = sum(pairs.values())
    wrong = Counter({pair: ms for pair, ms in pairs.items() if pair[0] != pair[1]})
    shown = [(pair, ms / total) for pair, ms in wrong.most_common(WORST) if ms > SHOWN * total]
    return ", ".join(f"{true} as {booked} {share:.0%}" for (true, booked), share in shown)


def _pairs(tallies: Iterable[Tally]) -> Counter[tuple[str, str]]:
    return _split(summed(tallies).confusion)


def _split(counts: Counter[str]) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for pair, count in counts.items():
        true, _, booked = pair.partition(">")
        found[true, booked] += count
    return found


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of Markdown."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def printed(table: str) -> str:
    """Return a table of Markdown for a terminal: columns of one width, figures to the right."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    cells.pop(1)
    widths = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
    lines = []
    for first, *middle, last in cells:
        figures = [cell.rjust(width) for cell, width in zip(middle, widths[1:-1], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *figures, last]))
    return "\n".join(lines)
