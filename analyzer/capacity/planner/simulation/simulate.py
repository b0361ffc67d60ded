"""Draw the tasks' durations many times, and see when the plan ends."""

from collections.abc import Mapping, Sequence
from math import ceil
from random import Random

from analyzer.capacity.planner.plan import Plan
from analyzer.capacity.planner.problem import Problem
from analyzer.capacity.planner.simulation.contention import contended_ends_of
from analyzer.capacity.planner.simulation.drawing import drawn_from, has_spread
from analyzer.capacity.planner.simulation.outlook import Outlook
from analyzer.capacity.planner.simulation.replay import ends_of, steps_of

_DRAWS = 1000
_DRAWS_MAX = 100_000


def simulate(
    problem: Problem,
    plan: Plan,
    draws: int = _DRAWS,
    seed: int = 0,
    *,
    is_contended: bool = False,
    samples: Mapping[str, Sequence[int]] | None = None,
) -> Outlook:
    """Return when the plan ends over so many draws; the same seed gives the same answer.

    Nodes and order are the plan's, nothing is solved again. `samples` are seconds of real runs by task, on GPUs of the
    kind that the plan has it on; they are drawn instead of the curve through P10, P50 and P90.
    """
    if not 0 < draws <= _DRAWS_MAX:
        raise ValueError(f"draw 1 to {_DRAWS_MAX:,} times, not {draws:,}")
    real = samples or {}
    steps = steps_of(problem, plan)
    draw = [drawn_from(step.duration, real.get(step.task.name, ())) for step in steps]
    durations = {step.task.name: step.duration for step in steps}
    random = Random(seed)  # noqa: S311 - no secret: repeatable is what is wanted
    replay = contended_ends_of if is_contended else ends_of
    finishes, on_time = [], 0
    for _ in range(draws):
        ends = replay(steps, [one(random) for one in draw])
        finishes.append(max(ends))
        on_time += all(
            step.deadline_seconds is None or end <= step.deadline_seconds for step, end in zip(steps, ends, strict=True)
        )
    finishes.sort()
    return Outlook(
        p10_seconds=_quantile(finishes, 0.1),
        p50_seconds=_quantile(finishes, 0.5),
        p90_seconds=_quantile(finishes, 0.9),
        on_time_ratio=on_time / draws if any(step.deadline_seconds is not None for step in steps) else None,
        draws=draws,
        tasks_without_spread=tuple(
            name for name in problem.task_by_name if not has_spread(durations[name], real.get(name, ()))
        ),
        is_contended=is_contended,
    )


def links_cost_seconds(problem: Problem, plan: Plan) -> int:
    """Return how much later the plan ends, with the planned durations, where transfers share their links."""
    steps = steps_of(problem, plan)
    seconds = [step.duration.p50_seconds for step in steps]
    return max(contended_ends_of(steps, seconds)) - max(ends_of(steps, seconds))


def _quantile(ascending: Sequence[int], share: float) -> int:
    """Return the least value that this share of all does not exceed."""
    return ascending[max(0, ceil(share * len(ascending)) - 1)]
