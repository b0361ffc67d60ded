"""The reading: bytes of a run, of its time and hosts alone, from samples as from minutes."""

import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from analyzer.measures.traffic.matrix import Cell, ClassBytes
from analyzer.measures.traffic.run_traffic import RunTraffic, read_traffic
from collector.lake.tiers import Span, planned, roll_hours, roll_minutes
from collector.store.books import mirror
from collector.store.database import Store
from collector.store.lake import default_lake
from collector.store.schemas import make_tier_tables
from collector.tier_tables import tiered
from tests.analyzer.ledger.copies import OnePass, made_once
from tests.analyzer.ledger.fleet import MINUTE, Fleet
from tests.analyzer.measures.traffic_small_runs import END, T, alternating, flows, host, links
from tests.campaign import cases

RUN = "slurm/alpha/1"


def read(fleet: Fleet, *runs: str, until: int = END) -> dict[str, RunTraffic]:
    """Return the traffic of the hour, as a pass books it."""
    fleet.analyze()
    return booked(fleet, *runs, until=until)


one_pass = OnePass()


def booked(fleet: Fleet, *runs: str, until: int = END) -> dict[str, RunTraffic]:
    """Return the traffic of the hour, as a pass has booked it, by the runs' own names; hosts keep what they have."""
    names = [f"{run}{fleet.names_end}" for run in runs or (RUN,)]
    with fleet.store.session() as session:
        found = read_traffic(session, names, T, until)
    return {run.removesuffix(fleet.names_end): traffic for run, traffic in found.items()}


@made_once
def analysed() -> Fleet:
    """Return the run over two racks after a pass."""
    fleet = alternating()
    fleet.analyze()
    return fleet


def found_again(fleet: Fleet) -> RunTraffic:
    """Return what is read of its run without another pass."""
    with fleet.store.session() as session:
        return read_traffic(session, (RUN,), T, END)[RUN]


def test_a_run_over_two_racks_hand_counted() -> None:
    """Four hosts, an hour of six intervals: every figure of the report."""
    found = found_again(analysed())
    assert found.classes == (
        ClassBytes("gpu_link", 4 * 2 * 60 * 1_000, 0),
        ClassBytes("across_racks", 4 * 6 * 1_005_000_000, 4 * 6 * 1_000_000_000),
        ClassBytes("outside", 4 * 6 * 51_000_000, 0),
    )
    assert [(one.level, one.crossings, one.contiguous, one.interleaved) for one in found.rings] == [
        ("rack", 4, 2, 4),
        ("block", None, None, None),
        ("zone", 0, 0, 0),
    ]
    assert found.rings[1].missing == "the block of n0 and of 3 more is unknown"
    assert found.ordered is not None
    assert (found.ordered.now_bytes, found.ordered.contiguous_bytes) == (24_000_000_000, 12_000_000_000)
    # Each Ethernet link, an interval: in 60 - 50 - 3 from the host before - 2 from the next; out 20 - 1 - 3 - 2 MB.
    assert found.unattributed_bytes == 24 * (5_000_000 + 14_000_000)
    assert found.link_bytes == 24 * (80_000_000 + 2_000_000_000)
    assert (found.missing, found.doubts, found.bills) == ((), (), ())


@one_pass
def test_what_others_did_before_and_after_is_theirs(fleet: Fleet) -> Iterator[None]:
    """A sample that two runs' time divides is divided by time, to the byte; neither host is shared."""
    gpus, edge = host(fleet, "n0", "rack-1"), T + 25 * MINUTE
    fleet.hold("slurm/alpha/1", "n0", gpus, T, edge)
    fleet.hold("slurm/alpha/2", "n0", gpus, edge, END)
    links(fleet, "n0", "ethernet", 7, 1_001)
    yield
    both = booked(fleet, "slurm/alpha/1", "slurm/alpha/2")
    sent = [[one.link_bytes for one in run.matrix.balances if one.way == "out"] for run in both.values()]
    assert sent == [[2 * 1_001 + 500], [3 * 1_001 + 501]]
    assert not any(run.hosts[0].is_shared for run in both.values())


def test_a_shared_host_is_marked_and_its_ports_are_nobodys() -> None:
    """Two runs on one host for half of the hour: the other's flows are told apart, the ports are not."""
    fleet = alternating(2)
    fleet.hold("slurm/alpha/9", "n0", ["n0g1"], T + 30 * MINUTE, END)
    flows(fleet, "slurm/alpha/9", "n0", "nas1", 4_000_000, 0)
    flows(fleet, "unattributed/n0", "n0", "nas1", 1_000_000, 0)
    found = read(fleet)[RUN]
    first, second = found.hosts
    assert (first.node, first.shared_permille, first.is_shared, second.is_shared) == ("n0", 500, True, False)
    assert any("n0 shared with other runs" in why for why in found.missing)
    ring = {cell.from_: cell.bytes for cell in found.matrix.cells if cell.basis == "ring"}
    assert ring == {"n0": 3_000_000_000, "n1": 6_000_000_000}
    out = next(one for one in found.matrix.balances if (one.node, one.link, one.way) == ("n0", "rdma", "out"))
    assert (out.link_bytes, out.unattributed_bytes) == (6_000_000_000, 3_000_000_000)
    into = next(one for one in found.matrix.balances if (one.node, one.link, one.way) == ("n0", "ethernet", "in"))
    assert into.other_runs_bytes == 6 * 4_000_000
    assert into.unattributed_bytes == 6 * (60_000_000 - 50_000_000 - 3_000_000 - 4_000_000)


