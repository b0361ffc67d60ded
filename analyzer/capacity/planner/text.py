"""A plan on a terminal, as JSON and as a page: the answer, the chart, transfers, the solvers, what is not modeled."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent.wire.units import DAY_SECONDS, HOUR_SECONDS, MINUTE_SECONDS, MINUTE_US, SECOND_US
from analyzer.capacity.planner.amounts import dated
from analyzer.capacity.planner.facts import PlanFacts, TaskFact, by_array
from analyzer.capacity.planner.problem import MEDIA, Medium
from analyzer.capacity.planner.tables import (
    MEDIUM_HEADS,
    NOT_APPLICABLE,
    ComparedRow,
    MovedRow,
    PlacedRow,
    change_rows,
    compared_rows,
    ledger_rows,
    moved_rows,
    placed_rows,
    sentence,
    unjudged_rows,
    why_words,
)
from analyzer.charts.figures import GanttRow, gantt
from analyzer.period import local, midnight
from analyzer.text.as_json import as_json, plain_data
from analyzer.text.layout import TextLayout
from analyzer.text.table import TableColumn, paper_lines
from analyzer.text.templating import environment
from analyzer.text.words import NO_BREAK, counted, day, plain

_STEPS = (
    *(count * MINUTE_SECONDS for count in (1, 2, 5, 10, 15, 30)),
    *(count * HOUR_SECONDS for count in (1, 2, 3, 4, 6, 8, 12)),
    *(count * DAY_SECONDS for count in (1, 2, 4, 7, 14, 28, 56, 112, 224)),
)
_UNITS = (MINUTE_SECONDS, HOUR_SECONDS, DAY_SECONDS)  # at a whole one of which an axis begins
_FAR_RATIO = 1.6  # a deadline beyond so much of the plan is told and not drawn: it would squeeze the plan


@dataclass(frozen=True, slots=True)
class Tick:
    """A moment of the axis, microseconds UTC, and what stands there."""

    at: int
    label: str


@dataclass(frozen=True, slots=True)
class Axis:
    """From the first tick to the last, in equal steps. `deadline_at` is None where there is none, or it is too far."""

    ticks: tuple[Tick, ...]
    deadline_at: int | None
    has_slack: bool = True  # slack counts up to the deadline: where that is not drawn, it would fill every row

    @property
    def start(self) -> int:
        """The first moment."""
        return self.ticks[0].at

    @property
    def end(self) -> int:
        """The last moment."""
        return self.ticks[-1].at

    def place(self, at: int) -> float:
        """Return where a moment lies, from 0 at the start to 1 at the end."""
        return min(1.0, max(0.0, (at - self.start) / (self.end - self.start)))


def axis(facts: PlanFacts, most: int) -> Axis:
    """Return an axis of at most so many steps that holds the plan, and its deadline where that is near."""
    start, end, deadline = facts.start_at, facts.end_at, facts.deadline_at
    near = deadline if deadline is not None and deadline - start <= _FAR_RATIO * (end - start) else None
    last = max(end, near or end, start + MINUTE_US)
    first_midnight = midnight(local(start, facts.timezone).date(), facts.timezone)
    for step in _STEPS:
        step_us = step * SECOND_US
        unit_us = max(unit for unit in _UNITS if unit <= step) * SECOND_US
        first = first_midnight + (start - first_midnight) // unit_us * unit_us
        count = -(-(last - first) // step_us)
        if count <= most or step == _STEPS[-1]:
            break
    ticks = tuple(
        Tick(first + number * step_us, _label(first + number * step_us, step, facts.timezone))
        for number in range(count + 1)
    )
    return Axis(ticks, near, near == deadline)


def _label(at: int, step: int, timezone: str) -> str:
    moment = local(at, timezone)
    if step >= DAY_SECONDS:
        return day(moment).split(" ", 1)[1]
    return f"{moment:%H:%M}"


TASKS_SHOWN, _MOVES_SHOWN = 40, 12
_TICK_CELLS = 8
_NEXT = "next: --format html --out plan.html draws it; --json has the exact seconds"
_NAME_CELLS, _NODE_CELLS, _LABEL_CELLS, _WAY_CELLS = 14, 11, 18, 8


@dataclass(frozen=True, slots=True)
class Marks:
    """What the chart is drawn with; the words of the legend say it too."""

    critical: str
    other: str
    data: str
    slack: str
    deadline: str


_PRETTY, _PLAIN = Marks("▓", "░", "─", "·", "┊"), Marks("#", "=", "-", ".", "!")


def plan_text(facts: PlanFacts, layout: TextLayout, top: int | None = None) -> str:
    """Return the plan for this paper; `top` bounds the tasks and the transfers that are listed."""
    drawn = by_array(facts)
    sections = [
        _head(facts, layout),
        layout.wrap(sentence(facts)),
        _chart(drawn, layout, top or TASKS_SHOWN),
        _labelled("CHANGES  from the current plan", change_rows(facts)[: top or TASKS_SHOWN], layout),
        _moved(drawn, layout, top or _MOVES_SHOWN),
        _compared(facts, layout),
        _labelled("FROM THE LEDGER", ledger_rows(facts), layout),
        _labelled("NOT MODELED", unjudged_rows(facts), layout),
    ]
    body = [line for section in sections if section for line in (*section, "")]
    return layout.page([*body, *layout.wrap(_NEXT, "", "      ")])


def _head(facts: PlanFacts, layout: TextLayout) -> list[str]:
    of = f"{counted(len(facts.tasks), 'task')}, {counted(facts.nodes, 'node')}"
    head = [
        f"{layout.cut(f'plan {plain(facts.title)}', layout.width - 6 - len(of))}   {of}",
        *layout.labelled("begins", _begins(facts), _LABEL_CELLS, 0),
    ]
    if facts.deadline_at is not None:
        head += layout.labelled("deadline", dated(facts.deadline_at, facts.timezone, facts.start_at), _LABEL_CELLS, 0)
    return head


def _begins(facts: PlanFacts) -> str:
    return f"{dated(facts.start_at, facts.timezone, None)}, {facts.timezone}"


def _labelled(title: str, rows: Sequence[tuple[str, str]], layout: TextLayout) -> list[str]:
    lines = [
        line
        for label, text in rows
        for line in layout.labelled(layout.cut(label, _LABEL_CELLS - 3), text, _LABEL_CELLS)
    ]
    return [title, *lines] if rows else []


_Placed = tuple[PlacedRow, TaskFact]


def _chart(facts: PlanFacts, layout: TextLayout, most: int) -> list[str]:
    shown = _shown(facts, most)
    rows = placed_rows(replace(facts, tasks=shown))
    moment_cells = 1 + max(len(cell) for row in rows for cell in (row.start, row.end))
    cells = layout.width - 4 - _NAME_CELLS - _NODE_CELLS - 2 * moment_cells - 2
    drawn = axis(facts, max(1, cells // _TICK_CELLS))
    marks = _PLAIN if layout.ascii else _PRETTY
    columns = (
        TableColumn[_Placed]("WHEN AND WHERE", lambda row: row[0].task, width=3 + _NAME_CELLS, align="<", is_cut=True),
        TableColumn[_Placed]("node", lambda row: row[0].node, width=_NODE_CELLS, align="<", is_cut=True),
        TableColumn[_Placed]("from", lambda row: row[0].start, width=moment_cells, align="<"),
        TableColumn[_Placed]("to", lambda row: row[0].end, width=moment_cells, align="<"),
        TableColumn[_Placed](_ticks(drawn, cells), lambda row: _bar(row[1], drawn, cells, marks), align="<", gap=1),
    )
    lines = paper_lines(columns, list(zip(rows, shown, strict=True)))
    if len(facts.tasks) > len(shown):
        lines.append(f"  and {counted(len(facts.tasks) - len(shown), 'more task')}")
    return [*lines, *layout.wrap(_legend(facts, drawn, marks))]


def _shown(facts: PlanFacts, most: int) -> tuple[TaskFact, ...]:
    """Return so many tasks at most, in their order: those that decide the end before those that start early."""
    by_weight = sorted(range(len(facts.tasks)), key=lambda place: (not facts.tasks[place].is_critical, place))
    return tuple(facts.tasks[place] for place in sorted(by_weight[:most]))


def _ticks(drawn: Axis, cells: int) -> str:
    line = ""
    for tick in drawn.ticks:
        column = round(drawn.place(tick.at) * cells)
        if column + len(tick.label) <= cells + 1 and (not line or len(line) < column):
            line += " " * (column - len(line)) + tick.label
    return line


def _bar(fact: TaskFact, drawn: Axis, cells: int, marks: Marks) -> str:
    """Return one task's row: its inputs on their way, its run of one cell at least, and how much later it could end."""
    row = [" "] * cells

    def column(at: int) -> int:
        return min(cells, int(drawn.place(at) * cells + 0.5))

    begin, end = min(column(fact.start_at), cells - 1), column(fact.end_at)
    end = max(end, begin + 1)
    for cell in range(column(fact.data_from_at), min(begin, column(fact.data_until_at))):
        row[cell] = marks.data
    slack = fact.slack_seconds or 0 if drawn.has_slack else 0
    for cell in range(end, column(fact.end_at + slack * SECOND_US)):
        row[cell] = marks.slack
    if drawn.deadline_at is not None:
        row[min(cells - 1, column(drawn.deadline_at))] = marks.deadline
    for cell in range(begin, end):
        row[cell] = marks.critical if fact.is_critical else marks.other
    return "".join(row)


