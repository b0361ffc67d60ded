"""The Gantt chart as shapes: each row a strip that is stretched to the width there is, for phones too.

plan.html writes the strips as SVG; text stands beside them in HTML, for what is stretched could not be read.
"""

from dataclasses import dataclass

from analyzer.planning.axis import Axis, axis
from analyzer.planning.facts import PlanFacts, TaskFact
from analyzer.planning.words import SECOND_US
from analyzer.report.words import plain

WIDTH = 1000
STEPS_MOST = 6  # a label each, and on a phone there is room for no more
LEAST_WIDTH = 2.0  # of a run that is too short to be seen


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a strip of WIDTH."""

    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Strip:
    """One task: its inputs on their way, its run, and how much later it could end; None for nothing of it."""

    task: str
    node: str
    is_critical: bool
    told: str
    data: Piece | None
    run: Piece
    slack: Piece | None


@dataclass(frozen=True, slots=True)
class Chart:
    """All strips over one axis: `labels` begin the equal steps between `grid` lines; `deadline` is a place or None."""

    labels: tuple[str, ...]
    grid: tuple[float, ...]
    deadline: float | None
    strips: tuple[Strip, ...]
    width: int = WIDTH


def chart(facts: PlanFacts, told: list[str]) -> Chart:
    """Return the chart; `told` is what each task's strip says when it is pointed at."""
    drawn = axis(facts, STEPS_MOST)
    return Chart(
        tuple(tick.label for tick in drawn.ticks[:-1]),
        tuple(_x(drawn, tick.at) for tick in drawn.ticks[1:-1]),
        None if drawn.deadline_at is None else _x(drawn, drawn.deadline_at),
        tuple(_strip(fact, words, drawn) for fact, words in zip(facts.tasks, told, strict=True)),
    )


def _strip(fact: TaskFact, told: str, drawn: Axis) -> Strip:
    run = _piece(drawn, fact.start_at, fact.end_at)
    return Strip(
        plain(fact.task),
        plain(fact.node),
        fact.is_critical,
        told,
        _piece(drawn, fact.data_from_at, fact.data_until_at) if fact.data_from_at < fact.data_until_at else None,
        Piece(run.x, max(LEAST_WIDTH, run.width)),
        _piece(drawn, fact.end_at, fact.end_at + fact.slack_seconds * SECOND_US)
        if fact.slack_seconds and drawn.has_slack
        else None,
    )


def _piece(drawn: Axis, start: int, end: int) -> Piece:
    x = _x(drawn, start)
    return Piece(x, round(_x(drawn, end) - x, 1))


def _x(drawn: Axis, at: int) -> float:
    return round(WIDTH * drawn.place(at), 1)
