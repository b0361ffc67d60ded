"""Plans for an assistant: solved, simulated and validated from a task file that it hands over as text.

Nothing of the ledger and no file is read: what a task file would look up there has to be said in it. What a model
proposes is believed in nothing: the validator counts it anew, and after three rounds the solver's plan stands.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from analyzer.assistant.plan_answers import (
    BrokenTold,
    ChangeTold,
    PlacementTold,
    PlanTold,
    Simulated,
    Solved,
    Validated,
)
from analyzer.assistant.rounds import ROUNDS, Rounds
from analyzer.assistant.untrusted import said, said_list, said_or_none, sentence
from analyzer.errors import LedgerError
from analyzer.planning.errors import ProblemError
from analyzer.planning.nearest import Nearest, nearest
from analyzer.planning.plan import Placement, Plan
from analyzer.planning.problem import Problem
from analyzer.planning.simulation.simulate import simulate
from analyzer.planning.solve import solve
from analyzer.planning.task_reading import read_tasks
from analyzer.planning.validator import Verdict, fingerprint, read_proposal, validate
from analyzer.report.words import plain_sentence

_LOG = logging.getLogger(__name__)
SOLVE_SECONDS = 5.0
NEAREST_SECONDS = 2.0
TASKS_MOST = 500  # of one file; more is for `gpuledger plan`
FILE_LETTERS = 256 * 1024
CHANGES_TOLD, BROKEN_TOLD, CHAIN_TOLD = 20, 20, 20
PLACEMENTS_LETTERS = 24_000  # of one plan; an answer has two at most
PLACEMENT_LETTERS = 150  # of one placement as JSON, without its names
LOGGED_LETTERS = 2000
DRAWS = 1000


class Planning:
    """The planning tools of one server: one question at a time, and the rounds of proposals counted."""

    def __init__(self, clock: Callable[[], int] = lambda: time.time_ns() // 1000) -> None:
        self._clock = clock
        self._rounds = Rounds()
        self._turn = threading.Lock()

    def solve(self, tasks: str) -> Solved:
        """Return the solver's answer.

        Raises:
            ProblemError: the task file cannot be read, or contradicts itself.
            LedgerError: somebody else's question is being answered for long.
        """
        with self._its_turn():
            problem = self._problem(tasks)
            answer = solve(problem, SOLVE_SECONDS)
            return Solved(
                problem=fingerprint(problem),
                verdict=answer.verdict,
                deadline_seconds=problem.deadline_seconds,
                earliest_seconds=answer.earliest_seconds,
                plan=_plan(answer.plan),
                compared={plan.solver: plan.makespan_seconds for plan in answer.compared},
                changes=[
                    _change(each.task, each.from_node, each.to_node, each.delay_seconds)
                    for each in answer.changes[:CHANGES_TOLD]
                ],
            )

    def simulate(self, tasks: str, proposal: str) -> Simulated:
        """Return when a plan ends: of a proposal that holds, or, where that is empty, of the solver's plan.

        Raises:
            ProblemError: the task file or the proposal cannot be read, or the proposal does not hold.
            LedgerError: somebody else's question is being answered for long.
        """
        with self._its_turn():
            problem = self._problem(tasks)
            plan = _holding(problem, proposal) if proposal else solve(problem, SOLVE_SECONDS).plan
            outlook = simulate(problem, plan, draws=DRAWS)
            return Simulated(
                problem=fingerprint(problem),
                plan=_plan(plan),
                p10_seconds=outlook.p10_seconds,
                p50_seconds=outlook.p50_seconds,
                p90_seconds=outlook.p90_seconds,
                on_time_ratio=outlook.on_time_ratio,
                draws=outlook.draws,
                tasks_without_spread=said_list(outlook.tasks_without_spread),
            )

    def validate(self, tasks: str, proposal: str, shown: str | None) -> Validated:
        """Return what the validator says, and the plan to follow where it does not hold.

        Raises:
            ProblemError: the task file or the proposal cannot be read.
            LedgerError: somebody else's question is being answered for long.
        """
        with self._its_turn():
            problem = self._problem(tasks)
            name = fingerprint(problem)
            found = nearest(problem, read_proposal(proposal), NEAREST_SECONDS)
            verdict = found.proposed
            round_ = self._rounds.count(shown, name, is_valid=verdict.is_valid)
            _log(name, round_, proposal, verdict)
            instead, source, holds = _instead(problem, found, round_)
            return Validated(
                problem=name,
                is_valid=verdict.is_valid,
                round=min(round_, ROUNDS),
                rounds_left=max(0, ROUNDS - round_),
                broken=[BrokenTold(rule=each.rule, says=sentence(each.text)) for each in verdict.broken[:BROKEN_TOLD]],
                broken_count=len(verdict.broken),
                corrected=[sentence(text) for text in verdict.corrected],
                savings_micros=verdict.savings_micros if verdict.is_valid else None,
                plan=None if verdict.plan is None else _plan(verdict.plan),
                instead=None if instead is None else _plan(instead),
                instead_is=source,
                instead_is_valid=holds,
                changes=_changes(found) if source == "nearest" else [],
            )

    def _problem(self, tasks: str) -> Problem:
        if len(tasks) > FILE_LETTERS:
            raise ProblemError(f"the task file has {len(tasks):,} letters; send at most {FILE_LETTERS:,}")
        file = read_tasks(tasks, self._clock())
        if file.nodes is None:
            raise ProblemError("nodes: inventory is not looked up here; write the nodes into the file (see topology)")
        if file.histories:
            raise ProblemError(f"durations are not looked up here; say that of {file.histories[0]!r} in the file")
        if len(file.tasks) > TASKS_MOST:
            raise ProblemError(f"the file has {len(file.tasks):,} tasks; more than {TASKS_MOST} are for gpuledger plan")
        return file.problem()

    def _its_turn(self) -> "_Turn":
        return _Turn(self._turn)


class _Turn:
    """One question at a time: solvers take all the processor that there is."""

    PATIENCE_SECONDS = 30.0

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        if not self._lock.acquire(timeout=self.PATIENCE_SECONDS):
            raise LedgerError("another plan is being made; come again in a moment")

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def _holding(problem: Problem, proposal: str) -> Plan:
    verdict = validate(problem, read_proposal(proposal))
    if verdict.plan is None or not verdict.is_valid:
        raise ProblemError(f"the proposal does not hold: {verdict.broken[0].text}; validate_plan names everything")
    return verdict.plan


def _instead(problem: Problem, found: Nearest, round_: int) -> tuple[Plan | None, str | None, bool | None]:
    """Return the plan to follow where a proposal does not hold, where that comes from, and whether it holds."""
    if found.proposed.is_valid:
        return None, None, None
    if round_ < ROUNDS and found.verdict.plan is not None:
        return found.verdict.plan, "nearest", found.verdict.is_valid
    answer = solve(problem, SOLVE_SECONDS)
    return answer.plan, "solver", answer.verdict in ("no_deadline", "on_time")


def _log(problem: str, round_: int, proposal: str, verdict: Verdict) -> None:
    """Log what was proposed and what was said of it: in one line, without control characters, and bounded."""
    reasons = "; ".join(f"{each.rule}: {each.text}" for each in verdict.broken) or "every rule is kept"
    told = plain_sentence(f"{proposal[:LOGGED_LETTERS]}")[: LOGGED_LETTERS // 2]
    why = plain_sentence(reasons[:LOGGED_LETTERS])[: LOGGED_LETTERS // 2]
    word = "valid" if verdict.is_valid else "not valid"
    _LOG.info("plan proposed for %s, round %d, %s: %s. Proposal: %s", problem, round_, word, why, told)


def _plan(plan: Plan) -> PlanTold:
    return PlanTold(
        solver=plan.solver,
        makespan_seconds=plan.makespan_seconds,
        cost_micros=plan.cost_micros,
        lower_bound_seconds=plan.lower_bound_seconds,
        is_optimal=plan.is_optimal,
        critical=[said(name) for name in plan.critical[:CHAIN_TOLD]],
        placements=[
            PlacementTold(
                task=said(each.task),
                node=said(each.node),
                start_seconds=each.start_seconds,
                end_seconds=each.end_seconds,
            )
            for each in _fitting(plan.placements)
        ],
        placement_count=len(plan.placements),
        transferred_bytes=sum(each.bytes for each in plan.transfers if each.from_node != each.to_node),
    )


def _fitting(placements: Sequence[Placement]) -> Sequence[Placement]:
    """Return the first placements, as many as fit into an answer: names may be short or long."""
    room = PLACEMENTS_LETTERS
    for number, each in enumerate(placements):
        room -= PLACEMENT_LETTERS + len(each.task) + len(each.node)
        if room < 0:
            return placements[:number]
    return placements


def _changes(found: Nearest) -> list[ChangeTold]:
    moved = [_change(each.task, each.from_node, each.to_node, 0, each.why) for each in found.moved]
    shifted = [_change(each.task, None, None, each.to_seconds - each.from_seconds, each.why) for each in found.shifted]
    return [*moved, *shifted][:CHANGES_TOLD]


def _change(task: str, source: str | None, target: str | None, seconds: int, why: str | None = None) -> ChangeTold:
    return ChangeTold(
        task=said(task),
        from_node=said_or_none(source),
        to_node=said_or_none(target),
        shift_seconds=seconds,
        why=None if why is None else sentence(why),
    )