def _legend(facts: PlanFacts, drawn: Axis, marks: Marks) -> str:
    parts = [f"{marks.critical} decides the end"]
    if not all(fact.is_critical for fact in facts.tasks):
        parts.append(f"{marks.other} does not")
    if any(fact.data_from_at < fact.data_until_at for fact in facts.tasks):
        parts.append(f"{marks.data} its data is on the way")
    if drawn.has_slack and any(fact.slack_seconds for fact in facts.tasks):
        parts.append(f"{marks.slack} slack")
    if drawn.deadline_at is not None:
        parts.append(f"{marks.deadline} deadline")
    return ", ".join(parts)


def _moved(facts: PlanFacts, layout: TextLayout, most: int) -> list[str]:
    rows = moved_rows(facts)
    if not rows:
        return []
    room = 35 + layout.extra
    tasks = min(room - _NODE_CELLS, max(_NAME_CELLS + 2, 1 + max(len(row.tasks) for row in rows)))
    columns = (
        TableColumn[MovedRow]("TRANSFERS", lambda row: row.tasks, width=2 + tasks, align="<", is_cut=True),
        TableColumn[MovedRow]("", lambda row: row.nodes, width=room - tasks, align="<", is_cut=True),
        TableColumn[MovedRow]("bytes", lambda row: row.bytes, width=8),
        *(_way_column(medium, place) for place, medium in enumerate(MEDIA)),
    )
    lines = paper_lines(columns, rows[:most])
    if len(rows) > most:
        lines.append(f"  and {counted(len(rows) - most, 'more transfer')}")
    return [*lines, *layout.wrap("* is the path that the plan takes; local is a copy on the node's own disk")]


