"""Plans for an assistant: solved, simulated and validated from a task file that it hands over as text.

No file is read, and of the ledger what a task file leaves to it: with the key of whoever asks. What a model proposes is
believed in nothing: the validator counts it anew, and after three rounds the solver's plan stands.
"""

import hashlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Final

from mcp.server.mcpserver import Context, MCPServer
from pydantic import Field

from analyzer.capacity.planner import task_file
from analyzer.capacity.planner.facts import unseen
from analyzer.capacity.planner.from_ledger import LookedUp, look_up
from analyzer.capacity.planner.ledger import Ledger
from analyzer.capacity.planner.nearest import Nearest, nearest
from analyzer.capacity.planner.plan import Change, Placement, Plan
from analyzer.capacity.planner.problem import Problem, ProblemError
from analyzer.capacity.planner.proposal import BYTES_MAX, fingerprint, read_proposal
from analyzer.capacity.planner.simulation import simulate
from analyzer.capacity.planner.solve import solve
from analyzer.capacity.planner.task_file import read_tasks
from analyzer.capacity.planner.validator import Verdict, validate
from analyzer.errors import LedgerError
from analyzer.interfaces.mcp.site import Site, SiteLedger
from analyzer.interfaces.mcp.untrusted import (
    LIST_MOST,
    READ_ONLY,
    Said,
    made_or_refusal,
    marked_text,
    marked_texts,
    shown_by,
)
from analyzer.reports.document import Model
from analyzer.text.words import plain_sentence


class PlacementTold(Model):
    """One task on one node, or a gang on all of `nodes`; seconds count from the plan's start."""

    task: Said
    node: Said = Field(description="The first of `nodes`.")
    nodes: list[Said]
    start_seconds: int
    end_seconds: int


class PlanTold(Model):
    """One plan, its figures counted by us."""

    solver: str = Field(description="Its source: olb, heft, random_heft, cp_sat, or the name given with the proposal.")
    makespan_seconds: int
    cost_micros: int | None = Field(description="Millionths of the prices' currency; null where a price is not known.")
    lower_bound_seconds: int | None = Field(description="Lower bound on the length of any plan.")
    is_optimal: bool = Field(description="Whether the plan is proven optimal.")
    critical: list[Said] = Field(description="The critical path; its first tasks.")
    placements: list[PlacementTold] = Field(description="By start; the first ones, `placement_count` is the total.")
    placement_count: int
    transferred_bytes: int = Field(description="Between nodes.")


class ChangeTold(Model):
    """One task that runs elsewhere or later than was planned or proposed, and why."""

    task: Said
    from_node: Said | None
    to_node: Said | None
    shift_seconds: int
    why: Said | None


class HistoryTold(Model):
    """How long the completed runs of one name, size and kind of GPU took; `unfinished` ones count in no figure."""

    name: Said
    gpus: int
    sku: Said | None = Field(description="The kind of GPU they ran on; null: none.")
    runs: int
    unfinished: int
    p10_seconds: int
    p50_seconds: int
    p90_seconds: int


class LeftOutTold(Model):
    """A node of the inventory that no task could have, and why."""

    node: Said
    why: Said


class UnseenTold(Model):
    """A task that no plan puts on nodes of a kind of GPU, because nobody knows how long it takes there.

    Say it in the task's duration, by kind. `sku` null: the file does not say the kind of these nodes.
    """

    task: Said
    sku: Said | None
    nodes: int


class LookedUpTold(Model):
    """What the ledger told where the task file left it to the ledger; empty where it left nothing."""

    histories: list[HistoryTold]
    left_out: list[LeftOutTold] = Field(description="The first ones; `left_out_count` is the total.")
    left_out_count: int
    unseen: list[UnseenTold] = Field(description="The first ones; `unseen_count` is the total.")
    unseen_count: int


