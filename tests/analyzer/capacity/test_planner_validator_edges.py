"""The validator at its edges: one more, one less, nothing at all. Each claim dies with one changed sign in its code."""

import json
from dataclasses import replace
from typing import Any

import pytest

from agent.wire.units import GB
from analyzer.capacity.planner.problem import (
    Duration,
    Input,
    Network,
    Node,
    Planned,
    Problem,
    ProposalError,
    Task,
    TransferRate,
)
from analyzer.capacity.planner.proposal import (
    BYTES_MAX,
    NAME_LETTERS_MAX,
    PLACEMENTS_MAX,
    SECONDS_MAX,
    UNKNOWN_TOLD,
    USD_MAX,
    Broken,
    Claims,
    Placed,
    Proposal,
    exact,
    fingerprint,
    listed,
    nearest_name,
    read_proposal,
)
from analyzer.capacity.planner.validator import (
    Stay,
    cost_micros_of,
    stay_of,
    transfers_between,
    validate,
)
from bench.plans.proposed import proposal_of
from tests.analyzer.capacity.planner_example import HOUR, four_tasks

SIZE = 10 * GB
DIRECT = Network()


def task(name: str, seconds: int = HOUR, **more: Any) -> Task:
    """Return a task of one CPU."""
    usual: dict[str, Any] = {
        "cpus": 1,
        "memory_bytes": 0,
        "duration": Duration.of(seconds),
        "needs_ssd": "ssd_bytes" in more,
    }
    return Task(name, **(usual | more))


def node(name: str, **more: Any) -> Node:
    """Return a node of ten CPUs and ten gigabytes."""
    return Node(name, **({"cpus": 10, "memory_bytes": SIZE} | more))


def broken(problem: Problem, *placed: Placed) -> tuple[Broken, ...]:
    """Return what is wrong with a proposal."""
    return validate(problem, Proposal(placed)).broken


def one(problem: Problem, *placed: Placed) -> Broken:
    """Return the one rule that a proposal breaks."""
    (found,) = broken(problem, *placed)
    return found


# What nodes lack, alone.


@pytest.mark.parametrize(
    ("needs", "small", "says"),
    [
        ({"cpus": 11}, {}, "needs 11 CPUs, and small has 10"),
        ({"memory_bytes": 11 * GB}, {}, "needs 11.0 GB of memory, and small has 10.0 GB"),
        ({"gpus": 2}, {"gpus": 1}, "needs 2 GPUs, and small has 1"),
        ({"ssd_bytes": 3 * GB}, {"ssd_bytes": GB}, "needs 3.0 GB of local SSD, and small has 1.0 GB"),
        ({"group": "prep"}, {"group": "other"}, "must run in group prep, and small is in other"),
    ],
)
def test_what_a_node_lacks_is_told_in_figures(needs: dict[str, Any], small: dict[str, Any], says: str) -> None:
    """With the task, the node and the one that has it."""
    large = node("large", cpus=99, memory_bytes=99 * GB, gpus=9, ssd_bytes=99 * GB, group="prep")
    found = one(Problem((task("t", **needs),), (node("small", **small), large)), Placed("t", "small", 0))
    assert found == Broken("fit", f"t {says}; place it on large", ("t",), ("small",))


def test_a_node_that_has_exactly_what_is_needed_will_do() -> None:
    """A byte of SSD is an SSD, and memory of GPUs is asked of those alone who take a GPU."""
    needs = {"cpus": 10, "memory_bytes": SIZE, "gpus": 1, "hbm_bytes": GB, "ssd_bytes": 1, "needs_ssd": True}
    nodes = (node("n", gpus=1, hbm_bytes=GB, ssd_bytes=1), node("none", gpus=0))
    problem = Problem((task("t", **needs), task("light", gpus=0, hbm_bytes=99 * GB)), nodes)
    assert broken(problem, Placed("t", "n", 0), Placed("light", "none", 0)) == ()


# Names that do not exist.


