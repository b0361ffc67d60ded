"""Whether any plan is ever invalid: python -m bench.bench_plans [--problems 10000].

Each problem is solved as `gpuledger capacity plan` solves it; every solver's plan is then checked by the validator,
which shares no code with the solvers. Of tiny problems all plans are tried, and the best is held to what was found
and proven. Problems that nobody can solve must be told so. One change is made to each plan, and what is nearest to it
mended.

What was done is kept every few problems, and the next call goes on there, unless the code has changed since.
"""

import argparse
import json
import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

from analyzer.capacity.planner import cp_sat
from analyzer.capacity.planner.nearest import nearest
from analyzer.capacity.planner.plan import Plan, PlanAnswer
from analyzer.capacity.planner.problem import Problem, ProblemError
from analyzer.capacity.planner.proposal import Broken, Placed, Proposal
from analyzer.capacity.planner.simulation import Replay
from analyzer.capacity.planner.solve import solve
from analyzer.capacity.planner.validator import validate
from bench.machine import add_record, cpu_seconds, keep, kept, machine, told
from bench.plans.brute import length, makespan, puts, replayed, shortest
from bench.plans.problems import TINY, Size, generated, impossible, of_everything, of_kinds
from bench.plans.proposed import proposal_of

CODE = ("analyzer.capacity.planner", "bench.plans")
KEEP_EVERY = 25
TINY_EVERY, IMPOSSIBLE_EVERY = 5, 20  # of the seeds; the others are of any size
SOLVE_SECONDS = 0.5
WRONG_KEPT = 20


@dataclass
class Tally:
    """What was counted, what should hold how often, how often it did not, and a sentence for the first of those."""

    next_seed: int
    cpu_seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    held: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def hold(self, what: str, seed: int, said: object) -> None:
        """Count one thing that should hold; `said` is what is wrong with it, nothing where it does."""
        self.held[what] += 1
        if said:
            self.failed[what] += 1
            self.wrong = [*self.wrong, f"seed {seed}, {what}: {said}"][:WRONG_KEPT]


def main() -> int:
    """Go on until so many problems are done; print and keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=10_000, help="how many there are to be in all")
    parser.add_argument("--seed", type=int, default=1, help="the first one's seed; another starts anew")
    parser.add_argument("--seconds", type=float, default=SOLVE_SECONDS, help="the solvers' time for each problem")
    add_record(parser)
    asked = parser.parse_args()
    made_by = {"code": _code(), "first_seed": asked.seed, "seconds": asked.seconds}
    tally = _so_far(made_by, record=asked.record) or Tally(asked.seed)
    began = cpu_seconds()
    while tally.counts["problems"] < asked.problems:
        _one(tally, tally.next_seed, asked.seconds)
        tally.next_seed += 1
        if tally.counts["problems"] % KEEP_EVERY == 0 or tally.counts["problems"] >= asked.problems:
            tally.cpu_seconds += cpu_seconds() - began
            began = cpu_seconds()
            _keep(made_by, tally, record=asked.record)
            print(f"{tally.counts['problems']:,} problems, {tally.cpu_seconds:,.0f} s of processor", flush=True)
    print(json.dumps(dict(sorted(tally.counts.items())), indent=1), *tally.wrong, sep="\n")
    return told({f"{what}, {times:,} times": not tally.failed[what] for what, times in sorted(tally.held.items())})


def _one(tally: Tally, seed: int, seconds: float) -> None:
    tally.counts["problems"] += 1
    if seed % IMPOSSIBLE_EVERY == 0:
        _impossible(tally, seed, seconds)
        return
    is_tiny = seed % TINY_EVERY == 0
    made = (generated, of_kinds, of_everything)[seed % 3]
    problem = made(seed, TINY) if is_tiny else made(seed, Size())
    answer = solve(problem, seconds)
    tally.counts[f"verdict {answer.verdict}"] += 1
    tally.counts["proven optimal"] += answer.plan.is_optimal
    _check(tally, seed, answer)
    if is_tiny:
        _enumerate(tally, seed, answer)
    _mend(tally, seed, answer)


def _check(tally: Tally, seed: int, answer: PlanAnswer) -> None:
    """Hold each solver's plan to the rules, its figures to ours, the verdict to the plan, and the bound to all."""
    problem = answer.problem
    for plan in (answer.plan, *answer.compared):
        verdict = validate(problem, proposal_of(plan))
        tally.counts[f"plans of {plan.solver}"] += 1
        tally.hold("plan is valid", seed, _not_deadline(verdict.broken))
        tally.hold("figures are right", seed, verdict.corrected)
        tally.hold("transfers are right", seed, verdict.plan and set(verdict.plan.transfers) ^ set(plan.transfers))
        tally.hold("bound is no higher", seed, plan.makespan_seconds < answer.earliest_seconds and plan.solver)
    keeps = validate(problem, proposal_of(answer.plan)).is_valid
    right = {"no_deadline": True, "on_time": keeps, "impossible": not keeps, "not_found": not keeps}[answer.verdict]
    tally.hold(
        "verdict is right", seed, None if right else f"{answer.verdict}, and the plan keeps the deadline: {keeps}"
    )