class Solved(Model):
    """The solver's answer."""

    problem: str = Field(description="The problem's fingerprint: return it with a proposal for this task file.")
    looked_up: LookedUpTold
    verdict: str = Field(description="no_deadline, on_time, impossible (proven), or not_found (not proven).")
    deadline_seconds: int | None
    earliest_seconds: int = Field(description="Proven lower bound on the end of any plan.")
    plan: PlanTold
    compared: dict[str, int] = Field(description="Makespan by solver, in seconds.")
    changes: list[ChangeTold] = Field(description="Compared with the plan in the task file.")


class BrokenTold(Model):
    """One rule that the proposal breaks, with the figures and the way out."""

    rule: str
    says: Said


class Validated(Model):
    """What the validator says of a proposal; every figure is its own, none is the proposal's."""

    problem: str = Field(description="The problem's fingerprint.")
    looked_up: LookedUpTold
    is_valid: bool
    round: int = Field(
        description="The round of this proposal for this problem; after the third, the solver's plan is used."
    )
    rounds_left: int
    broken: list[BrokenTold] = Field(description="The first ones; `broken_count` is the total.")
    broken_count: int
    corrected: list[Said] = Field(description="Claimed figures that are wrong; the validator's replace them.")
    savings_micros: int | None = Field(
        description="Compared with the plan in the task file; null without one, or without a price."
    )
    plan: PlanTold | None = Field(description="The proposal in the validator's figures; null where it is not a plan.")
    instead: PlanTold | None = Field(description="For a proposal that is not valid: the plan to follow instead.")
    instead_is: str | None = Field(
        description="nearest: the proposal, corrected; solver: a new plan, after three rounds."
    )
    instead_is_valid: bool | None
    changes: list[ChangeTold] = Field(description="From the proposal to the nearest plan; the first ones.")


class Simulated(Model):
    """When a plan ends if durations vary as the task file says."""

    problem: str
    looked_up: LookedUpTold
    plan: PlanTold
    p10_seconds: int
    p50_seconds: int
    p90_seconds: int
    on_time_ratio: float | None = Field(description="The share of draws that meet every deadline; null without one.")
    draws: int
    tasks_without_spread: list[Said] = Field(
        description="Of tasks with the same duration in every draw: the spread is too narrow."
    )


_CHANGES_TOLD, _CHAIN_TOLD = 20, 20
_PLACEMENTS_LETTERS = 24_000  # of one plan; an answer has two at most
_PLACEMENT_LETTERS = 150  # of one placement as JSON, without its names


def _plan_told(plan: Plan) -> PlanTold:
    """Return a plan; of a long one the first placements."""
    return PlanTold.model_validate(
        {
            "solver": plan.solver,
            "makespan_seconds": plan.makespan_seconds,
            "cost_micros": plan.cost_micros,
            "lower_bound_seconds": plan.lower_bound_seconds,
            "is_optimal": plan.is_optimal,
            "critical": plan.critical[:_CHAIN_TOLD],
            "placements": _fitting(plan.placements),
            "placement_count": len(plan.placements),
            "transferred_bytes": sum(each.bytes for each in plan.transfers if each.from_node != each.to_node),
        }
    )


def _fitting(placements: Sequence[Placement]) -> Sequence[Placement]:
    """Return the first placements, as many as fit into an answer: names may be short or long."""
    room = _PLACEMENTS_LETTERS
    for number, each in enumerate(placements):
        room -= _PLACEMENT_LETTERS + len(each.task) + len(each.node) + sum(3 + len(node) for node in each.nodes)
        if room < 0:
            return placements[:number]
    return placements


def _changes_told(changes: Sequence[Change]) -> list[ChangeTold]:
    """Return what the solver's plan changes of what was planned."""
    return [_change(each.task, each.from_node, each.to_node, each.delay_seconds) for each in changes[:_CHANGES_TOLD]]


def _mendings_told(found: Nearest) -> list[ChangeTold]:
    """Return what the nearest plan changes of the one that was proposed."""
    moved = [_change(each.task, each.from_node, each.to_node, 0, each.why) for each in found.moved]
    shifted = [_change(each.task, None, None, each.to_seconds - each.from_seconds, each.why) for each in found.shifted]
    return [*moved, *shifted][:_CHANGES_TOLD]