def test_the_first_unknown_names_are_told_one_by_one() -> None:
    """The rest in a list, with all of them beside it."""
    problem = Problem((task("t"),), (node("n"),))
    names = [f"x{number}" for number in range(UNKNOWN_TOLD + 2)]
    *single, rest = broken(problem, Placed("t", "n", 0), *(Placed(name, "n", 0) for name in names))
    assert UNKNOWN_TOLD == 20
    assert single == [Broken("unknown", f"there is no task '{name}'; there are t", (name,)) for name in names[:20]]
    assert rest == Broken("unknown", "there are no tasks x20, x21 either; leave them out", ("x20", "x21"))


def test_names_that_would_rewrite_a_terminal_are_told_without_that() -> None:
    """Whoever proposes chooses them, and the answer is read by people and models."""
    evil = "t\x1b[2J\u202e"
    problem = Problem((task("t"),), (node("n"),))
    stale = validate(problem, Proposal((Placed("t", evil, 0), Placed(evil, "n", 0)), problem=evil))
    texts = [each.text for each in stale.broken]
    assert len(texts) == 3
    assert all("t?[2J?" in text for text in texts)
    hosts = Problem((task("t", gpus=1),), (node(evil), node("n", gpus=1)))
    assert one(hosts, Placed("t", evil, 0)).text == "t needs 1 GPU, and t?[2J? has none; place it on n"
    assert nearest_name("ab", ["abc\x1b", "z"]) == "did you mean abc??"


def test_an_unknown_node_is_told_with_the_task_that_was_to_run_there() -> None:
    """Its ids are for programs, its sentence for people."""
    problem = Problem((task("t"),), (node("n"),))
    found = one(problem, Placed("t", "nn", 0))
    assert found == Broken(
        "unknown", "t is placed on node 'nn', which does not exist; did you mean n?", ("t",), ("nn",)
    )


def test_a_task_that_is_placed_twice_names_both_nodes() -> None:
    """Also where they are the same."""
    problem = Problem((task("t"),), (node("n"), node("m")))
    says = "t is placed 2 times, on n at 0 s, m at 5 s; keep one of them"
    assert one(problem, Placed("t", "n", 0), Placed("t", "m", 5)) == Broken("twice", says, ("t",), ("n", "m"))


def test_lists_of_names_are_cut_where_two_or_more_would_be_left_out() -> None:
    """ "And 1 more" is no shorter than the name."""
    assert listed("abcde") == "a, b, c, d, e"
    assert listed("abcdef") == "a, b, c, d, e, f"
    assert listed("abcdefg") == "a, b, c, d, e and 2 more"
    assert listed(["a\x1b", "b"]) == "a?, b"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (-59, "-59 s"),
        (60, "1 min (60 s)"),
        (-60, "-1 min (-60 s)"),
        (61, "1 min 01 s (61 s)"),
        (3600, "1 h (3600 s)"),
        (3601, "1 h 00 min 01 s (3601 s)"),
        (-3723, "-1 h 02 min 03 s (-3723 s)"),
        (4_000_020, "1,111 h 07 min (4000020 s)"),
    ],
)
def test_times_are_said_exactly(seconds: int, words: str) -> None:
    """They are read back by whoever proposed."""
    assert exact(seconds) == words


# When.


def test_the_latest_of_the_reasons_not_to_start_is_told() -> None:
    """Its node is named where that is the reason, and at one time the plan's own start goes first."""
    problem = Problem((task("t", earliest_start_seconds=9),), (node("zeta", available_from_seconds=5),))
    says = "t starts at 8 s, before it may start at 9 s; start it at 9 s or later"
    assert one(problem, Placed("t", "zeta", 8)) == Broken("early", says, ("t",))
    later = replace(problem, nodes=(node("zeta", available_from_seconds=10),))
    says = "t starts at 9 s, before zeta is available at 10 s; start it at 10 s or later"
    assert one(later, Placed("t", "zeta", 9)) == Broken("early", says, ("t",), ("zeta",))
    at_once = Problem((task("t"),), (node("zeta"),))
    assert "before the plan starts at 0 s" in one(at_once, Placed("t", "zeta", -1)).text