def _way_column(medium: Medium, place: int) -> TableColumn[MovedRow]:
    return TableColumn(
        MEDIUM_HEADS[medium], lambda row: ("*" if place == row.taken else "") + row.ways[place], width=_WAY_CELLS
    )


def _compared(facts: PlanFacts, layout: TextLayout) -> list[str]:
    wide = layout.extra >= 0  # narrower paper has no room for what moves
    name = 20 + layout.extra + (0 if wide else 22)
    moves = (
        TableColumn[ComparedRow]("moves", lambda row: row.moves, width=6),
        TableColumn[ComparedRow]("bytes", lambda row: row.bytes, width=8),
        TableColumn[ComparedRow]("takes", lambda row: row.moving, width=8),
    )
    columns = (
        TableColumn[ComparedRow](
            "HOW PLANS COMPARE", lambda row: f"{'> ' if row.is_answer else '  '}{row.name}", width=name, align="<"
        ),
        TableColumn[ComparedRow]("finishes after", lambda row: row.makespan, width=18),
        TableColumn[ComparedRow]("above", lambda row: row.above, width=10),
        *(moves if wide else ()),
        TableColumn[ComparedRow]("cost", lambda row: row.cost, width=7, gap=1),
    )
    note = "> is the plan above" + (
        "; moves are transfers between nodes, and takes is their time together." if wide else "."
    )
    lines = paper_lines(columns, compared_rows(facts), indent="")
    return [*lines, *layout.wrap(f"{note} {why_words(facts) or ''}".strip())]