def _change(task: str, source: str | None, target: str | None, seconds: int, why: str | None = None) -> ChangeTold:
    words = {"task": task, "from_node": source, "to_node": target, "why": why}
    return ChangeTold.model_validate({**words, "shift_seconds": seconds})


def _looked_up_told(looked: LookedUp, problem: Problem) -> LookedUpTold:
    """Return what the ledger told, and what it did not: tasks that are kept off kinds of GPU."""
    kept_off = [*unseen(problem)]
    return LookedUpTold.model_validate(
        {
            "histories": looked.histories,
            "left_out": looked.left_out[:LIST_MOST],
            "left_out_count": len(looked.left_out),
            "unseen": kept_off[:LIST_MOST],
            "unseen_count": len(kept_off),
        }
    )


ROUNDS: Final = 3
PROBLEMS_MAX: Final = 1024  # problems; whoever asks for more of them begins again with the oldest


class Rounds:
    """Counts the proposals that did not hold, by who asks and for which problem. What holds ends the count."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: OrderedDict[str, int] = OrderedDict()

    def count(self, shown: str | None, problem: str, *, is_valid: bool) -> int:
        """Return which round this proposal was, from 1; no more than one above ROUNDS is counted."""
        key = hashlib.sha256(f"{shown or ''}\n{problem}".encode()).hexdigest()  # a key is not kept as it is shown
        with self._lock:
            round_ = min(self._counts.pop(key, 0) + 1, ROUNDS + 1)
            if not is_valid:
                self._counts[key] = round_
            while len(self._counts) > PROBLEMS_MAX:
                self._counts.popitem(last=False)
        return round_


_LOG = logging.getLogger(__name__)
_SOLVE_SECONDS = 5.0
_NEAREST_SECONDS = 2.0
_PATIENCE_SECONDS = 30.0
_TASKS_MOST = 500  # of one file; more is for `gpuledger capacity plan`
NODES_MOST = 1000
HISTORIES_MOST = 20  # names, sizes and kinds of GPU; each is a question to the ledger
FILE_LETTERS = 256 * 1024
_BROKEN_TOLD = 20
_LOGGED_LETTERS = 2000


class Planning:
    """The planning tools of one server: one question at a time, and the rounds of proposals counted."""

    def __init__(self, clock: Callable[[], int] = lambda: time.time_ns() // 1000) -> None:
        self._clock = clock
        self._rounds = Rounds()
        self._turn = threading.Lock()

    def solve(self, tasks: str, ledger: Ledger) -> Solved:
        """Return the solver's answer.

        Raises:
            ProblemError: the task file cannot be read, or contradicts itself.
            LedgerError: the ledger does not know what the file leaves to it, or does not tell who asks; or another plan
                takes long.
        """
        looked = self._looked_up(tasks, ledger)
        with self._its_turn():
            problem = looked.file.problem()
            answer = solve(problem, _SOLVE_SECONDS)
            return Solved(
                problem=fingerprint(problem),
                looked_up=_looked_up_told(looked, problem),
                verdict=answer.verdict,
                deadline_seconds=problem.deadline_seconds,
                earliest_seconds=answer.earliest_seconds,
                plan=_plan_told(answer.plan),
                compared={plan.solver: plan.makespan_seconds for plan in answer.compared},
                changes=_changes_told(answer.changes),
            )

    def simulate(self, tasks: str, ledger: Ledger, proposal: str) -> Simulated:
        """Return when a plan ends: of a proposal that holds, or, where that is empty, of the solver's plan.

        Raises:
            ProblemError: the task file or the proposal cannot be read, or the proposal does not hold.
            LedgerError: the ledger does not know what the file leaves to it, or does not tell who asks; or another plan
                takes long.
        """
        looked = self._looked_up(tasks, ledger)
        with self._its_turn():
            problem = looked.file.problem()
            plan = _holding(problem, proposal) if proposal else solve(problem, _SOLVE_SECONDS).plan
            outlook = simulate(problem, plan, samples=looked.samples(problem, plan))
            return Simulated(
                problem=fingerprint(problem),
                looked_up=_looked_up_told(looked, problem),
                plan=_plan_told(plan),
                p10_seconds=outlook.p10_seconds,
                p50_seconds=outlook.p50_seconds,
                p90_seconds=outlook.p90_seconds,
                on_time_ratio=outlook.on_time_ratio,
                draws=outlook.draws,
                tasks_without_spread=marked_texts(outlook.tasks_without_spread),
            )

    def validate(self, tasks: str, ledger: Ledger, proposal: str, shown: str | None) -> Validated:
        """Return what the validator says, and the plan to follow where it does not hold.

        Raises:
            ProblemError: the task file or the proposal cannot be read.
            LedgerError: the ledger does not know what the file leaves to it, or does not tell who asks; or another plan
                takes long.
        """
        looked = self._looked_up(tasks, ledger)
        with self._its_turn():
            problem = looked.file.problem()
            name = fingerprint(problem)
            found = nearest(problem, read_proposal(proposal), _NEAREST_SECONDS)
            verdict = found.proposed
            round_ = self._rounds.count(shown, name, is_valid=verdict.is_valid)
            _log(name, round_, proposal, verdict)
            instead, source, holds = _instead(problem, found, round_)
            return Validated(
                problem=name,
                looked_up=_looked_up_told(looked, problem),
                is_valid=verdict.is_valid,
                round=min(round_, ROUNDS),
                rounds_left=max(0, ROUNDS - round_),
                broken=[
                    BrokenTold(rule=each.rule, says=marked_text(each.text)) for each in verdict.broken[:_BROKEN_TOLD]
                ],
                broken_count=len(verdict.broken),
                corrected=[marked_text(text) for text in verdict.corrected],
                savings_micros=verdict.savings_micros if verdict.is_valid else None,
                plan=None if verdict.plan is None else _plan_told(verdict.plan),
                instead=None if instead is None else _plan_told(instead),
                instead_is=source,
                instead_is_valid=holds,
                changes=_mendings_told(found) if source == "nearest" else [],
            )

    def _looked_up(self, tasks: str, ledger: Ledger) -> LookedUp:
        if len(tasks) > FILE_LETTERS:
            raise ProblemError(f"the task file has {len(tasks):,} characters; the maximum is {FILE_LETTERS:,}")
        file = read_tasks(tasks, self._clock())
        if len(file.tasks) > _TASKS_MOST:
            raise ProblemError(
                f"the file has {len(file.tasks):,} tasks; for more than {_TASKS_MOST} use gpuledger capacity plan"
            )
        asked = {(task.history, task.gpus) for task in file.tasks if task.history is not None and task.duration is None}
        questions = len(asked) * max(1, len({node.sku for node in file.nodes or ()}))
        if questions > HISTORIES_MOST:
            raise ProblemError(
                f"the file asks for {questions} histories; for more than {HISTORIES_MOST} use gpuledger capacity plan"
            )
        looked = look_up(ledger, file)
        nodes = len(looked.file.nodes or ())
        if nodes > NODES_MOST:
            raise ProblemError(
                f"there are {nodes:,} nodes; for more than {NODES_MOST:,} use gpuledger capacity plan, or name groups:"
                " nodes: {inventory: [GROUP]}"
            )
        return looked

    @contextmanager
    def _its_turn(self) -> Iterator[None]:
        """Wait for one's turn: solvers take all the processor that there is."""
        if not self._turn.acquire(timeout=_PATIENCE_SECONDS):
            raise LedgerError("another plan is being computed; retry in a few seconds")
        try:
            yield
        finally:
            self._turn.release()


