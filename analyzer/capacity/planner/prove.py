"""Ask CP-SAT for the shortest plan, and for the plan that keeps a deadline with the least change; where it is small.

The process is started before the problem is known, so that its libraries are loaded when heuristics have their hint.
The model is written as the text of a CpModelProto. A task has one start and one literal a node that it may run on, a
gang one of each node in each of its modes. A node's resource is one cumulative constraint over the optional intervals
there. An edge has two literals, "same node" and "same rack", each of which shortens its transfer.
"""

import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from time import monotonic
from typing import IO, Any

from agent import child
from analyzer.capacity.planner.instance import CROSS_RACK, LOCAL, RACK, STORAGE, Delays, Instance, heads_of, tails_of
from analyzer.capacity.planner.problem import RESOURCES
from analyzer.capacity.planner.schedule import Schedule, late_seconds, task_cost_micros

_HIGHEST = 2**62
Terms = dict[int, int]  # a variable and its coefficient


@dataclass(frozen=True, slots=True)
class Mode:
    """One form of a task in one set of nodes: `literal` says that it runs so, and `on` which nodes it takes."""

    literal: int
    form: int
    seconds: int
    on: dict[int, int]


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

    def exactly(self, terms: Terms, value: int) -> None:
        """Demand that a sum has a value."""
        self.constraint(f"linear {{ vars: {list(terms)} coeffs: {list(terms.values())} domain: [{value}, {value}] }}")

    def fixed(self, begin: int, end: int) -> int:
        """Add an interval that always is; return its number."""
        return self.constraint(
            f"interval {{ start {{ offset: {begin} }} size {{ offset: {end - begin} }} end {{ offset: {end} }} }}"
        )

    def any_of(self, literals: Sequence[int]) -> None:
        """Demand that one of the literals holds; the negation of v is -v - 1."""
        self.constraint(f"bool_or {{ literals: {list(literals)} }}")