def _pair(size: int, network: Network = DIRECT) -> Problem:
    """Return two tasks of ten seconds, the second after the first, and three nodes of which none has a rack."""
    tasks = (task("a", 10), task("b", 10, inputs=(Input("a", size),)))
    return Problem(tasks, (node("n"), node("m"), node("r")), network)


def test_an_end_alone_is_waited_for_without_a_word_of_transfers() -> None:
    """Where no byte moves nothing is said to move, and nothing is in the plan's transfers."""
    says = "b starts at 9 s, and a, which it waits for, ends at 10 s; start b at 10 s or later"
    assert one(_pair(0), Placed("a", "n", 0), Placed("b", "m", 9)) == Broken("order", says, ("a", "b"), ("n", "m"))
    for size, moved in ((0, 0), (1, 1)):
        plan = validate(_pair(size), Proposal((Placed("a", "n", 0), Placed("b", "m", 99)))).plan
        assert plan is not None
        assert len(plan.transfers) == moved


def test_at_the_end_of_the_task_before_only_the_data_is_late() -> None:
    """One second earlier it is the order that is broken. Nodes without a rack share none."""
    late = one(_pair(GB), Placed("a", "n", 0), Placed("b", "m", 10))
    says = (
        "b starts at 10 s, and the data of a arrives at 14 s: 1.0 GB from n to m between racks take 4 s;"
        " start b then or later"
    )
    assert late == Broken("transfer", says, ("a", "b"), ("n", "m"))
    assert one(_pair(GB), Placed("a", "n", 0), Placed("b", "m", 9)).rule == "order"
    assert broken(_pair(GB), Placed("a", "n", 0), Placed("b", "m", 14)) == ()


@pytest.mark.parametrize(
    ("network", "target", "way"),
    [
        (Network(), "n", "1.0 GB from n to n as a local copy take 1 s; start b then or later"),
        (Network(path="storage"), "m", "1.0 GB from n to m over network storage take 1 min 30 s (90 s); start b"),
    ],
)
def test_the_way_of_the_data_is_told(network: Network, target: str, way: str) -> None:
    """With what it takes over it."""
    assert way in one(_pair(GB, network), Placed("a", "n", 0), Placed("b", target, 10)).text


def test_a_second_that_is_begun_is_waited_for() -> None:
    """Four bytes at three a second take two seconds."""
    network = Network(cross_rack=TransferRate(3))
    assert broken(_pair(4, network), Placed("a", "n", 0), Placed("b", "m", 12)) == ()
    assert one(_pair(4, network), Placed("a", "n", 0), Placed("b", "m", 11)).rule == "transfer"
    assert broken(_pair(3, network), Placed("a", "n", 0), Placed("b", "m", 11)) == ()


def test_the_deadline_that_binds_is_told() -> None:
    """The earlier of a task's own and the one for all, with whose it is."""
    for own, of_all, whose in (
        (None, 9, "the deadline of all"),
        (99, 9, "the deadline of all"),
        (9, 99, "its deadline"),
    ):
        problem = Problem((task("t", 10, deadline_seconds=own),), (node("n"),), deadline_seconds=of_all)
        says = f"t ends at 10 s, 1 s after {whose} at 9 s; start it at -1 s or earlier, or ask for a later deadline"
        assert one(problem, Placed("t", "n", 0)) == Broken("deadline", says, ("t",), ("n",))


# Room on a node.


@pytest.mark.parametrize(
    ("resource", "has", "needed"),
    [
        ("cpus", "1 CPUs", "2"),
        ("gpus", "1 GPUs", "2"),
        ("memory_bytes", "1 B of memory", "2 B"),
        ("ssd_bytes", "1 B of local SSD", "2 B"),
    ],
)
def test_two_are_a_crowd_where_a_node_carries_one(resource: str, has: str, needed: str) -> None:
    """Each unit of each resource counts."""
    needs: dict[str, Any] = {"cpus": 0} | {resource: 1}
    problem = Problem((task("a", 10, **needs), task("b", 10, **needs)), (node("n", **{resource: 1}),))
    says = f"n has {has}, and from 9 s to 10 s a, b need up to {needed} at one time"
    found = one(problem, Placed("a", "n", 0), Placed("b", "n", 9))
    assert found == Broken("capacity", f"{says}; start one of them later, or on another node", ("a", "b"), ("n",))
    assert broken(problem, Placed("a", "n", 0), Placed("b", "n", 10)) == ()


