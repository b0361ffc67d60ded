"""The time axis of a Gantt chart: round moments of the site's clock, the same for terminal and page."""

from dataclasses import dataclass

from agent.wire.units import DAY_SECONDS, HOUR_SECONDS, MINUTE_SECONDS, MINUTE_US, SECOND_US
from analyzer.capacity.planner.facts import PlanFacts
from analyzer.period import local, midnight
from analyzer.text.words import day

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
