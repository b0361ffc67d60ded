"""One finding as text: its plot, all that argues for and against it, and the way to say that it is wrong."""

import textwrap
from collections.abc import Mapping, Sequence

from analyzer.findings.argue import Argument, Plot, Signal
from analyzer.findings.finding import Finding
from analyzer.findings.signs import Sign
from analyzer.period import local
from analyzer.reports.finding_view import Explained, of_runs, whose_gpus
from analyzer.reports.recommendation_words import saves_words
from analyzer.text.layout import LEVELS, TextLayout
from analyzer.text.words import counted, day, gpu_hours, money, plain, plain_sentence

_ROWS, _SIGNAL_ROWS = 5, 3
_LEAST = 6  # stretches; of fewer the table says more
_LEFT = 10  # columns of the scale
_FULL = 100.0


def plot_lines(plot: Plot | None, layout: TextLayout, timezone: str, whose: str) -> list[str]:
    """Return the plot, which is of `whose` GPUs; nothing where too little is known to draw."""
    if plot is None or len(plot.times) < _LEAST:
        return []
    across = max(1, (layout.width - 2 - _LEFT) // len(plot.times))
    working, lost = ("#", ".") if layout.ascii else ("█", "░")
    found = [layout.cut(f"  {working} productive   {lost} {plot.label}   % of the GPUs of {whose}", layout.width - 2)]
    for row in reversed(range(_ROWS)):
        cells = "".join(
            _cell(own, gone, row, working, lost) * across for own, gone in zip(plot.working, plot.lost, strict=True)
        )
        found.append(f"{_scale(row, _ROWS, _FULL):>{_LEFT - 1}}{_edge(layout)}{cells}")
    if plot.signal is not None:
        found += _signal(plot.signal, across, layout)
    return [*found, _axis(plot.times, across, timezone)]


def _edge(layout: TextLayout) -> str:
    return "|" if layout.ascii else "│"


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
    for row in reversed(range(_SIGNAL_ROWS)):
        cells = "".join(_level(value, row, top, layout) * across for value in signal.values)
        found.append(f"{_scale(row, _SIGNAL_ROWS, top):>{_LEFT - 1}}{_edge(layout)}{cells}")
    return found


def _level(value: float | None, row: int, top: float, layout: TextLayout) -> str:
    if value is None:
        return " "
    part = min(1.0, value / top) * _SIGNAL_ROWS - row
    if part <= 0:
        return " "
    if layout.ascii:
        return "#" if part >= 0.5 else "."
    return LEVELS[min(len(LEVELS) - 1, int(part * len(LEVELS)))]


def _axis(times: Sequence[int], across: int, timezone: str) -> str:
    began, ended = local(times[0], timezone), local(times[-1], timezone)
    left, right = f"{day(began)} {began:%H:%M}", f"{day(ended)} {ended:%H:%M}"
    return f"{'':<{_LEFT}}{left}{right:>{max(len(right) + 1, across * len(times) - len(left))}}"


_COLUMN, _HEAD = 14, 8
_WHAT, _SEEN, _SAID = 25, 22, 4
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
        lines = plot_lines(argument.plot, layout, explained.timezone, whose)
        found += ["", *lines] if lines else []
    found.append("")
    found += _listed("RULED OUT", explained.ruled_out, layout)
    found += _listed("APART", explained.apart, layout)
    found += _saves(explained, layout)
    found += layout.labelled("WRONG IF", plain_sentence(finding.wrong_if), _COLUMN)
    for label, words in (("JUDGED", explained.judged), ("MUTED", explained.muted)):
        found += layout.labelled(label, words, _COLUMN) if words else []
    ask = f"  is this right?  gpuledger findings judge {finding.id} right --because WHY"
    following = f"gpuledger recommendations show {explained.advice[0].id}" if explained.advice else "gpuledger findings"
    return layout.page([*found, "", ask, f"{'':18}(or wrong, or planned)", f"next: {following}"])


def _head(explained: Explained, layout: TextLayout) -> list[str]:
    finding = explained.finding
    found = _title(explained, layout)
    found += _field("rule", f"{explained.rule}   {explained.actor} can act", layout)
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
    """Return the first line; what does not fit beside the title stands under it."""
    finding = explained.finding
    at_stake = "$ unknown"
    if finding.at_stake_micros is not None:
        at_stake = money(finding.at_stake_micros, explained.currency)
    confidence = f"{finding.confidence}, claims nothing" if finding.suspicion else finding.confidence
    right = f"{at_stake}  {confidence}  {explained.state}"
    left = layout.cut(f"{finding.id}  {plain(finding.subject)}: {finding.what}", layout.width - 2)
    if len(left) + len(right) + 2 > layout.width - 2:
        return [left, f"{'':<{_HEAD}}{right}"]
    return [f"{left}{right:>{layout.width - 2 - len(left)}}"]


def _field(label: str, words: str, layout: TextLayout) -> list[str]:
    return layout.wrap(words, label.ljust(_HEAD), " " * _HEAD)


def _runs(finding: Finding) -> str:
    """Return the runs as `gpuledger report run` takes them, those that lost most first."""
    if len(finding.run_ids) == 1:
        return plain(finding.run_ids[0])
    shown = ", ".join(plain(run_id.rpartition("/")[2]) for run_id in finding.run_ids[:_RUNS_SHOWN])
    more = len(finding.run_ids) - _RUNS_SHOWN
    return f"{shown} and {more:,} more: --json" if more > 0 else shown


def _seen(finding: Finding, argument: Argument | None, layout: TextLayout) -> list[str]:
    marks = argument.signs if argument else ()
    found = []
    if marks:
        found.append(f"  {'SEEN':<{_WHAT + _SEEN}}NEEDED TO SAY SO")
        found += [line for sign in marks for line in _sign(sign, layout)]
    elif finding.evidence:
        found.append("  SEEN")
    for line in finding.evidence:
        seen, verdict = plain_sentence(line.seen), plain_sentence(line.verdict)
        left = f"  {layout.cut(line.what, _WHAT - 1):<{_WHAT}}"
        room = layout.width - 2 - len(left)
        if len(seen) + len(verdict) + 2 <= room:
            found.append(f"{left}{seen}{verdict:>{room - len(seen)}}")
        else:
            found += layout.wrap(f"{seen}  {verdict}".rstrip(), left, " " * len(left))
    return found


def _sign(sign: Sign, layout: TextLayout) -> list[str]:
    said = {True: "yes", False: "no", None: "-"}[sign.holds]
    left = f"  {layout.cut(sign.what, _WHAT - 1):<{_WHAT}}{layout.cut(sign.seen, _SEEN - 1):<{_SEEN}}"
    room = layout.width - 2 - len(left)
    first, *more = textwrap.wrap(sign.needed, room - _SAID) or [""]
    return [f"{left}{first}{said:>{room - len(first)}}", *(f"{'':<{len(left)}}{line}" for line in more)]


def _listed(label: str, items: tuple[str, ...], layout: TextLayout) -> list[str]:
    """Return the items one a line, the label before the first."""
    return [
        line
        for place, item in enumerate(items)
        for line in layout.wrap(item, f"  {'' if place else label}".ljust(_COLUMN), " " * (_COLUMN + 2))
    ]


def _saves(explained: Explained, layout: TextLayout) -> list[str]:
    found: list[str] = []
    for one in explained.advice:
        words = f"{saves_words(one, explained.currency)}: {plain(one.title)} ({one.id})"
        found += layout.labelled("" if found else "SAVES", words, _COLUMN)
    return found
