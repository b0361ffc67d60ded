"""The four-task example, answered by the fast solvers: what is drawn of it can be checked on paper."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from agent.wire.units import GB
from analyzer.capacity.planner.facts import PlanContext, PlanFacts, plan_facts
from analyzer.capacity.planner.from_ledger import LeftOut
from analyzer.capacity.planner.instance import Instance, lower_bound
from analyzer.capacity.planner.ledger import History, Peaks
from analyzer.capacity.planner.plan import Change, PlanAnswer, Verdict
from analyzer.capacity.planner.problem import Problem
from analyzer.capacity.planner.schedule import plan_of
from analyzer.capacity.planner.simulation import Outlook
from analyzer.capacity.planner.solve import heft, olb
from analyzer.period import micros
from tests.analyzer.capacity.planner_example import HOUR, four_tasks

FRIDAY_5 = micros(datetime(2026, 11, 20, 5, tzinfo=UTC))
BERLIN = "Europe/Berlin"
GROUPS = {"gpuA": "G", "ssdA": "C"}
COSTS = (52_000_000, 41_250_000)
CHANGES = (
    Change("T3", "cpuB", "ssdA", 0, 28 * 60, 2 * HOUR),
    Change("T2", None, None, 8 * HOUR, 0, 3 * HOUR),
)


OUTLOOK = Outlook(9 * HOUR, 9 * HOUR + 1200, 10 * HOUR + 300, 0.97, 1000, ("T1",))


def asked(deadline_seconds: int | None = None) -> Problem:
    """Return the example from Friday 06:00 in Berlin on, with a group for two of its nodes."""
    problem = four_tasks()
    nodes = tuple(replace(node, group=GROUPS.get(node.name)) for node in problem.nodes)
    return replace(problem, nodes=nodes, deadline_seconds=deadline_seconds, starts_at=FRIDAY_5)


def answered(problem: Problem, verdict: Verdict = "no_deadline", changes: Sequence[Change] = ()) -> PlanAnswer:
    """Return an answer with the plans of OLB and HEFT; HEFT's is the one to follow."""
    instance = Instance(problem)
    bound = lower_bound(instance)
    plans = (plan_of(instance, olb(instance), "olb", bound), plan_of(instance, heft(instance), "heft", bound))
    return PlanAnswer(problem, plans[1], plans, verdict, bound.seconds, tuple(changes))


def on_time(**more: object) -> PlanFacts:
    """Return the facts of a plan that moves one task, delays another and keeps its deadline."""
    answer = answered(asked(11 * HOUR), "on_time", CHANGES)
    return replace(plan_facts(answer, OUTLOOK, PlanContext("jobs.yaml", BERLIN)), **more)  # type: ignore[arg-type]


def impossible(**more: object) -> PlanFacts:
    """Return the facts of a plan for which there is an hour too little."""
    answer = answered(asked(8 * HOUR), "impossible")
    return replace(plan_facts(answer, None, PlanContext("jobs.yaml", BERLIN)), **more)  # type: ignore[arg-type]


def of_ledger() -> PlanFacts:
    """Return the facts of a plan whose durations and nodes the ledger told."""
    seconds = tuple(range(6 * HOUR, 10 * HOUR, HOUR // 4))
    history = History(
        "nightly-prep", 1, seconds, 1, 2, FRIDAY_5 - 30 * 86_400_000_000, FRIDAY_5, Peaks(6.4, 40 * GB, None)
    )
    left_out = tuple(LeftOut(f"n{number}", "held by ranker-serve with no known end") for number in range(6))
    told = PlanContext("jobs.yaml", BERLIN, "USD", 95, (history,), left_out)
    answer = answered(asked())
    olb_plan, heft_plan = (replace(plan, cost_micros=cost) for plan, cost in zip(answer.compared, COSTS, strict=True))
    priced = replace(answer, plan=heft_plan, compared=(olb_plan, heft_plan))
    return plan_facts(priced, replace(OUTLOOK, on_time_ratio=None, tasks_without_spread=()), told)
