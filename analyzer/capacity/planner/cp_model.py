"""The planning problem as a model of CP-SAT, written as the text of a CpModelProto.

A task has one start and one literal a node that it may run on. A node's resource is one cumulative constraint over the
optional intervals of the tasks that may run there. An edge has two literals, "same node" and "same rack", each of which
shortens its transfer: m² clauses an edge for all pairs of nodes were too many.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from analyzer.capacity.planner.bound import heads_of, tails_of
from analyzer.capacity.planner.instance import CROSS_RACK, LOCAL, RACK, STORAGE, Delays, Instance
from analyzer.capacity.planner.problem import RESOURCES
from analyzer.capacity.planner.schedule import Schedule

_HIGHEST = 2**62
Terms = dict[int, int]  # a variable and its coefficient


@dataclass
class Text:
    """A model as it is written: variables, constraints, and the value that each variable has in a known solution."""

    lines: list[str] = field(default_factory=list)
    hint: list[int] = field(default_factory=list)
    constraints: int = 0

    def variable(self, low: int, high: int, hint: int) -> int:
        """Add an integer variable."""
        self.lines.append(f"variables {{ domain: [{low}, {high}] }}")
        self.hint.append(min(max(hint, low), high))
        return len(self.hint) - 1

    def constraint(self, what: str) -> int:
        """Add a constraint; return its number."""
        self.lines.append(f"constraints {{ {what} }}")
        self.constraints += 1
        return self.constraints - 1

    def at_least(self, terms: Terms, low: int) -> None:
        """Demand that a sum is no less."""
        self.constraint(f"linear {{ vars: {list(terms)} coeffs: {list(terms.values())} domain: [{low}, {_HIGHEST}] }}")

    def any_of(self, literals: Sequence[int]) -> None:
        """Demand that one of the literals holds; the negation of v is -v - 1."""
        self.constraint(f"bool_or {{ literals: {list(literals)} }}")


class CpModel:
    """A problem's model, with the variables that schedules are read from and objectives are made of.

    All is done by `horizon`, which must be no less than the hint's end.
    """

    def __init__(self, instance: Instance, hint: Schedule, horizon: int) -> None:
        self.instance, self.text = instance, Text()
        self._hint, self.horizon = hint, horizon
        self._tails = tails_of(instance)
        self.starts = [self._start(task, head) for task, head in enumerate(heads_of(instance))]
        self.runs_on = [self._literals(task) for task in range(len(self.starts))]
        self._racks: list[dict[int, int]] = [{} for _ in self.starts]
        self._capacities()
        for task, waits in enumerate(instance.before):
            for source, delays in waits:
                self._edge(source, task, delays)
        self.makespan = self._makespan()

    def schedule(self, values: Sequence[int]) -> Schedule:
        """Return the schedule that a solution stands for."""
        nodes = tuple(next(n for n, literal in there.items() if values[literal]) for there in self.runs_on)
        return Schedule(nodes, tuple(values[start] for start in self.starts))

    def _start(self, task: int, head: int) -> int:
        latest = self.horizon - self._tails[task] - self.instance.least_seconds[task]
        return self.text.variable(head, latest, self._hint.starts[task])

    def _literals(self, task: int) -> dict[int, int]:
        choices = self.instance.choices[task]
        least = int(len(choices) == 1)
        literals = {node: self.text.variable(least, 1, int(self._hint.nodes[task] == node)) for node in choices}
        self.text.constraint(f"exactly_one {{ literals: {list(literals.values())} }}")
        for node, literal in literals.items():
            if self.instance.available[node] > self.instance.earliest[task]:
                self.text.at_least({self.starts[task]: 1, literal: -self.instance.available[node]}, 0)
        return literals

    def longer(self, task: int) -> Terms:
        """Return by how much a task takes longer than at least where it runs, as terms that take it off a sum."""
        least = self.instance.least_seconds[task]
        more = {literal: least - self.instance.seconds_on(task, node) for node, literal in self.runs_on[task].items()}
        return {literal: seconds for literal, seconds in more.items() if seconds}

    def _capacities(self) -> None:
        for node, has in enumerate(self.instance.has):
            there = [task for task, literals in enumerate(self.runs_on) if node in literals]
            tasks = [task for task in there if self.instance.seconds_on(task, node)]
            intervals = {task: self._interval(task, node) for task in tasks}
            for resource in range(len(RESOURCES)):
                needs = {task: self.instance.needs[task][resource] for task in tasks}
                if sum(needs.values()) > has[resource]:
                    taking = [task for task in tasks if needs[task]]
                    demands = " ".join(f"demands {{ offset: {needs[task]} }}" for task in taking)
                    numbers = [intervals[task] for task in taking]
                    self.text.constraint(
                        f"cumulative {{ capacity {{ offset: {has[resource]} }} intervals: {numbers} {demands} }}"
                    )

    def _interval(self, task: int, node: int) -> int:
        start, seconds = f"vars: [{self.starts[task]}] coeffs: [1]", self.instance.seconds_on(task, node)
        return self.text.constraint(
            f"enforcement_literal: [{self.runs_on[task][node]}] interval {{ start {{ {start} }} "
            f"size {{ offset: {seconds} }} end {{ {start} offset: {seconds} }} }}"
        )

    def _edge(self, source: int, target: int, delays: Delays) -> None:
        """Start the task after no sooner than its data arrives: the longest way, less what being near saves."""
        far = delays[STORAGE if self.instance.uses_storage else CROSS_RACK]
        near = far if self.instance.uses_storage else delays[RACK]
        terms = {self.starts[target]: 1, self.starts[source]: -1, **self.longer(source)}
        for saved, places in ((far - near, self._racks_of), (near - delays[LOCAL], self._nodes_of)):
            ours, theirs = (places(source), places(target)) if saved else ({}, {})
            if ours.keys() & theirs.keys():
                terms[self._together(ours, theirs, is_slower=saved < 0)] = saved
        self.text.at_least(terms, self.instance.least_seconds[source] + far)

    def _together(self, ours: dict[int, int], theirs: dict[int, int], is_slower: bool) -> int:
        """Return a literal that two tasks are in one place: only if so; where being near is slower, also if so."""
        hint = any(
            self.text.hint[ours[place]] and self.text.hint[theirs[place]] for place in ours.keys() & theirs.keys()
        )
        together = self.text.variable(0, 1, int(hint))
        for place, literal in ours.items():
            self.text.any_of([-together - 1, -literal - 1, *([theirs[place]] if place in theirs else [])])
            if is_slower and place in theirs:
                self.text.any_of([together, -literal - 1, -theirs[place] - 1])
        return together

    def _nodes_of(self, task: int) -> dict[int, int]:
        return self.runs_on[task]

    def _racks_of(self, task: int) -> dict[int, int]:
        """Return a literal a rack that the task may run in: its node's, where the rack has one for it."""
        if not self._racks[task]:
            nodes: dict[int, list[int]] = {}
            for node, literal in self.runs_on[task].items():
                nodes.setdefault(self.instance.rack[node], []).append(literal)
            for rack, literals in nodes.items():
                self._racks[task][rack] = literals[0] if len(literals) == 1 else self._one_of(literals)
        return self._racks[task]

    def _one_of(self, literals: list[int]) -> int:
        """Return a literal that holds just where one of these does, of which at most one can."""
        either = self.text.variable(0, 1, int(any(self.text.hint[literal] for literal in literals)))
        self.text.constraint(f"exactly_one {{ literals: {[-either - 1, *literals]} }}")
        return either

    def _makespan(self) -> int:
        makespan = self.text.variable(0, self.horizon, self._hint.makespan(self.instance))
        for task, (start, tail) in enumerate(zip(self.starts, self._tails, strict=True)):
            least = self.instance.least_seconds[task] + tail
            self.text.at_least({makespan: 1, start: -1, **self.longer(task)}, least)
        return makespan