@one_pass
def test_a_run_is_found_under_the_names_that_hosts_have_for_it(fleet: Fleet) -> Iterator[None]:
    """A pod's name leads to the run it belongs to, and the pod's flows are the run's own."""
    gpus = host(fleet, "n0", "rack-1")
    fleet.hold("kubernetes/prod/job", "n0", gpus, T, END, rank=0)
    fleet.add("run_aliases", [{"alias_run_id": "kubernetes/prod/pod", "run_id": "kubernetes/prod/job"}])
    fleet.hold("kubernetes/prod/pod", "n0", gpus, T + MINUTE, None, scheduler="cgroup")
    flows(fleet, "kubernetes/prod/pod", "n0", "52.216.1.1", 10, 20)
    yield
    found, node = booked(fleet, "kubernetes/prod/job")["kubernetes/prod/job"], f"n0{fleet.names_end}"
    assert found.matrix.cells == (Cell("52.216.1.1", node, 60, "tcp"), Cell(node, "52.216.1.1", 120, "tcp"))
    assert not found.hosts[0].is_shared
    assert f"no links were reported on {node}" in found.missing


@one_pass
def test_an_unknown_rack_claims_nothing(fleet: Fleet) -> Iterator[None]:
    """The ring says whose rack is unknown; its bytes are not called rack-local, and ordering promises nothing."""
    for number, rack in enumerate(("rack-1", None)):
        gpus = host(fleet, f"n{number}", rack)
        fleet.hold(RUN, f"n{number}", gpus, T, END, rank=number)
        links(fleet, f"n{number}", "infiniband", 10, 10)
    yield
    found = booked(fleet)[RUN]
    assert found.rings[0].missing == f"the rack of n1{fleet.names_end} is unknown"
    assert found.ordered is None
    assert {one.locality for one in found.classes} == {"gpu_link", "unknown"}


@one_pass
def test_an_attempt_on_other_hosts_has_its_own_ring(fleet: Fleet) -> Iterator[None]:
    """n1 died after twenty minutes and n2 took its place: each attempt's bytes go around its own ring."""
    for node in ("n0", "n1", "n2"):
        host(fleet, node, "rack-1")
        links(fleet, node, "infiniband", 100, 100)
    break_at, again = T + 20 * MINUTE, T + 30 * MINUTE
    for rank, node in enumerate(("n0", "n1")):
        fleet.hold(RUN, node, [f"{node}g0", f"{node}g1"], T, break_at, rank=rank, attempt=0)
    for rank, node in enumerate(("n0", "n2")):
        fleet.hold(RUN, node, [f"{node}g0", f"{node}g1"], again, END, rank=rank, attempt=1)
    yield
    found, end = booked(fleet)[RUN], fleet.names_end
    cells = {(cell.from_.removesuffix(end), cell.to.removesuffix(end)): cell.bytes for cell in found.matrix.cells}
    assert cells == {
        ("n0", "n1"): 200,
        ("n1", "n0"): 200,
        ("n0", "n2"): 300,
        ("n2", "n0"): 300,
    }
    assert [host.node.removesuffix(end) for host in found.hosts] == ["n0", "n2", "n1"]


@one_pass
def test_a_host_that_nobody_told_of_leaves_its_rest_unknown(fleet: Fleet) -> Iterator[None]:
    """Without links there is nothing to hold the flows against: unknown, not 0."""
    gpus = host(fleet, "n0", "rack-1")
    fleet.hold(RUN, "n0", gpus, T, END)
    flows(fleet, RUN, "n0", "nas1", 5, 5)
    yield
    found = booked(fleet)[RUN]
    assert (found.link_bytes, found.unattributed_bytes) == (None, None)
    assert all(one.unattributed_bytes is None for one in found.matrix.balances)
    assert booked(fleet, "slurm/alpha/none") == {}


def test_what_crossing_racks_costs_is_the_ledgers() -> None:
    """GPU time that the ledger booked, not a price a byte; the same run has no bill."""
    fleet = analysed()
    with fleet.store.session() as session:
        session.execute(
            "INSERT INTO ledger (hour, gpu_uuid, node, run_id, state, cause, shared, milliseconds, cost_micros, "
            "rules_version) VALUES (?, 'n0g0', 'n0', ?, 'communicating', 'cross_rack', false, 90000, 65000, '1')",
            [T, RUN],
        )
    found = found_again(fleet)
    assert found.waited is not None
    assert (found.waited.milliseconds, found.waited.cost_micros, found.bills) == (90_000, 65_000, ())