class _CpModel:
    """A problem's model, with the variables that schedules are read from and objectives are made of.

    All is done by `horizon`, which must be no less than the hint's end.
    """

    def __init__(self, instance: Instance, hint: Schedule, horizon: int) -> None:
        self.instance, self.text = instance, Text()
        self._hint, self.horizon = hint, horizon
        self._tails = tails_of(instance)
        self.starts = [self._start(task, head) for task, head in enumerate(heads_of(instance))]
        self.modes: list[list[Mode]] = [[] for _ in self.starts]
        self.runs_on = [self._literals(task) for task in range(len(self.starts))]
        self._racks: list[dict[int, int]] = [{} for _ in self.starts]
        self._capacities()
        for task, waits in enumerate(instance.before):
            for source, delays in waits:
                self._edge(source, task, delays)
        self.makespan = self._makespan()

    def schedule(self, values: Sequence[int]) -> Schedule:
        """Return the schedule that a solution stands for."""
        places = []
        for there, modes in zip(self.runs_on, self.modes, strict=True):
            if modes:
                mode = next(mode for mode in modes if values[mode.literal])
                nodes = [node for node, literal in mode.on.items() if values[literal]]
                places.append(self.instance.place(mode.form, nodes))
            else:
                places.append(next(n for n, literal in there.items() if values[literal]))
        return Schedule(tuple(places), tuple(values[start] for start in self.starts))

    def _start(self, task: int, head: int) -> int:
        latest = self.horizon - self._tails[task] - self.instance.least_seconds[task]
        return self.text.variable(head, latest, self._hint.starts[task])

    def _literals(self, task: int) -> dict[int, int]:
        if not self.instance.is_plain[task]:
            self._add_modes(task)
            return {}
        choices = self.instance.choices[task]
        least = int(len(choices) == 1)
        literals = {node: self.text.variable(least, 1, int(self._hint.nodes[task] == node)) for node in choices}
        self.text.constraint(f"exactly_one {{ literals: {list(literals.values())} }}")
        for node, literal in literals.items():
            if self.instance.available[node] > self.instance.earliest[task]:
                self.text.at_least({self.starts[task]: 1, literal: -self.instance.available[node]}, 0)
        return literals

    def _add_modes(self, task: int) -> None:
        """Let a task run in one mode: in a rack, in a block, or across them, on as many nodes of it as it needs."""
        place, instance = self._hint.nodes[task], self.instance
        at, hinted, nodes = instance.form_of(task, place), set(instance.nodes_of(place)), instance.problem.nodes
        for number, form in enumerate(instance.forms[task]):
            for domain in form.domains:
                is_hint = (
                    form is at
                    and hinted <= set(domain)
                    and not any(self.text.hint[mode.literal] for mode in self.modes[task])
                )
                literal = self.text.variable(0, 1, int(is_hint))
                on = {node: self.text.variable(0, 1, int(is_hint and node in hinted)) for node in domain}
                self.text.exactly({**dict.fromkeys(on.values(), 1), literal: -form.hosts}, 0)
                across = sorted(domain, key=lambda node: (nodes[node].block or "", instance.rack[node], node))
                farthest = instance.place(number, [*across[: form.hosts - 1], across[-1]])
                self.modes[task].append(Mode(literal, number, instance.seconds_on(task, farthest), on))
                for node, there in on.items():
                    if instance.available[node] > instance.earliest[task]:
                        self.text.at_least({self.starts[task]: 1, there: -instance.available[node]}, 0)
        self.text.constraint(f"exactly_one {{ literals: {[mode.literal for mode in self.modes[task]]} }}")

    def longer(self, task: int) -> Terms:
        """Return by how much a task takes longer than at least where it runs, as terms that take it off a sum."""
        least = self.instance.least_seconds[task]
        if self.modes[task]:
            return {mode.literal: least - mode.seconds for mode in self.modes[task] if mode.seconds != least}
        more = {literal: least - self.instance.seconds_on(task, node) for node, literal in self.runs_on[task].items()}
        return {literal: seconds for literal, seconds in more.items() if seconds}

    def _capacities(self) -> None:
        for node, has in enumerate(self.instance.has):
            runs = [*self._runs_on(node)]
            for resource in range(len(RESOURCES)):
                needs = [(interval, take[resource]) for interval, take in runs if take[resource]]
                if sum(need for _, need in needs) > has[resource]:
                    self._cumulative(has[resource], needs)
            away = [self.text.fixed(begin, end) for begin, end in self.instance.away_of(node)]
            if away and runs:  # it carries any number of tasks, and none of them beside that
                self._cumulative(len(runs), [*((one, len(runs)) for one in away), *((one, 1) for one, _ in runs)])
        for name, count in self.instance.problem.licences:
            held = [
                (self._interval(self.starts[at], mode.literal, mode.seconds), dict(task.licences)[name])
                for at, task in enumerate(self.instance.problem.tasks)
                for mode in self.modes[at]
                if mode.seconds and dict(task.licences).get(name)
            ]
            if held:
                self._cumulative(count, held)

    def _runs_on(self, node: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield an interval of each task that may run on a node, in each of its modes, and what it takes."""
        for task, literals in enumerate(self.runs_on):
            if node in literals and (seconds := self.instance.seconds_on(task, node)):
                yield self._interval(self.starts[task], literals[node], seconds), self.instance.needs[task]
            for mode in self.modes[task]:
                if node in mode.on and mode.seconds:
                    needs = self.instance.forms[task][mode.form].needs
                    yield self._interval(self.starts[task], mode.on[node], mode.seconds), needs

    def _cumulative(self, capacity: int, needs: Sequence[tuple[int, int]]) -> None:
        demands = " ".join(f"demands {{ offset: {need} }}" for _, need in needs)
        numbers = [interval for interval, _ in needs]
        self.text.constraint(f"cumulative {{ capacity {{ offset: {capacity} }} intervals: {numbers} {demands} }}")

    def _interval(self, start_at: int, literal: int, seconds: int) -> int:
        start = f"vars: [{start_at}] coeffs: [1]"
        return self.text.constraint(
            f"enforcement_literal: [{literal}] interval {{ start {{ {start} }} "
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
        self.text.any_of([-together - 1, *ours.values()])  # a gang may be in no one place
        for place, literal in ours.items():
            self.text.any_of([-together - 1, -literal - 1, *([theirs[place]] if place in theirs else [])])
            if is_slower and place in theirs:
                self.text.any_of([together, -literal - 1, -theirs[place] - 1])
        return together

    def _nodes_of(self, task: int) -> dict[int, int]:
        """Return a literal a node that the task may run on alone."""
        alone: dict[int, list[int]] = {}
        for mode in self.modes[task]:
            if self.instance.forms[task][mode.form].hosts == 1:
                alone.setdefault(next(iter(mode.on)), []).append(mode.literal)
        return self.runs_on[task] or {node: self._one_of(literals) for node, literals in alone.items()}

    def _racks_of(self, task: int) -> dict[int, int]:
        """Return a literal a rack that the task may run in: its node's, where the rack has one for it."""
        if not self._racks[task]:
            nodes: dict[int, list[int]] = {}
            for node, literal in self.runs_on[task].items():
                nodes.setdefault(self.instance.rack[node], []).append(literal)
            for mode in self.modes[task]:
                racks = {self.instance.rack[node] for node in mode.on}
                if len(racks) == 1:
                    nodes.setdefault(racks.pop(), []).append(mode.literal)
            for rack, literals in nodes.items():
                self._racks[task][rack] = self._one_of(literals)
        return self._racks[task]

    def _one_of(self, literals: list[int]) -> int:
        """Return a literal that holds just where one of these does, of which at most one can."""
        if len(literals) == 1:
            return literals[0]
        either = self.text.variable(0, 1, int(any(self.text.hint[literal] for literal in literals)))
        self.text.constraint(f"exactly_one {{ literals: {[-either - 1, *literals]} }}")
        return either

    def _makespan(self) -> int:
        makespan = self.text.variable(0, self.horizon, self._hint.makespan(self.instance))
        for task, (start, tail) in enumerate(zip(self.starts, self._tails, strict=True)):
            least = self.instance.least_seconds[task] + tail
            self.text.at_least({makespan: 1, start: -1, **self.longer(task)}, least)
        return makespan


_GRACE_SECONDS = 2.0  # a solver looks at its clock between steps; after that it is killed


class SolverProcess:
    """One module that reads its one question, as JSON, first; lines of JSON come out, the last of which counts.

    The answer goes to a file: neither side waits for the other, and what was told before the end is not lost.
    """

    def __init__(self, module: str) -> None:
        self._until = monotonic()
        self._answer: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed with the answer)
        self._process = subprocess.Popen(  # noqa: S603 (our own modules)
            child.command(module),
            stdin=subprocess.PIPE,
            stdout=self._answer,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, question: dict[str, object], seconds: float) -> "SolverProcess":
        """Hand over the one question; the process has so long to answer it."""
        self._until = monotonic() + seconds + _GRACE_SECONDS
        with suppress(BrokenPipeError), self._input() as pipe:  # one that has died has found nothing
            json.dump(question, pipe)
        return self

    def is_done(self, wait_seconds: float = 0.0) -> bool:
        """Whether the process has ended, by now or within so many seconds."""
        try:
            self._process.wait(wait_seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def answer(self) -> dict[str, Any] | None:
        """Wait for the end, until the time is over; return the last whole line, None where there is none."""
        try:
            self._process.wait(max(0.0, self._until - monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answer.seek(0)
        lines = [line for line in self._answer.read().split("\n")[:-1] if line]
        self.stop()
        if not lines:
            return None
        told: dict[str, Any] = json.loads(lines[-1])
        return told

    def stop(self) -> None:
        """End the process, if it is still there, and forget what it said."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        with suppress(BrokenPipeError):
            self._input().close()
        self._answer.close()

    def _input(self) -> IO[str]:
        if self._process.stdin is None:
            raise RuntimeError("BUG: the solver was started without a pipe")
        return self._process.stdin


_LITERALS_MOST = 20_000  # tasks times the nodes that each fits: beyond, its presolve alone takes longer than the search
_WORKERS = 6  # with 4 some searches that prove are left out; on fewer cores they take turns
_Objective = list[list[int]]


def has_cp_sat() -> bool:
    """Whether ortools is installed; it is not imported."""
    return find_spec("ortools") is not None


def is_small(instance: Instance) -> bool:
    """Whether a model of it is worth a try, and says all: data of a gang is never slower within a rack than across."""
    gangs = [task for task, is_plain in enumerate(instance.is_plain) if not is_plain]
    literals = sum(len(domain) for task in gangs for form in instance.forms[task] for domain in form.domains)
    literals += sum(len(choices) for task, choices in enumerate(instance.choices) if instance.is_plain[task])
    delays = [each for task in gangs for _, each in (*instance.before[task], *instance.after[task])]
    is_whole = all(each[LOCAL] <= each[RACK] <= each[CROSS_RACK] for each in delays)
    return literals <= _LITERALS_MOST and is_whole


@dataclass(frozen=True, slots=True)
class Proof:
    """What CP-SAT said of one aim.

    `bound` is what no plan is shorter than (of an aim of makespan; None: it got to none). `is_proven`: the schedule is
    the best there is; `is_infeasible`: there is none.
    """

    schedule: Schedule | None
    bound: int | None
    is_proven: bool
    is_infeasible: bool


_NOTHING = Proof(None, None, is_proven=False, is_infeasible=False)


@dataclass(frozen=True, slots=True)
class Proofs:
    """The shortest plan, and the one that keeps the deadline and changes least; of each what was found."""

    shortest: Proof = _NOTHING
    kept: Proof = _NOTHING


class Prover:
    """One problem for CP-SAT. Made early, asked once, stopped always."""

    def __init__(self) -> None:
        self._process = SolverProcess("analyzer.capacity.planner.cp_sat")
        self._model: _CpModel | None = None

    def ask(self, instance: Instance, hint: Schedule, seconds: float, wants_kept: bool) -> None:
        """Hand over the problem with the best schedule so far. `wants_kept`: it has a deadline, and it may be kept."""
        deadline = instance.problem.deadline_seconds
        is_late = late_seconds(instance, hint) > 0
        ends = hint.makespan(instance)
        horizon = max(ends, deadline or 0) + (sum(instance.most_seconds) + _farthest(instance) if is_late else 0)
        model = self._model = _CpModel(instance, hint, horizon)
        makespan: _Objective = [[model.makespan], [1]]
        late = _late(model)
        limit = [] if is_late else [[*makespan, ends]]
        aims = [{"limits": limit, "objectives": [*late, makespan]}]
        if wants_kept and deadline is not None:
            limits = [[*makespan, deadline], *([*terms, 0] for terms in late)]
            aims.append({"limits": limits, "objectives": [*_moves(model), *_delay(model), *_cost(model), makespan]})
        self._process.ask(
            {
                "model": "\n".join(model.text.lines),
                "hint": model.text.hint,
                "aims": aims,
                "seconds": seconds,
                "workers": _WORKERS,
            },
            seconds,
        )

    def is_done(self, wait_seconds: float = 0.0) -> bool:
        """Whether the answer is there, at once or after so long at most."""
        return self._process.is_done(wait_seconds)

    def result(self) -> Proofs:
        """Wait for the answer, until its time is over; what dies or is killed has found what it told before."""
        told = self._process.answer()
        if told is None or self._model is None:
            return Proofs()
        return Proofs(*(self._proof(aim) for aim in told["aims"]))

    def stop(self) -> None:
        """End the process, if it is still there."""
        self._process.stop()

    def _proof(self, aim: dict[str, Any]) -> Proof:
        if self._model is None:
            raise RuntimeError("BUG: CP-SAT was not asked")
        values = aim["values"]
        schedule = None if values is None else self._model.schedule(values)
        return Proof(schedule, aim["bound"], aim["is_proven"], aim["is_infeasible"])


def _farthest(instance: Instance) -> int:
    """Return what all transfers take, each over its slowest medium."""
    return sum(max(delays) for waits in instance.before for _, delays in waits)


def _late(model: _CpModel) -> list[_Objective]:
    """Return how late tasks are by their own deadlines, where any has one."""
    late: Terms = {}
    for at, task in enumerate(model.instance.problem.tasks):
        if task.deadline_seconds is not None:
            in_time = task.deadline_seconds - model.instance.least_seconds[at]
            late[_over(model, model.starts[at], in_time, model.longer(at))] = 1
    return _objective(late)


def _moves(model: _CpModel) -> list[_Objective]:
    """Return how many tasks run elsewhere than planned, less a constant."""
    stays: Terms = {}
    number = model.instance.problem.node_number
    for task, there in zip(model.instance.problem.tasks, model.runs_on, strict=True):
        literal = there.get(number[task.planned.node]) if task.planned.node is not None else None
        if literal is not None:
            stays[literal] = -1
    return _objective(stays)


def _delay(model: _CpModel) -> list[_Objective]:
    """Return by how much tasks start later than planned, all together."""
    planned = [task.planned.start_seconds for task in model.instance.problem.tasks]
    over = {
        _over(model, start, at): 1 for start, at in zip(model.starts, planned, strict=True) if at is not None
    }  # fmt: skip
    return _objective(over)


def _cost(model: _CpModel) -> list[_Objective]:
    """Return what the plan costs, where every node that a task may take has a price."""
    costs: Terms = {}
    for task, there in enumerate(model.runs_on):
        alone = [(literal, node) for node, literal in there.items()]
        for mode in model.modes[task]:
            hosts = model.instance.forms[task][mode.form].hosts
            if hosts > 1 and any(model.instance.problem.nodes[node].price_micros_per_hour for node in mode.on):
                return []
            alone += [(mode.literal, model.instance.place(mode.form, [*mode.on][:1]))] if hosts == 1 else []
        for literal, place in alone:
            cost = task_cost_micros(model.instance, task, place)
            if cost is None:
                return []
            costs[literal] = cost
    return _objective(costs)


def _over(model: _CpModel, start: int, from_seconds: int, longer: Terms | None = None) -> int:
    """Return a variable that is at least how much a start is after a moment, and at least 0.

    With `longer` (of CpModel) it is at least how much that is with what the task takes longer where it runs.
    """
    more = longer or {}
    hint = model.text.hint[start] - from_seconds - sum(less * model.text.hint[at] for at, less in more.items())
    over = model.text.variable(0, model.horizon + abs(from_seconds), hint)
    model.text.at_least({over: 1, start: -1, **more}, -from_seconds)
    return over


def _objective(terms: Terms) -> list[_Objective]:
    return [[list(terms), list(terms.values())]] if terms else []
