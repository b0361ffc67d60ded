"""What a schedule changes of what was planned: which tasks move, which start later, and what that saves and costs."""

from analyzer.capacity.planner.answer import Change
from analyzer.capacity.planner.finished import cost_micros
from analyzer.capacity.planner.instance import Instance
from analyzer.capacity.planner.plan import Plan
from analyzer.capacity.planner.problem import Problem, Task
from analyzer.capacity.planner.schedule import Schedule


def change_key(instance: Instance, schedule: Schedule) -> tuple[int, int, int, int]:
    """Return what is to be little where a deadline is kept: moves, delay, cost where it is known, then the end."""
    moves, delay = 0, 0
    for task, node, start in zip(instance.problem.tasks, schedule.nodes, schedule.starts, strict=True):
        moves += _is_moved(task, instance.problem.nodes[node].name)
        delay += _delay_seconds(task, start)
    return moves, delay, cost_micros(instance, schedule) or 0, schedule.makespan(instance)


def changes(problem: Problem, plan: Plan) -> tuple[Change, ...]:
    """Return the tasks that run elsewhere than planned, then those that only start later, the longest delay first."""
    found = []
    for task in problem.tasks:
        placed = plan.by_task[task.name]
        moved, delay = _is_moved(task, placed.node), _delay_seconds(task, placed.start_seconds)
        if moved or delay:
            found.append(
                Change(
                    task=task.name,
                    from_node=task.planned.node if moved else None,
                    to_node=placed.node if moved else None,
                    delay_seconds=delay,
                    saved_seconds=_saved_seconds(problem, plan, task) if moved else 0,
                    slack_seconds=placed.slack_seconds,
                )
            )
    return tuple(sorted(found, key=lambda each: (each.to_node is None, -each.delay_seconds)))


def _is_moved(task: Task, node: str) -> bool:
    return task.planned.node is not None and task.planned.node != node


def _delay_seconds(task: Task, start: int) -> int:
    return 0 if task.planned.start_seconds is None else max(0, start - task.planned.start_seconds)


def _saved_seconds(problem: Problem, plan: Plan, task: Task) -> int:
    """Return by how much the transfers to and from a task are shorter than with all tasks where they were planned."""
    saved = 0
    for before, after, size in problem.edges():
        if task in (before, after):
            now = [problem.node_by_name[plan.by_task[each.name].node] for each in (before, after)]
            planned = [
                problem.node_by_name[each.planned.node or plan.by_task[each.name].node] for each in (before, after)
            ]
            saved += problem.transfer_seconds(size, *planned) - problem.transfer_seconds(size, *now)
    return max(0, saved)
