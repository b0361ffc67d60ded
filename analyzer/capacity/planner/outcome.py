"""What a schedule comes to: the plan that people read, with slack, transfers and cost, and what it changes."""

from agent.wire.units import HOUR_SECONDS
from analyzer.capacity.planner.instance import Instance
from analyzer.capacity.planner.plan import Binding, Change, Placement, Plan, Solver, Transfer
from analyzer.capacity.planner.problem import MEDIA, Problem, Task
from analyzer.capacity.planner.schedule import Schedule, critical_chain, latest_starts


def plan_of(instance: Instance, schedule: Schedule, solver: Solver, bound: Binding | None = None) -> Plan:
    """Return the plan. Slack counts up to the deadline where the plan keeps it, else up to the plan's own end."""
    problem = instance.problem
    end = schedule.makespan(instance)
    horizon = end if problem.deadline_seconds is None else max(end, problem.deadline_seconds)
    latest = latest_starts(instance, schedule, horizon)
    placements = [
        Placement(task.name, problem.nodes[node].name, start, end, last)
        for task, node, start, end, last in zip(
            problem.tasks,
            schedule.nodes,
            schedule.starts,
            instance.ends(schedule.nodes, schedule.starts),
            latest,
            strict=True,
        )
    ]
    return Plan(
        solver=solver,
        placements=tuple(sorted(placements, key=lambda each: (each.start_seconds, each.task))),
        transfers=tuple(sorted(_transfers(instance, schedule), key=lambda each: (each.start_seconds, each.before))),
        bound=bound,
        critical=tuple(problem.tasks[task].name for task in critical_chain(instance, schedule)),
        cost_micros=cost_micros(instance, schedule),
    )


def _transfers(instance: Instance, schedule: Schedule) -> list[Transfer]:
    """Return what moves: an edge without bytes moves nothing."""
    tasks, nodes = instance.problem.tasks, instance.problem.nodes
    number = {task.name: at for at, task in enumerate(tasks)}
    found = []
    for after, task in enumerate(tasks):
        delays = dict(instance.before[after])
        for each in task.inputs:
            before = number[each.task]
            if each.bytes == 0:
                continue
            medium = instance.medium(schedule.nodes[before], schedule.nodes[after])
            ends = schedule.starts[before] + instance.seconds_on(before, schedule.nodes[before])
            source, target = nodes[schedule.nodes[before]].name, nodes[schedule.nodes[after]].name
            arrives = ends + delays[before][medium]
            found.append(Transfer(each.task, task.name, source, target, each.bytes, ends, arrives, MEDIA[medium]))
    return found


def cost_micros(instance: Instance, schedule: Schedule) -> int | None:
    """Return what the plan costs; None where a node that it uses has no price."""
    costs = [task_cost_micros(instance, task, node) for task, node in enumerate(schedule.nodes)]
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None


def task_cost_micros(instance: Instance, task: int, node: int) -> int | None:
    """Return what a task costs on a node: the node's price for as long as it runs, for the largest share that it takes.

    Half of the CPUs and one of eight GPUs is half of the node: nobody else can use it better. Rounded up.
    """
    price = instance.problem.nodes[node].price_micros_per_hour
    if price is None:
        return None
    seconds = instance.seconds_on(task, node)
    shares = zip(instance.needs[task], instance.has[node], strict=True)
    return max((-(-price * seconds * need // (HOUR_SECONDS * has)) for need, has in shares if need), default=0)


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
