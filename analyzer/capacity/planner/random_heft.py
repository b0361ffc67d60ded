"""HEFT with other priorities, again and again: first drawn around its ranks, then changed a little from the best.

The first tenth of the tries is randomised-priority HEFT. The rest is simulated annealing (Kirkpatrick, Gelatt and
Vecchi, 1983) on what HEFT is given: the order of the tasks, and nodes that single tasks are held to. After 3 s of
processor its plans of 50 tasks that fill their nodes were 5 % shorter than draws alone had them. The same seed and
number of tries give the same schedule, as long as the time does not run out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp
from random import Random

from analyzer.capacity.planner.heft import preferred, ranks
from analyzer.capacity.planner.instance import Instance
from analyzer.capacity.planner.lateness import length
from analyzer.capacity.planner.schedule import Schedule, by_priority, insert

_DRAWN = 0.1  # of the tries: orders drawn around HEFT's
_SPREAD = 0.3  # of a rank: how far it is drawn off
_HEAT = 0.003  # of the best length: by so much worse an order may be kept at first
_WITHIN = 0.2  # of all places: how far a task is moved in the order
_HELD = 0.2  # of all changes: a task is held to a node, or let go


@dataclass(frozen=True, slots=True)
class _State:
    order: list[int]
    held: dict[int, int]
    schedule: Schedule
    score: int


def random_heft(
    instance: Instance, first: Schedule, tries: int, seed: int = 0, is_over: Callable[[], bool] = lambda: False
) -> Schedule:
    """Return the shortest schedule that is found, `first` if none is shorter; tasks' own deadlines count before that.

    It ends after so many tries, or as soon as `is_over`, which is asked before each.
    """
    search = _Search(instance, Random(seed))  # noqa: S311 - a draw that can be repeated
    best = state = search.start(first)
    for number in range(tries):
        if is_over():
            break
        if number < tries * _DRAWN:
            tried = search.drawn()
            is_kept = tried.score <= state.score
        else:
            tried = search.changed(state)
            heat = 1 + _HEAT * best.score * (1 - number / tries)
            is_kept = tried.score <= state.score or search.random.random() < exp((state.score - tried.score) / heat)
        state = tried if is_kept else state
        best = min(best, tried, key=lambda each: length(instance, each.schedule))
    return best.schedule


class _Search:
    def __init__(self, instance: Instance, random: Random) -> None:
        self.instance, self.random = instance, random
        self._ranks, self._pick = ranks(instance), preferred(instance)

    def start(self, first: Schedule) -> _State:
        """Return the state that a schedule is: its tasks by their starts."""
        order = by_priority(self.instance, [-start for start in first.starts])
        return _State(order, {}, first, self._score(first))

    def drawn(self) -> _State:
        """Return the state of ranks that are each drawn off a little."""
        drawn = [rank * (1 + self.random.uniform(-_SPREAD, _SPREAD)) for rank in self._ranks]
        return self._state(by_priority(self.instance, drawn), {})

    def changed(self, state: _State) -> _State:
        """Return a state nearby: one to three tasks elsewhere in the order, or one held to another node or let go."""
        if self.random.random() >= _HELD:
            order = list(state.order)
            for _ in range(self.random.choice((1, 1, 2, 3))):
                self._shift(order)
            return self._state(order, state.held)
        task, held = self.random.randrange(len(state.order)), dict(state.held)
        if held.pop(task, None) is None:
            held[task] = self.random.choice(self._pick[task])
        return self._state(state.order, held)

    def _shift(self, order: list[int]) -> None:
        """Move a task in the order, after all that it waits for and before all that waits for it."""
        place = self.random.randrange(len(order))
        task = order.pop(place)
        reach = int(len(order) * _WITHIN) + 1
        low = max((order.index(source) + 1 for source, _ in self.instance.before[task]), default=0)
        high = min((order.index(target) for target, _ in self.instance.after[task]), default=len(order))
        order.insert(self.random.randint(max(low, place - reach), min(high, place + reach)), task)

    def _state(self, order: list[int], held: dict[int, int]) -> _State:
        pick: Sequence[Sequence[int]] = [[held[t]] if t in held else nodes for t, nodes in enumerate(self._pick)]
        schedule = insert(self.instance, order, pick)
        return _State(order, held, schedule, self._score(schedule))

    def _score(self, schedule: Schedule) -> int:
        """Return what is to be little: seconds that tasks are late by their own deadlines count like the plan's."""
        return sum(length(self.instance, schedule))