def hour_of(draw: Random) -> tuple[list[int], int, int]:
    """Draw where runs cut the hour, in minutes, and the bytes of a link in each interval of so many seconds."""
    edges = draw.sample(range(1, 60), draw.randint(0, 3))
    return edges, draw.choice([1, 7, draw.randint(1, 10**13)]), draw.randint(7, 600)


@pytest.mark.parametrize("seeds", cases(96, here=12))
def test_runs_after_one_another_have_every_byte_once(seeds: range) -> None:
    """However intervals and runs cut the hour, what the links of a host carried is its runs', to the byte."""
    hosts = [hour_of(Random(seed)) for seed in seeds]
    fleet = Fleet()
    for number, (edges, amount, every) in enumerate(hosts):
        node, gpus = f"n{number}", host(fleet, f"n{number}", "rack-1")
        cuts = [T, *(T + edge * MINUTE + 1 for edge in sorted(edges)), END]
        for run, (start, end) in enumerate(itertools.pairwise(cuts)):
            fleet.hold(f"slurm/n{number}/{run}", node, gpus, start, end)
        links(fleet, node, "ethernet", amount, amount // 3, every=every * 1_000_000)
    runs = [f"slurm/n{number}/{run}" for number, (edges, _, _) in enumerate(hosts) for run in range(len(edges) + 1)]
    sums = dict.fromkeys(itertools.product((f"n{number}" for number in range(len(hosts))), ("in", "out")), 0)
    for traffic in read(fleet, *runs).values():
        for one in traffic.matrix.balances:
            sums[one.node, one.way] += one.link_bytes or 0
            assert one.unattributed_bytes == one.link_bytes
    for number, (_, amount, every) in enumerate(hosts):
        intervals = -(-3_600 // every)
        sent, received = sums[f"n{number}", "out"], sums[f"n{number}", "in"]
        assert (received, sent) == (amount * intervals, amount // 3 * intervals)
    fleet.store.close()


def roll_up(fleet: Fleet) -> None:
    """Roll the hour up and let its samples expire, in a store of a release that booked no amounts."""
    make_tier_tables(fleet.store)
    with fleet.store.session() as session:
        for name in ("network_samples", "flow_samples", "gpu_samples"):
            table = tiered(name)
            for portion in planned(session, table, Span(T, END)):
                roll_minutes(session, portion)
            roll_hours(session, table, Span(T, END))
            session.execute(f"DELETE FROM {name}")
            session.execute(f"INSERT INTO retention VALUES ('{name}', {END}, 1, 'age', {END})")
        session.execute(f"INSERT INTO tier_marks VALUES (-1, {END})")
        session.execute("DELETE FROM traffic_amounts")
        session.execute("DELETE FROM amount_hours")


def test_hours_say_what_samples_said() -> None:
    """Where samples have expired, the roll-ups of the same hour give the same matrix."""
    fleet = analysed()
    before = found_again(fleet)
    roll_up(fleet)
    assert read(fleet)[RUN] == before


def test_an_hour_in_which_a_run_ends_is_read_by_the_minute() -> None:
    """What the next run moved in the rest of the hour is not spread over both."""
    fleet, edge = Fleet(), T + 20 * MINUTE
    gpus = host(fleet, "n0", "rack-1")
    fleet.hold(RUN, "n0", gpus, T, edge)
    fleet.hold("slurm/alpha/2", "n0", gpus, edge, END)
    port = {"node": "n0", "device": "eth0", "link_kind": "ethernet", "receive_bytes": 0}
    quiet = {"started_at": T, "ended_at": edge, "transmit_bytes": 20}
    loud = {"started_at": edge, "ended_at": END, "transmit_bytes": 4_000}
    fleet.add("network_samples", [port | quiet, port | loud])
    before = read(fleet, RUN, "slurm/alpha/2")
    roll_up(fleet)
    after = read(fleet, RUN, "slurm/alpha/2")
    assert [run.link_bytes for run in after.values()] == [20, 4_000]
    assert after == before


def test_a_reader_of_the_lake_sees_the_same(tmp_path: Path) -> None:
    """Beside a running server only the lake can be read, within one snapshot and without writing."""
    path = tmp_path / "hot.duckdb"
    with Store.open(path, lake=default_lake(path)) as store:
        alternating(fleet=Fleet(store)).analyze()
        mirror(store)
        script = (
            "import sys; from pathlib import Path; from collector.store.database import Store\n"
            "from analyzer.measures.traffic.run_traffic import read_traffic\n"
            "with Store.open(Path(sys.argv[1]), read_only=True) as store, store.session() as session:\n"
            "    with session.transaction():\n"
            f"        print(store.hot, read_traffic(session, ['{RUN}'], {T}, {END})['{RUN}'].classes)"
        )
        found = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    assert found.stdout == f"None {found_again(analysed()).classes}\n"
