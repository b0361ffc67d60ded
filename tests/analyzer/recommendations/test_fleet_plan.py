"""A plan over the real fleet: who gains most has the room, nobody moves for another, and nothing is invented."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.wire.units import WEEK_US
from analyzer.recommendations.fleet_plan.fleet_plan import Loss, Now, fleet_problem, planned, plans, read_now
from analyzer.recommendations.recommendation import Saved
from analyzer.recommendations.site import Host, Site
from analyzer.recommendations.site_query import read_site
from collector.store.session import Session
from tests.analyzer.ledger.fleet import Fleet, priced
from tests.analyzer.small_site import CROSSING_HOSTS, END, IDLE, T, _host, small_site

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """The small site with four more nodes free in rack-1, analysed and priced."""
    fleet = small_site()
    for number in range(4):
        (gpu,) = _host(fleet, f"y{number}", "rack-1")
        fleet.sample(f"y{number}", gpu, T, END, **IDLE)
    fleet.analyze(settings=priced(Path(tmp_path_factory.mktemp("prices")), H100_80GB=2.60))
    with fleet.store.session() as opened:
        yield opened
    fleet.store.close()


def test_a_run_that_waits_for_the_spine_is_given_the_free_nodes_of_one_rack(session: Session) -> None:
    """From the store to the change: what it lost is the ledger's, where it goes are nodes that nobody has."""
    (proposal,) = [p for p in plans(session, read_site(session, T, END), T, END) if p.kind == "co_locate"]
    lost = session.rows(
        "SELECT sum(milliseconds)::BIGINT, sum(cost_micros)::BIGINT FROM ledger WHERE run_id = 'slurm/alpha/crossing' "
        "AND cause = 'cross_rack' AND hour >= ? AND hour < ?",
        [T, END],
    )
    assert (proposal.run_ids, (proposal.milliseconds, proposal.micros)) == (("slurm/alpha/crossing",), lost[0])
    assert proposal.move is not None
    assert proposal.move.from_ is not None
    assert proposal.move.to is not None
    assert proposal.move.from_.nodes == CROSSING_HOSTS
    assert set(proposal.move.to.racks) == {"rack-1"}
    assert set(proposal.move.to.nodes) == {"y0", "y1", "y2", "y3", *CROSSING_HOSTS[::2]}
    assert {constraint.what: constraint.holds for constraint in proposal.constraints} == {
        "node type": True,
        "gang": True,
        "moves at once": True,
        "partition": None,
        "room": True,
    }


def _site(nodes: dict[str, str], gpus: int = 8, **more: Host) -> Site:
    hosts = {name: Host(name, rack, "H100", 64, None, gpus, 0.0) for name, rack in nodes.items()}
    return Site(hosts | more, {})


def _loss(crossing_hours: int = 0, is_serving: bool = False) -> Loss:
    return Loss(
        "ml", is_serving, 100 * HOUR_MS, 250_000_000, crossing_hours * HOUR_MS, crossing_hours * 2_500_000, WEEK_US
    )


SPREAD = _site({"a1": "a", "a2": "a", "b1": "b", "b2": "b", "c1": "c", "c2": "c"})
TWO = Now(
    held={"poor": {"a1": 8, "b1": 8}, "rich": {"b2": 8, "c1": 8}},
    free=frozenset({"c2"}),
    entangled=frozenset(),
    losses={"poor": _loss(10), "rich": _loss(80)},
    held_ratio=0.8,
)


def test_of_two_that_want_one_node_the_one_that_gains_more_has_it() -> None:
    """One free node in rack c does for `rich`; its old one in rack b is then there for `poor`, which must wait."""
    found = {p.subject: p for p in planned(SPREAD, TWO, WEEK_US)}
    assert found["rich"].move is not None
    assert found["rich"].move.to is not None
    assert set(found["rich"].move.to.nodes) == {"c1", "c2"}
    if "poor" in found:
        assert found["poor"].constraints[-1].told == "free once these have moved: rich"


def test_who_serves_or_loses_nothing_stays() -> None:
    """A move that helps somebody else is not proposed to them."""
    for loss in (_loss(0), _loss(80, is_serving=True)):
        now = replace(TWO, losses={"poor": loss, "rich": loss})
        assert planned(SPREAD, now, WEEK_US) == []


def test_a_restart_that_costs_more_than_the_racks_is_not_proposed() -> None:
    """Sixteen GPUs restart in 12 minutes: 3.2 GPU-hours, against one lost in the week."""
    assert planned(SPREAD, replace(TWO, losses={"poor": _loss(1), "rich": _loss(1)}), WEEK_US) == []


@pytest.mark.parametrize(
    "other",
    [
        Host("c2", "c", "A100", 64, None, 8, 0.0),
        Host("c2", "c", "H100", 32, None, 8, 0.0),
        Host("c2", "c", "H100", 64, 10**12, 8, 0.0),
        Host("c2", None, "H100", 64, None, 8, 0.0),
    ],
)
def test_nodes_are_exchanged_for_their_like_only(other: Host) -> None:
    """Another kind, fewer cores, other disks, or nobody knows where: that is another change than this one."""
    site = Site(SPREAD.hosts | {"c2": other}, {})
    moved = [p.move.to.nodes for p in planned(site, TWO, WEEK_US) if p.move is not None and p.move.to is not None]
    assert all("c2" not in nodes for nodes in moved)