def _holding(problem: Problem, proposal: str) -> Plan:
    verdict = validate(problem, read_proposal(proposal))
    if verdict.plan is None or not verdict.is_valid:
        raise ProblemError(f"the proposal is not valid: {verdict.broken[0].text}; validate_plan lists every violation")
    return verdict.plan


def _instead(problem: Problem, found: Nearest, round_: int) -> tuple[Plan | None, str | None, bool | None]:
    """Return the plan to follow where a proposal does not hold, where that comes from, and whether it holds."""
    if found.proposed.is_valid:
        return None, None, None
    if round_ < ROUNDS and found.verdict.plan is not None:
        return found.verdict.plan, "nearest", found.verdict.is_valid
    answer = solve(problem, _SOLVE_SECONDS)
    return answer.plan, "solver", answer.verdict in ("no_deadline", "on_time")


def _log(problem: str, round_: int, proposal: str, verdict: Verdict) -> None:
    """Log what was proposed and what was said of it: in one line, without control characters, and bounded."""
    reasons = "; ".join(f"{each.rule}: {each.text}" for each in verdict.broken) or "every rule is met"
    told = plain_sentence(f"{proposal[:_LOGGED_LETTERS]}")[: _LOGGED_LETTERS // 2]
    why = plain_sentence(reasons[:_LOGGED_LETTERS])[: _LOGGED_LETTERS // 2]
    word = "valid" if verdict.is_valid else "not valid"
    _LOG.info("plan proposed for %s, round %d, %s: %s. Proposal: %s", problem, round_, word, why, told)


_FORMAT: Final = (
    "A task file as text, not as a path. What it leaves to the ledger (inventory, history) is looked up with "
    "the access of your key: a team's key reads the history of its own runs, and no inventory.\n\n"
    f"{task_file.__doc__}"
)
_Tasks = Annotated[str, Field(min_length=1, max_length=FILE_LETTERS, description=_FORMAT)]
_SameTasks = Annotated[
    str, Field(min_length=1, max_length=FILE_LETTERS, description="A task file as text, as solve_plan describes it.")
]
_PROPOSAL: Final = (
    'JSON: {"placements": [{"task": "a", "node": "n1", "start_seconds": 0}], "problem": FINGERPRINT, '
    '"makespan_seconds": 1, "cost_usd": 1.0, "savings_usd": 1.0}; all but placements may be left out. Seconds count '
    "from the plan's start."
)
# A text, never "or none": of such a one the library would make a dict before we could read it strictly.
Proposal = Annotated[str, Field(max_length=BYTES_MAX, description=_PROPOSAL)]


def add_planning(server: MCPServer[Any], planning: Planning, site: Site) -> None:
    """Add the tools to a server. Each is called on a thread of its own, for it is no coroutine."""

    def ledger(context: Context[Any, Any]) -> SiteLedger:
        return SiteLedger(site, shown_by(context))

    @server.tool(annotations=READ_ONLY)
    def solve_plan(context: Context[Any, Any], tasks: _Tasks) -> Solved:
        """The best plan that is found for a task file, whether it keeps the deadline, and what no plan can beat."""
        return made_or_refusal(lambda: planning.solve(tasks, ledger(context)))

    @server.tool(annotations=READ_ONLY)
    def validate_plan(context: Context[Any, Any], tasks: _SameTasks, proposal: Proposal) -> Validated:
        """Check a proposed plan: every broken rule, our own makespan, cost and savings, and the nearest valid plan.

        After three proposals for one problem that do not hold, the solver's plan is the answer.
        """
        return made_or_refusal(lambda: planning.validate(tasks, ledger(context), proposal, shown_by(context)))

    @server.tool(annotations=READ_ONLY)
    def simulate_plan(context: Context[Any, Any], tasks: _SameTasks, proposal: Proposal = "") -> Simulated:
        """When a plan ends if durations vary as the task file says: of a proposal that holds, or of the solver's."""
        return made_or_refusal(lambda: planning.simulate(tasks, ledger(context), proposal))