@pytest.mark.parametrize(
    ("spans", "cpus", "says"),
    [
        # Over all the way from 10 to 40, with the third from 20 to 30.
        ({"a": (0, 40), "b": (10, 30), "c": (20, 10)}, 5, "from 10 s to 40 s a, b, c need up to 15"),
        # The first of two crowds of one size is the one that is named.
        ({"a": (0, 40), "b": (10, 10), "c": (20, 10)}, 6, "from 10 s to 30 s a, b need up to 12"),
    ],
)
def test_a_stretch_is_told_once_with_its_fullest_moment(
    spans: dict[str, tuple[int, int]], cpus: int, says: str
) -> None:
    """From its first second to its last, and with those who are there when most is needed."""
    tasks = tuple(task(name, length, cpus=cpus) for name, (_, length) in spans.items())
    problem = Problem(tasks, (node("n", cpus=9), node("m", cpus=99)))
    found = one(problem, *(Placed(name, "n", start) for name, (start, _) in spans.items()))
    assert says in found.text


def test_who_is_too_large_alone_is_no_crowd() -> None:
    """With others there who need nothing of it: that it does not fit is said once."""
    tasks = (task("large", 10, memory_bytes=11 * GB), task("small", 10, memory_bytes=0))
    problem = Problem(tasks, (node("n"), node("m", memory_bytes=99 * GB)))
    assert one(problem, Placed("large", "n", 0), Placed("small", "n", 0)).rule == "fit"


def test_a_task_of_no_length_takes_no_room() -> None:
    """It stands for data that lies on a node."""
    problem = Problem((task("a", 10, cpus=10), task("b", 0, cpus=10)), (node("n"),))
    assert broken(problem, Placed("a", "n", 0), Placed("b", "n", 5)) == ()


# What it costs.


@pytest.mark.parametrize(
    ("needs", "micros"),
    [
        ({"cpus": 5}, 500_000),
        ({"memory_bytes": 6 * GB}, 600_000),
        ({"gpus": 7}, 700_000),
        ({"ssd_bytes": 8 * GB}, 800_000),
        ({"cpus": 1, "memory_bytes": 2 * GB, "gpus": 3, "ssd_bytes": 9 * GB}, 900_000),
    ],
)
def test_a_task_pays_the_largest_share_that_it_takes(needs: dict[str, Any], micros: int) -> None:
    """Of any of the node's resources, from its start to its end, whenever that is."""
    priced = node("n", gpus=10, ssd_bytes=SIZE, price_micros_per_hour=1_000_000)
    work = task("t", **{"cpus": 0, "memory_bytes": 0, **needs})
    plan = validate(Problem((work,), (priced,)), Proposal((Placed("t", "n", HOUR),))).plan
    assert plan is not None
    assert plan.cost_micros == micros


def test_what_is_left_of_a_millionth_is_paid_whole() -> None:
    """No plan is cheaper than the truth."""
    stay = Stay(task("t", 1), node("n", price_micros_per_hour=1), 0, 1)
    assert cost_micros_of([stay]) == 1
    assert cost_micros_of([stay, stay]) == 2
    assert cost_micros_of([]) == 0


def test_who_takes_one_of_what_a_node_lacks_pays_for_all_of_it() -> None:
    """Such a plan is not valid, and has a figure all the same."""
    stay = Stay(task("t", gpus=1, cpus=0), node("n", gpus=0, price_micros_per_hour=7), 0, HOUR)
    assert cost_micros_of([stay]) == 7


def test_what_is_not_known_is_a_mistake_of_ours() -> None:
    """A duration that nobody looked up is never 0; and what has no place moves nothing."""
    with pytest.raises(AssertionError, match="BUG: the duration of t was not looked up"):
        stay_of(task("t", duration=None), node("n"), 0)
    problem = _pair(GB)
    alone = {"b": stay_of(problem.tasks[1], problem.nodes[0], 0)}
    assert list(transfers_between(problem, alone)) == []


