"""What each process spent between two passes, where children end and hand their counters to their parents."""

from collections.abc import Mapping
from dataclasses import dataclass

from agent.sources.processes.table import Stat

Counter = tuple[int, int]  # own, and taken over from the children that it waited for


@dataclass(frozen=True, slots=True)
class Changes:
    """Who came and who went between two complete passes over /proc."""

    born: frozenset[int]
    departed: Mapping[int, int]  # to the nearest ancestor that lives: whoever waited for it, waited last


def changes(before: Mapping[int, Stat], now: Mapping[int, Stat]) -> Changes:
    """Return the difference of two passes; a pid with another start is another process."""
    same = {pid for pid, stat in now.items() if pid in before and before[pid].started_ticks == stat.started_ticks}
    departed = {pid: _heir(pid, before, same) for pid in before if pid not in same}
    return Changes(frozenset(now.keys() - same), departed)


def _heir(pid: int, before: Mapping[int, Stat], living: set[int]) -> int:
    seen = {pid}
    while (parent := before[pid].parent) not in living and parent in before and parent not in seen:
        pid = parent
        seen.add(pid)
    return parent


def cpu_spent(before: Mapping[int, Counter], now: Mapping[int, Counter], change: Changes) -> dict[int, int | None]:
    """Return what each process of `now` spent, children included that came and went meanwhile.

    When a child is waited for, the kernel adds all it ever spent to its parent's counter. What it had spent by the
    last pass was told then, and is taken off here; a parent that ignores its children takes nothing over, and then
    nothing is below 0. A process that is older than the last pass but was not read then is unknown.
    """
    told: dict[int, int] = {}
    for pid, heir in change.departed.items():
        told[heir] = told.get(heir, 0) + sum(before.get(pid, (0, 0)))
    return {pid: _one(pid, before, counter, told.get(pid, 0), change) for pid, counter in now.items()}


def _one(pid: int, before: Mapping[int, Counter], now: Counter, told: int, change: Changes) -> int | None:
    if pid in change.born:
        return now[0] + now[1]
    if pid not in before:
        return None
    own, reaped = now[0] - before[pid][0], now[1] - before[pid][1]
    return max(0, own) + max(0, reaped - told)