NAME = "plan"


def plan_json(facts: PlanFacts) -> str:
    """Return the plan as JSON: its sentence, and the figures behind it to the second."""
    return as_json(NAME, {"sentence": sentence(facts).replace(NO_BREAK, " "), **plain_data(facts)})


_TEMPLATE = "plan.html"
_STEPS_MOST = 6  # a label each, and on a phone there is room for no more


def plan_html(facts: PlanFacts) -> str:
    """Return the page."""
    return environment().get_template(_TEMPLATE).render(_view(facts))


def _view(facts: PlanFacts) -> dict[str, object]:
    """Return everything that the template prints, rounded and in words."""
    drawn = by_array(facts)
    rows = placed_rows(drawn)
    compared = compared_rows(facts)
    return {
        "title": f"Plan {plain(facts.title)}",
        "of": f"{counted(len(facts.tasks), 'task')}, {counted(facts.nodes, 'node')}",
        "begins": _begins(facts),
        "deadline": None if facts.deadline_at is None else dated(facts.deadline_at, facts.timezone, facts.start_at),
        "verdict": facts.verdict,
        "answer": sentence(facts),
        "figure": _figure(drawn, rows),
        "rows": rows,
        "changes": change_rows(facts),
        "moved": moved_rows(drawn),
        "media": [MEDIUM_HEADS[medium] for medium in MEDIA],
        "compared": compared,
        "has_cost": any(row.cost not in ("", NOT_APPLICABLE) for row in compared),
        "why": why_words(facts),
        "ledger": ledger_rows(facts),
        "unjudged": unjudged_rows(facts),
    }


def _figure(facts: PlanFacts, rows: Sequence[PlacedRow]) -> dict[str, object]:
    drawn = axis(facts, _STEPS_MOST)
    ticks = [(_seconds(drawn, tick.at), tick.label) for tick in drawn.ticks]
    told = (f"{row.task} on {row.node}, {row.start} to {row.end}" for row in rows)
    deadline = None if drawn.deadline_at is None else _seconds(drawn, drawn.deadline_at)
    return gantt([_row(fact, words, drawn) for fact, words in zip(facts.tasks, told, strict=True)], ticks, deadline)


def _row(fact: TaskFact, told: str, drawn: Axis) -> GanttRow:
    start, end = _seconds(drawn, fact.start_at), _seconds(drawn, fact.end_at)
    data = (_seconds(drawn, fact.data_from_at), _seconds(drawn, fact.data_until_at))
    slack = (end, end + fact.slack_seconds) if fact.slack_seconds else None
    return GanttRow(
        plain(f"{fact.task} {fact.node}"),
        told,
        fact.is_critical,
        data if data[0] < data[1] else None,
        (start, end),
        slack if drawn.has_slack else None,
    )


def _seconds(drawn: Axis, at: int) -> float:
    return (at - drawn.start) / SECOND_US