# What is claimed.


def _costs_one_dollar(**more: Any) -> Problem:
    return Problem((task("t", **more),), (node("n", price_micros_per_hour=10_000_000), node("unpriced")))


@pytest.mark.parametrize(("apart", "is_said"), [(5_000, False), (-5_000, False), (5_001, True), (-5_001, True)])
def test_half_a_cent_is_right(apart: int, is_said: bool) -> None:
    """Amounts are read to the cent."""
    claimed = Proposal((Placed("t", "n", 0),), Claims(cost_micros=1_000_000 + apart))
    assert bool(validate(_costs_one_dollar(), claimed).corrected) is is_said


def test_amounts_below_nothing_are_told_with_their_sign() -> None:
    """A plan may cost more than what it replaces; nothing has no sign."""
    problem = _costs_one_dollar(planned=Planned("n", 0))
    right = (Placed("t", "n", 0),)
    wrong = validate(problem, Proposal(right, Claims(cost_micros=0, savings_micros=-3_000_000))).corrected
    assert wrong == (
        "the plan is said to cost $0.00; it costs $1.00",
        "the plan is said to save -$3.00; it saves $0.00",
    )


def test_without_a_price_whoever_names_a_cost_is_told() -> None:
    """By its own reason; the smallest amount has a sign, too."""
    problem = _costs_one_dollar(planned=Planned("n", 0))
    verdict = validate(problem, Proposal((Placed("t", "unpriced", 0),), Claims(cost_micros=1, savings_micros=-1)))
    assert verdict.savings_micros is None
    assert verdict.corrected == (
        "the plan is said to cost $0.000001; that cannot be checked: a price is not known",
        "the plan is said to save -$0.000001; that cannot be checked: there is no plan to compare with, or a price is"
        " not known",
    )


@pytest.mark.parametrize("planned", [Planned(), Planned(node="n"), Planned(start_seconds=0)])
def test_half_a_plan_is_none_to_compare_with(planned: Planned) -> None:
    """Where and when must both be known of what would have run."""
    verdict = validate(_costs_one_dollar(planned=planned), Proposal((Placed("t", "n", 0),)))
    assert verdict.is_valid
    assert verdict.savings_micros is None


def test_a_plan_is_told_by_start_and_then_by_name() -> None:
    """And as said by whoever proposed it; a plan of ours comes back as the proposal that it was made from."""
    problem = Problem((task("c"), task("b"), task("a")), (node("n"),))
    said = Proposal((Placed("c", "n", 0), Placed("b", "n", 5), Placed("a", "n", 5)))
    plan = validate(problem, said).plan
    assert plan is not None
    assert [each.task for each in plan.placements] == ["c", "a", "b"]
    assert plan.solver == "said"
    again = proposal_of(plan)
    placed = (("c", 0, HOUR), ("a", 5, HOUR + 5), ("b", 5, HOUR + 5))
    assert again.placements == tuple(Placed(name, "n", start, end, gpus=0) for name, start, end in placed)
    assert again.claims == Claims(plan.makespan_seconds, plan.cost_micros)


# Which problem.


def test_a_fingerprint_is_short_and_does_not_move_with_the_clock() -> None:
    """Times that count from now are checked anew; whatever else changes is another problem."""
    example = Problem((task("t", planned=Planned("n", 0)),), (node("n"),))
    name = fingerprint(example)
    assert len(name) == 16
    assert int(name, 16) >= 0
    (only,), (host,) = example.tasks, example.nodes
    same = [
        replace(example, starts_at=1),
        replace(example, deadline_seconds=1),
        replace(example, tasks=(replace(only, earliest_start_seconds=1),)),
        replace(example, tasks=(replace(only, deadline_seconds=1),)),
        replace(example, tasks=(replace(only, planned=Planned("n", 1)),)),
        replace(example, nodes=(replace(host, available_from_seconds=1),)),
    ]
    assert {fingerprint(each) for each in same} == {name}
    others = [
        replace(example, tasks=(replace(only, cpus=2),)),
        replace(example, tasks=(replace(only, duration=Duration(0, HOUR, HOUR)),)),
        replace(example, tasks=(replace(only, planned=Planned(None, 0)),)),
        replace(example, nodes=(replace(host, rack="A"),)),
        replace(example, network=Network(path="storage")),
        four_tasks(),
    ]
    assert len({name, *(fingerprint(each) for each in others)}) == 1 + len(others)


