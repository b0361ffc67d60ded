"""One finding as text: its plot, all that argues for and against it, and the way to say that it is wrong."""

from collections.abc import Mapping, Sequence

from analyzer.findings.argue import Argument, Plot, Signal
from analyzer.findings.finding import Finding, Sign
from analyzer.interfaces.text.finding_text import seen_lines, wrong_if_lines
from analyzer.period import Period, local
from analyzer.reports.findings import Explained, of_runs, whose_gpus
from analyzer.reports.recommendation_words import saves_words
from analyzer.text.layout import LEVELS, TextLayout, at_ends
from analyzer.text.table import TableColumn, paper_lines
from analyzer.text.words import counted, day, gpu_hours, money, plain, plain_sentence

_ROWS, _SIGNAL_ROWS = 5, 3
_LEAST = 6  # stretches; of fewer the table says more
_LEFT = 10  # columns of the scale
_FULL = 100.0


def plot_lines(plot: Plot | None, layout: TextLayout, period: Period, whose: str) -> list[str]:
    """Return the plot, which is of `whose` GPUs; nothing where too little is known to draw."""
    if plot is None or len(plot.times) < _LEAST:
        return []
    across = max(1, (layout.width - 2 - _LEFT) // len(plot.times))
    working, lost = ("#", ".") if layout.ascii else ("█", "░")
    found = [layout.cut(f"  {working} productive   {lost} {plot.label}   % of the GPUs of {whose}", layout.width - 2)]
    pairs = list(zip(plot.working, plot.lost, strict=True))
    found += _plotted(
        [
            (_scale(row, _ROWS, _FULL), "".join(_cell(own, gone, row, working, lost) * across for own, gone in pairs))
            for row in reversed(range(_ROWS))
        ],
        layout,
    )
    if plot.signal is not None:
        found += _signal(plot.signal, across, layout)
    return [*found, _axis(plot.times, across, period)]


def _plotted(rows: Sequence[tuple[str, str]], layout: TextLayout) -> list[str]:
    """Return the rows of a plot, each with its scale and its cells."""
    columns: tuple[TableColumn[tuple[str, str]], ...] = (
        TableColumn("", lambda row: row[0], width=_LEFT - 1),
        TableColumn("", lambda row: ("|" if layout.ascii else "│") + row[1]),
    )
    return paper_lines(columns, rows, indent="")


def _cell(working: float, lost: float, row: int, full: str, light: str) -> str:
    """Return the character of one cell: of what fills its middle."""
    middle = (row + 0.5) * _FULL / _ROWS
    return full if working >= middle else light if working + lost >= middle else " "


def _scale(row: int, rows: int, top: float) -> str:
    if row == rows - 1:
        return f"{top:.0f} " if top >= 10 else f"{top:.1f} "
    return "0 " if row == 0 else ""


def _signal(signal: Signal, across: int, layout: TextLayout) -> list[str]:
    known = [value for value in signal.values if value is not None]
    top = _FULL if signal.unit.startswith("%") and max(known) > _FULL / 3 else max(*known, signal.mark or 0.0, 0.001)
    mark = "" if signal.mark is None else f"; the rule's mark is {signal.mark:g}"
    found = ["", f"  {signal.name}, {signal.unit}{mark}"]
    rows = [
        (_scale(row, _SIGNAL_ROWS, top), "".join(_level(value, row, top, layout) * across for value in signal.values))
        for row in reversed(range(_SIGNAL_ROWS))
    ]
    return [*found, *_plotted(rows, layout)]


def _level(value: float | None, row: int, top: float, layout: TextLayout) -> str:
    if value is None:
        return " "
    part = min(1.0, value / top) * _SIGNAL_ROWS - row
    if part <= 0:
        return " "
    if layout.ascii:
        return "#" if part >= 0.5 else "."
    return LEVELS[min(len(LEVELS) - 1, int(part * len(LEVELS)))]


def _axis(times: Sequence[int], across: int, period: Period) -> str:
    end = min(period.end, 2 * times[-1] - times[-2])  # of the last stretch
    began, ended = local(times[0], period.timezone), local(end, period.timezone)
    left, right = f"{day(began)} {began:%H:%M}", f"{day(ended)} {ended:%H:%M}"
    return " " * _LEFT + at_ends(left, right, across * len(times))


_COLUMN, _HEAD = 14, 8
_WHAT, _SEEN = 25, 22
_RUNS_SHOWN = 6


def explain_data(explained: Explained) -> Mapping[str, object]:
    """Return it for --json: the finding as every document has it, what argues for it, and what answers it."""
    return {
        "finding": explained.finding,
        "argument": explained.argument,
        "recommendation_ids": [one.id for one in explained.advice],
    }


def explain_text(explained: Explained, layout: TextLayout) -> str:
    """Return the text."""
    finding, argument = explained.finding, explained.argument
    found = [*_head(explained, layout), "", *layout.wrap(plain_sentence(finding.sentence))]
    if seen := _seen(finding, argument, layout):
        found += ["", *seen]
    if explained.need:
        found += ["", *layout.labelled("NEEDS", explained.need, _COLUMN)]
    if argument is not None and argument.plot is not None:
        whose = whose_gpus(finding, argument.plot)
        lines = plot_lines(argument.plot, layout, explained.period, whose)
        found += ["", *lines] if lines else []
    found.append("")
    found += _listed("RULED OUT", explained.ruled_out, layout)
    found += _listed("APART", explained.apart, layout)
    found += _saves(explained, layout)
    found += wrong_if_lines(finding, layout)
    for label, words in (("FEEDBACK", explained.judged), ("MUTED", explained.muted)):
        found += layout.labelled(label, words, _COLUMN) if words else []
    ask = layout.labelled("is this right?", f"gpuledger findings judge {finding.id} right --because WHY", 18)
    ask += layout.labelled("", "(or wrong, or planned)", 18)
    following = f"gpuledger recommendations show {explained.advice[0].id}" if explained.advice else "gpuledger findings"
    return layout.page([*found, "", *ask, f"next: {following}"])


def _head(explained: Explained, layout: TextLayout) -> list[str]:
    finding = explained.finding
    found = _title(explained, layout)
    found += _field("owner", explained.actor, layout)
    found += _field("rule", explained.rule, layout)
    where = f" on {counted(len(finding.hosts), 'host')}" if finding.hosts else ""
    hours = f"{gpu_hours(finding.milliseconds)} GPU-hours{of_runs(finding)}{where}"
    found += _field("when", f"{explained.when}, {hours}", layout)
    if finding.life is not None and finding.life.reopened:
        first = day(local(finding.life.first_at, explained.timezone))
        found += _field("", f"first seen {first}, opened again {counted(finding.life.reopened, 'time')} since", layout)
    if explained.root:
        found += _field("root", explained.root, layout)
    return found + (_field("runs", _runs(finding), layout) if finding.run_ids else [])


def _title(explained: Explained, layout: TextLayout) -> list[str]:
    """Return what it is, and below what it wastes, how sure that is and whether it goes on."""
    finding = explained.finding
    waste = "not priced"
    if finding.at_stake_micros is not None:
        waste = money(finding.at_stake_micros, explained.currency)
    confidence = f"{finding.confidence}, no cost counted" if finding.suspicion else finding.confidence
    left = layout.cut(f"{finding.id}  {plain(finding.subject)}: {finding.what}", layout.width - 2)
    return [left, *_field("", f"estimated waste {waste} · confidence: {confidence} · {explained.state}", layout)]


def _field(label: str, words: str, layout: TextLayout) -> list[str]:
    return layout.labelled(label, words, _HEAD, indent=0)


def _runs(finding: Finding) -> str:
    """Return the runs as `gpuledger report run` takes them, those that lost most first."""
    if len(finding.run_ids) == 1:
        return plain(finding.run_ids[0])
    shown = ", ".join(plain(run_id.rpartition("/")[2]) for run_id in finding.run_ids[:_RUNS_SHOWN])
    more = len(finding.run_ids) - _RUNS_SHOWN
    return f"{shown} and {more:,} more: --json" if more > 0 else shown


def _seen(finding: Finding, argument: Argument | None, layout: TextLayout) -> list[str]:
    signs = argument.signs if argument else ()
    columns: tuple[TableColumn[Sign], ...] = (
        TableColumn("  SEEN", lambda sign: sign.what, width=_WHAT + 2, align="<", is_cut=True),
        TableColumn("", lambda sign: sign.seen, width=_SEEN, align="<", is_cut=True),
        TableColumn("HOLDS", lambda sign: {True: "yes", False: "no", None: None}[sign.holds], width=7, align="<"),
        TableColumn("NEEDED", lambda sign: sign.needed, align="<"),
    )
    found = paper_lines(columns, signs, wrap=layout) if signs else ["  SEEN"] if finding.evidence else []
    return found + seen_lines(finding, layout, _WHAT + 2)


def _listed(label: str, items: tuple[str, ...], layout: TextLayout) -> list[str]:
    """Return the items, each on a line of its own and what follows it indented below; the label before the first."""
    found = []
    for place, item in enumerate(items):
        first, *more = layout.labelled("" if place else label, item, _COLUMN)
        found += [first, *(f"  {line}" for line in more)]
    return found


def _saves(explained: Explained, layout: TextLayout) -> list[str]:
    found: list[str] = []
    for one in explained.advice:
        words = f"{saves_words(one, explained.currency)}: {plain(one.title)} ({one.id})"
        found += layout.labelled("" if found else "SAVES", words, _COLUMN)
    return found