def _enumerate(tally: Tally, seed: int, answer: PlanAnswer) -> None:
    """Hold what was found of a tiny problem to the best of all its plans."""
    brute = shortest(answer.problem)
    best, of_all = length(brute), makespan(brute)
    found = min(_length(answer.problem, plan) for plan in (answer.plan, *answer.compared))
    tally.hold("shortest plan is that of the brute force", seed, found != best and (found, best))
    bound = answer.earliest_seconds
    tally.hold("bound is no higher than the optimum", seed, bound > of_all and (bound, of_all))
    tally.hold("replay is that of the rule", seed, _replayed(answer, Random(seed)))
    claims = answer.plan.is_optimal and _length(answer.problem, answer.plan) != best
    tally.hold("what is proven is optimal", seed, claims and (answer.plan.makespan_seconds, best))


def _replayed(answer: PlanAnswer, random: Random) -> object:
    """Return the ends of the replay and of the rule, counted second after second, where they differ."""
    problem, replay = answer.problem, Replay(answer.problem, answer.plan)
    names = [step.task.name for step in replay.steps]
    seconds = [random.choice((0, 1, 2, 5, 9)) for _ in names]
    put = puts(problem, answer.plan)
    ends = dict(zip(names, replay.ends(seconds, shares_links=False), strict=True))
    expected = replayed(problem, put, dict(zip(names, seconds, strict=True)))
    return ends != expected and (ends, expected)


def _length(problem: Problem, plan: Plan) -> tuple[int, int]:
    """Return by how much tasks miss their own deadlines, and when the last one ends."""
    due = {task.name: task.deadline_seconds for task in problem.tasks}
    late = [max(0, each.end_seconds - at) for each in plan.placements if (at := due[each.task]) is not None]
    return sum(late), plan.makespan_seconds


def _impossible(tally: Tally, seed: int, seconds: float) -> None:
    """Hold a problem that has no plan to being told so."""
    kind, problem = impossible(seed)
    if isinstance(problem, ProblemError):
        named = "task" in str(problem) and len(str(problem)) > len("task")
        tally.hold(f"told to be impossible: {kind}", seed, None if named else str(problem))
        return
    verdict = solve(problem, seconds).verdict
    tally.hold(f"told to be impossible: {kind}", seed, None if verdict == "impossible" else verdict)


def _mend(tally: Tally, seed: int, answer: PlanAnswer) -> None:
    """Change one thing in the plan, and hold what is nearest to it to the rules."""
    random = Random(seed)
    wrong = _changed(answer.problem, answer.plan, random)
    found = nearest(answer.problem, wrong)
    if found.proposed.is_valid:
        return
    tally.hold("nearest is valid", seed, _not_deadline(found.verdict.broken))
    if answer.verdict == "on_time":
        tally.counts["nearest misses a deadline that can be kept"] += not found.verdict.is_valid
    tally.counts["nearest moves tasks"] += len(found.moved)


def _changed(problem: Problem, plan: Plan, random: Random) -> Proposal:
    placed = [Placed(each.task, each.node, each.start_seconds) for each in plan.placements]
    at = random.randrange(len(placed))
    changes = (
        replace(placed[at], node=random.choice(problem.nodes).name),
        replace(placed[at], node="nowhere"),
        replace(placed[at], start_seconds=placed[at].start_seconds - random.choice((1, 60, 3600))),
    )
    placed[at] = random.choice(changes)
    return Proposal(tuple(placed))


def _not_deadline(broken: tuple[Broken, ...]) -> list[str]:
    """Return what is broken but deadlines, which a problem may make impossible to keep."""
    return [each.text for each in broken if each.rule != "deadline"]


def _code() -> str:
    """Return a digest of the modules that plans are made and checked with, CP-SAT's own process among them."""
    modules = [each for name, each in sys.modules.items() if name.startswith(CODE)]
    files = {Path(each.__file__) for each in (*modules, cp_sat) if each.__file__}
    return sha256(b"".join(path.read_bytes() for path in sorted(files))).hexdigest()[:12]


def _so_far(made_by: dict[str, Any], *, record: bool) -> Tally | None:
    found = kept("plans", record=record)
    if found is None or found["made_by"] != made_by:
        return None
    counts, held, failed = (Counter[str](found[name]) for name in ("counts", "held", "failed"))
    return Tally(found["next_seed"], found["cpu_seconds"], counts, held, failed, found["wrong"])


def _keep(made_by: dict[str, Any], tally: Tally, *, record: bool) -> None:
    figures = {
        "next_seed": tally.next_seed,
        "cpu_seconds": round(tally.cpu_seconds, 1),
        "counts": dict(sorted(tally.counts.items())),
        "held": dict(sorted(tally.held.items())),
        "failed": dict(tally.failed),
        "wrong": tally.wrong,
    }
    keep("plans", {"machine": machine(), "made_by": made_by} | figures, record=record)


if __name__ == "__main__":
    sys.exit(main())