# What may be said.


def _said(**more: object) -> str:
    return json.dumps({"placements": []} | more)


def _placed(**more: object) -> str:
    return _said(placements=[{"task": "t", "node": "n", "start_seconds": 0} | more])


def test_what_is_just_allowed_is_read() -> None:
    """Every limit is a value that may be said."""
    most = read_proposal(_placed(start_seconds=SECONDS_MAX, end_seconds=-SECONDS_MAX))
    assert most.placements == (Placed("t", "n", 10**10, -(10**10)),)
    claims = read_proposal(_said(cost_usd=USD_MAX, savings_usd=-USD_MAX)).claims
    assert claims == Claims(None, 10**18, -(10**18))
    assert read_proposal(_placed(task="t" * NAME_LETTERS_MAX)).placements[0].task == "t" * 200
    text = _said()
    assert read_proposal(text + " " * (BYTES_MAX - len(text))) == Proposal(())
    many = read_proposal(_said(placements=[{"task": "t", "node": "n", "start_seconds": 0}] * PLACEMENTS_MAX))
    assert len(many.placements) == 10_000


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            _placed(start_seconds=SECONDS_MAX + 1),
            "placement 1: 'start_seconds' must be a whole number of seconds, as in",
        ),
        (_placed(end_seconds=-SECONDS_MAX - 1), "placement 1: 'end_seconds' must be a whole number of seconds, as in"),
        (
            _said(makespan_seconds="1"),
            "the proposal: 'makespan_seconds' must be a whole number of seconds, as in 10800",
        ),
        (_said(cost_usd=USD_MAX + 1), "the proposal: 'cost_usd' must be an amount in dollars, as in 12.50"),
        (_said(savings_usd=-USD_MAX - 1), "the proposal: 'savings_usd' must be an amount in dollars, as in 12.50"),
        (_said(cost_usd=True), "the proposal: 'cost_usd' must be an amount in dollars, as in 12.50"),
        (_said(cost_usd="12"), "the proposal: 'cost_usd' must be an amount in dollars, as in 12.50"),
        (_said(problem=5), "the proposal: 'problem' must be text of 1 to 200 printable characters"),
        (_placed(task=5), "placement 1: 'task' must be text of 1 to 200 printable characters"),
        (_said(placements=5), "the proposal: 'placements' must be a list of {task, node, start_seconds}"),
        ('{"a": 1, "a": 1}', "the proposal cannot be read as JSON: a key occurs twice"),
        ("[" * 100_000, "the proposal is nested too deeply to be read"),
        (
            _said(**{"\x1b[2J": 1}),
            "the proposal: unknown field '?[2J'; it may have problem, placements, makespan_seconds, cost_usd,"
            " savings_usd",
        ),
        ("[]", "the proposal must be a JSON object with problem, placements, makespan_seconds, cost_usd, savings_usd"),
    ],
)
def test_what_may_not_be_said_is_refused_with_where_and_why(text: str, says: str) -> None:
    """The whole sentence: it goes back to whoever proposed."""
    with pytest.raises(ProposalError) as refused:
        read_proposal(text)
    assert str(refused.value).startswith(says)
    assert says.endswith(("as in", "10800")) or str(refused.value) == says


def test_bytes_are_utf_8_and_nothing_else() -> None:
    """Other codings of JSON are read by some, and then names are not what they were."""
    assert read_proposal(_said().encode()) == Proposal(())
    for coding in ("utf-16", "utf-32-le"):
        with pytest.raises(ProposalError, match="cannot be read as JSON"):
            read_proposal(_said().encode(coding))