SMALL = Now(
    held={"one": {"a1": 2}, "two": {"a2": 4}, "large": {"b1": 6}},
    free=frozenset({"c1", "c2", "b2"}),
    entangled=frozenset(),
    losses={"one": _loss(), "two": _loss(), "large": _loss()},
    held_ratio=0.8,
)


def test_a_node_is_emptied_where_its_small_runs_fit_beside_others() -> None:
    """Three half-filled nodes can be two: 168 h of 8 GPUs, as much of it as the fleet is held."""
    found = planned(SPREAD, SMALL, WEEK_US)
    (proposal,) = [p for p in found if p.kind == "consolidate"]
    assert proposal.move is not None
    assert proposal.move.from_ is not None
    assert proposal.move.to is not None
    assert set(proposal.move.from_.nodes).isdisjoint(proposal.move.to.nodes)
    assert isinstance(proposal.saves, Saved)
    assert proposal.saves.milliseconds.p80 == int(8 * 168 * HOUR_MS * 0.8)
    assert proposal.saves.micros is not None


def test_a_node_is_not_emptied_into_one_that_would_be_free_sooner() -> None:
    """Long runs beside a short one: a node is free, and another is held for as long instead."""
    losses = {"one": _loss(), "two": replace(_loss(), age_us=WEEK_US // 2), "large": replace(_loss(), age_us=1)}
    found = [p.move.from_ for p in planned(SPREAD, replace(SMALL, losses=losses), WEEK_US) if p.move]
    assert all(place is not None and place.nodes != ("a1",) for place in found)


def test_what_shares_a_gpu_or_spans_parts_of_nodes_is_left_out() -> None:
    """A plan that cannot say who holds which GPU does not touch it, nor count its GPUs as free."""
    now = replace(SMALL, held={**SMALL.held, "odd": {"a1": 3, "a2": 3}}, entangled=frozenset({"b1"}))
    problem = fleet_problem(SPREAD, now, WEEK_US).problem
    assert {run.id for run in problem.runs} == {"one", "two"}
    assert {pool.id: pool.units for pool in problem.pools if pool.kind.shared} == {"node a1": 5, "node a2": 5}


@pytest.mark.parametrize("state", ["drained", "down", "reserved"])
def test_nobody_is_sent_to_a_node_out_of_service(state: str) -> None:
    """Its free GPUs are no room: the scheduler would let the run wait there for ever."""
    hosts = SPREAD.hosts | {node: replace(SPREAD.hosts[node], state=state) for node in ("a2", "b1", "c2")}
    for now in (TWO, SMALL):
        assert [p.move.to.nodes for p in planned(Site(hosts, {}), now, WEEK_US) if p.move and p.move.to] == []


held = st.dictionaries(st.sampled_from(sorted(SPREAD.hosts)), st.integers(1, 9), min_size=1, max_size=3)


@settings(max_examples=20)
@given(st.dictionaries(st.sampled_from("pqrstu"), held, max_size=5), st.sets(st.sampled_from(sorted(SPREAD.hosts))))
def test_whatever_is_held_a_plan_can_be_asked_for(runs: dict[str, dict[str, int]], entangled: set[str]) -> None:
    """Slices, GPUs that nobody owns, sources that disagree: what cannot be is left out, and no list fails for it."""
    busy = {node for nodes in runs.values() for node in nodes}
    losses = {run: _loss(80) for run in runs}
    now = Now(runs, frozenset(SPREAD.hosts) - busy, frozenset(entangled), losses, 0.5)
    for proposal in planned(SPREAD, now, WEEK_US, seconds=0.2):
        assert proposal.move is not None
        assert proposal.move.to is not None
        assert not set(proposal.move.to.nodes) & entangled


def test_a_node_that_is_held_in_slices_is_left_alone() -> None:
    """Eight instances of two GPUs are not eight GPUs."""
    fleet = Fleet()
    fleet.own("n1", ["G1", "G2"])
    at = {"node": "n1", "started_at": T, "ended_at": T + 1}
    fleet.add("inventory", [at | {"gpu_uuid": "MIG-1", "parent_uuid": "G1", "mig_slices": 1}])
    fleet.hold("slurm/alpha/1", "n1", ["MIG-1"], T, None)
    fleet.hold("slurm/alpha/2", "n1", ["G2"], T, None)
    fleet.analyze()
    with fleet.store.session() as session:
        assert read_now(session, T, END).entangled == {"n1"}
    fleet.store.close()


def test_a_run_that_has_just_begun_is_left_alone() -> None:
    """It may be over before it has earned its restart: what remains is taken to be as long as what has been."""
    losses = {run: replace(loss, age_us=WEEK_US // 168) for run, loss in TWO.losses.items()}
    assert planned(SPREAD, replace(TWO, losses=losses), WEEK_US) == []


def test_a_gang_may_move_though_the_fleet_is_small() -> None:
    """A twentieth of 48 GPUs is less than one node; then one gang is what moves at once, and no more."""
    fleet = fleet_problem(SPREAD, TWO, WEEK_US)
    assert fleet.problem.limits.moved_gpus_max == 16


def test_the_same_fleet_gives_the_same_plan() -> None:
    """Or the recommendation of this morning would not be that of the afternoon."""
    assert planned(SPREAD, TWO, WEEK_US) == planned(SPREAD, TWO, WEEK_US)
