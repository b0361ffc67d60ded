"""By how much tasks miss their own deadlines: what every solver keeps low before it makes a plan short."""

from analyzer.capacity.planner.instance import Instance
from analyzer.capacity.planner.schedule import Schedule


def late_seconds(instance: Instance, schedule: Schedule) -> int:
    """Return by how many seconds tasks miss their own deadlines, all together."""
    return sum(
        max(0, end - task.deadline_seconds)
        for task, end in zip(instance.problem.tasks, instance.ends(schedule.nodes, schedule.starts), strict=True)
        if task.deadline_seconds is not None
    )


def length(instance: Instance, schedule: Schedule) -> tuple[int, int]:
    """Return what makes one schedule better than another: how late tasks are by their own deadlines, then its end."""
    return late_seconds(instance, schedule), schedule.makespan(instance)


def has_own_deadlines(instance: Instance) -> bool:
    """Whether any task has a deadline of its own."""
    return any(task.deadline_seconds is not None for task in instance.problem.tasks)
