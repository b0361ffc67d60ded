"""The validator must see each kind of broken rule, one at a time: it is the last that looks."""

from dataclasses import replace

import pytest

from analyzer.recommendations.fleet_plan.problem import Limits, Move, Needs, Plan, Pool, Problem, Run, UnitKind
from analyzer.recommendations.fleet_plan.validate import broken

Place = tuple[tuple[str, int], ...]
H100 = UnitKind("H100", 8)
POOLS = (
    Pool("a", "a", H100, 2),
    Pool("b", "b", H100, 2),
    Pool("c", "c", H100, 4),
    Pool("other sku", "d", UnitKind("A100", 8), 4),
    Pool("small", "d", UnitKind("H100", 4), 4),
    Pool("tainted", "d", UnitKind("H100", 8, taints=frozenset({"team-a"})), 4),
    Pool("reserved", "d", UnitKind("H100", 8, reservation="inference"), 4),
    Pool("sliced", "e", UnitKind("H100", 1, shared=True, mig="1g.10gb"), 7),
    Pool("whole", "e", UnitKind("H100", 1, shared=True), 8),
    Pool("another", "a", UnitKind("H100", 1, shared=True), 8),
)
NEEDS = Needs(frozenset({"H100"}), 8)
RUNS = (
    Run("train", 2, NEEDS, (("a", 1), ("b", 1)), span_cost=100, move_cost=10, restart_cost=5, max_racks=2),
    Run("pinned", 1, NEEDS, (("c", 1),), pinned=True),
    Run("still", 1, NEEDS, (("c", 1),)),
    Run("apart", 1, NEEDS, (("b", 1),), apart_from=frozenset({"fast"})),
    Run("fast", 1, replace(NEEDS, nvme=True), (("c", 1),), unfit_cost=7),
    Run("part", 4, Needs(frozenset({"H100"}), 1, shared=True), (("whole", 4),)),
    Run("either", 2, replace(NEEDS, skus=frozenset({"H100", "A100"}))),
)
PROBLEM = Problem(POOLS, RUNS, Limits(24, frozenset({"still"})))


def _plan(**placed: Place) -> Plan:
    """Return the plan of today with these runs elsewhere; its costs are said to be today's."""
    places = {run.id: run.held for run in RUNS} | placed
    moves = []
    for run in RUNS:
        held, place = dict(run.held), dict(places[run.id])
        if held != place:
            left = tuple((p, n - place.get(p, 0)) for p, n in held.items() if n > place.get(p, 0))
            gained = tuple((p, n - held.get(p, 0)) for p, n in place.items() if n > held.get(p, 0))
            moves.append(Move(run.id, left, gained))
    return Plan(places, tuple(moves), 107, 107, 0, "greedy", 0, 0)


def test_what_is_right_is_said_to_be_right() -> None:
    """Today breaks nothing, though `fast` has no NVMe where it is: what it has it may keep."""
    assert broken(PROBLEM, _plan()) == []
    moved = replace(_plan(train=(("a", 2),)), cost=10 + 5 + 7, moved_gpus=8)
    assert broken(PROBLEM, moved) == []


@pytest.mark.parametrize(
    ("placed", "says"),
    [
        ({"train": (("a", 3),)}, "a has 2 units and is given 3"),
        ({"train": (("a", 1),)}, "train is a gang of 2 units and is given 1"),
        ({"train": ()}, "train runs today and is left without a place"),
        ({"train": (("other sku", 2),)}, "train is given 2 units of other sku, which are A100"),
        ({"train": (("small", 2),)}, "train is given 2 units of small, which are of another size"),
        ({"train": (("tainted", 2),)}, "whose taint it does not tolerate: team-a"),
        ({"train": (("reserved", 2),)}, "which are reserved for inference"),
        ({"fast": (("a", 1),)}, "fast is given 1 units of a, which have no NVMe"),
        ({"part": (("sliced", 4),)}, "whose MIG layout is 1g.10gb"),
        ({"part": (("whole", 2), ("another", 2))}, "part needs the units of one node and is given those of 2"),
        ({"either": (("c", 1), ("other sku", 1))}, "either keeps to one SKU and is given several"),
        ({"pinned": (("a", 1),)}, "pinned must stay where it is and is moved"),
        ({"still": (("a", 1),)}, "still must stay where it is and is moved"),
        ({"apart": (("c", 1),)}, "apart must be apart from fast, and both are in c"),
        ({"part": (("nowhere", 4),)}, "part is put into nowhere, which does not exist"),
        ({"nobody": (("a", 1),)}, "nobody is not a run of the problem"),
        ({"train": (("a", -1), ("c", 3))}, "train is given -1 units of a"),
        ({"train": (("a", 1), ("a", 1))}, "train is put into one pool twice"),
    ],
)
def test_each_broken_rule_is_named(placed: dict[str, Place], says: str) -> None:
    """One change, one sentence that a person can act on."""
    assert any(says in sentence for sentence in broken(PROBLEM, _plan(**placed)))


def test_a_run_may_not_span_more_racks_than_it_may_or_does() -> None:
    """Three nodes in three racks, where two are allowed and none is held."""
    wide = Run("wide", 3, NEEDS, max_racks=2)
    problem = Problem(POOLS, (wide,))
    plan = Plan({"wide": (("a", 1), ("b", 1), ("c", 1))}, (), 0, 0, 0, "greedy", 0, 0)
    assert "wide may span 2 racks (now 0) and spans 3" in broken(problem, plan)


def test_more_than_may_move_is_too_much() -> None:
    """The limit counts GPUs of all runs together."""
    plan = _plan(train=(("c", 1), ("a", 1)), apart=(("a", 1),))
    limited = Problem(POOLS, RUNS, Limits(8, frozenset({"still"})))
    assert "8 GPUs may move and 16 do" in broken(limited, plan)


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"cost": 106}, "the plan is said to cost 106 and costs 107"),
        ({"cost_before": 1}, "the present is said to cost 1 and costs 107"),
        ({"moved_gpus": 8}, "the plan says that 8 GPUs move and 0 do"),
        ({"moves": (Move("train", (), ()),)}, "the list of moves is not what differs from today"),
    ],
)
def test_wrong_figures_are_named(said: dict[str, object], says: str) -> None:
    """A plan whose saving is added up wrongly is as bad as one that cannot be carried out."""
    assert says in broken(PROBLEM, replace(_plan(), **said))  # type: ignore[arg-type]


def test_a_run_that_was_forgotten_is_named() -> None:
    """What is not in the plan is nowhere."""
    plan = _plan()
    del plan.placed["train"]
    assert broken(PROBLEM, plan) == ["train is not in the plan"]


def test_a_move_must_say_what_differs() -> None:
    """Artefacts are written from the moves, not from the places."""
    plan = _plan(train=(("a", 2),))
    wrong = replace(plan, moves=(Move("train", (("a", 1),), (("a", 1),)),))
    assert "the move of train does not leave what it leaves" in broken(PROBLEM, wrong)
