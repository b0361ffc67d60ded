"""Make a plan that people can read of a solver's schedule: placements with slack, transfers, what binds, the cost."""

from agent.wire.units import HOUR_SECONDS
from analyzer.capacity.planner.instance import Instance
from analyzer.capacity.planner.plan import Binding, Placement, Plan, Solver, Transfer
from analyzer.capacity.planner.problem import MEDIA
from analyzer.capacity.planner.schedule import Schedule
from analyzer.capacity.planner.slack import critical_chain, latest_starts


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
