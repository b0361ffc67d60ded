"""What is booked anew is what could have changed, and however a pass is cut or cut off, the ledger is the same."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from analyzer.analysis import analyze
from analyzer.ledger import pending
from analyzer.settings.settings import Settings
from tests.analyzer import small_site as site
from tests.analyzer.ledger.copies import made_once
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, MONDAY, Fleet, Row
from tests.analyzer.ledger.generated import generate
from tests.analyzer.small_site import _exchange, _exchanges, analysed_site, small_site

T = MONDAY
HOSTS = 6
IDLE: dict[str, Any] = {"utilization_ratio": 0.0, "utilization_zero_ratio": 1.0, "sm_active_ratio": 0.0}


@made_once
def fleet_of_runs() -> Fleet:
    """Return hosts of two GPUs for six hours, each with a run of its own, analysed once."""
    fleet = Fleet()
    for number in range(HOSTS):
        node = f"n{number}"
        fleet.own(node, [f"{node}g0", f"{node}g1"])
        fleet.hold(f"slurm/alpha/{number}", node, [f"{node}g0", f"{node}g1"], T, T + 6 * HOUR)
        for gpu in (f"{node}g0", f"{node}g1"):
            fleet.sample(node, gpu, T, T + 2 * HOUR)
            fleet.sample(node, gpu, T + 3 * HOUR, T + 6 * HOUR)
    fleet.analyze()
    return fleet


@made_once
def open_run() -> Fleet:
    """Return a GPU of a run that has worked for six hours and has not ended, analysed once."""
    fleet = Fleet()
    fleet.own("n0", ["n0g0"])
    fleet.hold("slurm/alpha/long", "n0", ["n0g0"], T)
    fleet.sample("n0", "n0g0", T, T + 6 * HOUR)
    fleet.analyze()
    return fleet


def test_nothing_new_books_nothing() -> None:
    """A pass a minute over a store that rests must cost nothing."""
    fleet = fleet_of_runs()
    assert fleet.analyze().hours == 0


def test_late_samples_open_their_own_hours_and_the_later_ones_of_their_run() -> None:
    """A host that was cut off for an hour must not make the fleet's week anew.

    What came of the third hour touches it, the neighbours that see its edges, and, of the run, what looks back on it:
    hours two to six of both its GPUs.
    """
    fleet = fleet_of_runs()
    fleet.sample("n1", "n1g0", T + 2 * HOUR, T + 3 * HOUR)
    assert fleet.analyze().gpu_hours == 5 * 2


def test_a_gpu_at_work_leaves_the_hour_before_alone() -> None:
    """A pass a minute would else book two hours of the whole fleet, for what only a quiet GPU's edge can change."""
    fleet = fleet_of_runs()
    for number in range(HOSTS):
        for gpu in (0, 1):
            fleet.hold(f"slurm/alpha/next{number}", f"n{number}", [f"n{number}g{gpu}"], T + 6 * HOUR)
            fleet.sample(f"n{number}", f"n{number}g{gpu}", T + 6 * HOUR, T + 7 * HOUR)
    fleet.analyze()
    for number in range(HOSTS):
        for gpu in (0, 1):
            fleet.sample(f"n{number}", f"n{number}g{gpu}", T + 7 * HOUR, T + 8 * HOUR)
    assert fleet.analyze().gpu_hours == HOSTS * 2


def test_quiet_on_both_sides_of_an_hour_makes_the_hour_before_anew() -> None:
    """Only then is it longer than it looked: one GPU of one run is quiet as the hour ends, two as the next begins."""
    fleet = fleet_of_runs()
    for node, before in (("n0", IDLE), ("n1", {})):
        fleet.hold(f"slurm/alpha/next-{node}", node, [f"{node}g0"], T + 6 * HOUR)
        fleet.sample(node, f"{node}g0", T + 6 * HOUR, T + 7 * HOUR - 20 * MINUTE)
        fleet.sample(node, f"{node}g0", T + 7 * HOUR - 20 * MINUTE, T + 7 * HOUR, **before)
    fleet.analyze()
    for node in ("n0", "n1"):
        fleet.sample(node, f"{node}g0", T + 7 * HOUR, T + 7 * HOUR + 20 * MINUTE, **IDLE)
        fleet.sample(node, f"{node}g0", T + 7 * HOUR + 20 * MINUTE, T + 8 * HOUR)
    assert fleet.analyze().gpu_hours == HOSTS * 2 + 1
    assert fleet.states()["held_idle", "abandoned"] == 40 * MINUTE // 1000


def test_a_run_that_ends_leaves_what_it_did_before_alone() -> None:
    """Runs of weeks end every hour somewhere; a fleet that made all of their hours anew would do little else."""
    fleet = open_run()
    fleet.hold("slurm/alpha/long", "n0", ["n0g0"], T, T + 5 * HOUR + 30 * MINUTE, exit_status="completed")
    assert fleet.analyze().gpu_hours == 1
    assert fleet.states()["unallocated", "free"] == 30 * MINUTE // 1000


@pytest.mark.parametrize(
    ("said", "gpu_hours"),
    [({"exit_status": "failed"}, 6), ({"account": "another"}, 6), ({"exit_status": "cancelled"}, 1)],
)
def test_an_end_that_says_more_touches_the_whole_run(said: dict[str, Any], gpu_hours: int) -> None:
    """A failure loses work from the last checkpoint on, and another account is another team's money all along."""
    fleet = open_run()
    fleet.hold("slurm/alpha/long", "n0", ["n0g0"], T, T + 5 * HOUR + 30 * MINUTE, **said)
    assert fleet.analyze().gpu_hours == gpu_hours


@pytest.mark.parametrize(
    ("seed", "hosts"), [(20, 4), *(pytest.param(seed, 12, marks=pytest.mark.soak) for seed in (5, 12, 20, 24))]
)
def test_a_ledger_made_before_the_ends_are_told_is_the_one_made_after(seed: int, hosts: int) -> None:
    """A scheduler tells first that a run began, and hours later that it ended: nothing of the open run may stay."""
    told: list[Row] = []
    at_once, live = Fleet(), Fleet(threads=2)

    class Recorder(Fleet):
        def add(self, table: str, rows: Iterable[Mapping[str, object]]) -> None:
            rows = [dict(row) for row in rows]
            at_once.add_each(table, rows)
            if table == "allocations":
                told.extend(map(dict, rows))
                rows = [{**row, "ended_at": None, "exit_status": None} for row in rows]
            live.add_each(table, rows)

    generate(Recorder(), seed, hosts)
    at_once.analyze(now=T + 3 * DAY)
    live.analyze(now=T + 3 * DAY)
    assert live.rows() != at_once.rows()
    half = -(-len(told) // 2)
    for part in (told[:half], told[half:]):
        live.add("allocations", part)
        live.analyze(now=T + 3 * DAY)
    assert live.rows() == at_once.rows()


def test_a_disk_touches_the_gpus_of_its_host_alone() -> None:
    """What a host wrote says something of who worked there, in that hour and the later ones, and of nobody else."""
    fleet = fleet_of_runs()
    fleet.write("n2", T + 4 * HOUR, T + 4 * HOUR + MINUTE)
    assert fleet.analyze().gpu_hours == 2 * 2


@pytest.mark.parametrize(
    ("size", "hosts"),
    [
        (6, 2),
        *(
            pytest.param(size, hosts, marks=pytest.mark.soak)
            for size, hosts in ((3, 2), (3, 3), (1, 12), (3, 12), (40, 12))
        ),
    ],
)
def test_a_ledger_made_in_small_chunks_is_the_one_made_at_once(
    size: int, hosts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory decides how much is booked at once, and nothing else may depend on it: runs that share, MIG."""
    ledgers = []
    for cut in (False, True):
        fleet = Fleet()
        generate(fleet, 7, hosts)
        if cut:
            monkeypatch.setattr(pending, "GPU_HOURS", size)
            monkeypatch.setattr(pending, "GPUS", size)
        fleet.analyze(now=T + 3 * DAY)
        ledgers.append(fleet.rows())
    with fleet.store.session() as session:
        assert session.rows("SELECT 1 FROM ledger WHERE shared")
        assert session.rows("SELECT 1 FROM inventory WHERE parent_uuid IS NOT NULL")
    assert ledgers[0] == ledgers[1]


def test_no_part_of_an_hour_divides_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks that wait for a slow one are judged beside it, also where each GPU would be a part of its own."""
    ledgers = []
    for gpu_hours, gpus in ((pending.GPU_HOURS, pending.GPUS), (1, 1)):
        monkeypatch.setattr(pending, "GPU_HOURS", gpu_hours)
        monkeypatch.setattr(pending, "GPUS", gpus)
        fleet = Fleet()
        for number in range(8):  # GPUs of two runs that lie between each other
            fleet.own(f"n{number}", [f"g{number}"])
            fleet.hold(f"slurm/alpha/{number % 2}", f"n{number}", [f"g{number}"], T, rank=number // 2)
            active: dict[str, Any] = {"sm_active_ratio": 0.9 if number == 0 else 0.54}
            links: dict[str, Any] = {"nvlink_receive_bytes": 10**12, "nvlink_transmit_bytes": 10**12}
            fleet.sample(f"n{number}", f"g{number}", T, T + HOUR, **active, **links)
        fleet.analyze()
        assert ("communicating", "straggler") in fleet.states()
        ledgers.append(fleet.rows())
    assert ledgers[0] == ledgers[1]


@pytest.mark.parametrize("fill", [_exchanges, pytest.param(small_site, marks=pytest.mark.soak)])
def test_the_fabric_is_learned_from_all_parts(fill: Callable[[Fleet], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """A run across racks may be booked before those that show what a rack gives: it is then judged once more."""
    monkeypatch.setattr(site, "CROSSING_HOSTS", tuple(f"c{number}" for number in range(8)))  # before all others
    whole, parts = Fleet(), Fleet()
    for fleet in (whole, parts):
        fill(fleet)
    whole.analyze()
    monkeypatch.setattr(pending, "GPU_HOURS", 1)
    monkeypatch.setattr(pending, "GPUS", 8)
    parts.analyze()
    assert ("communicating", "cross_rack") in whole.states()
    assert parts.rows() == whole.rows()


def test_the_fabric_may_be_learned_late() -> None:
    """Telemetry of the run that shows what a rack gives comes in last, and brings that run's hours alone."""
    at_once, late = Fleet(), Fleet()
    for fleet in (at_once, late):
        for rank, node in enumerate(site.CROSSING_HOSTS):
            _exchange(fleet, "slurm/alpha/crossing", node, f"rack-{1 + rank % 2}", rank, 2.5)
    late.analyze()
    for fleet in (at_once, late):
        for rank, node in enumerate(("r0", "r1")):
            _exchange(fleet, "slurm/alpha/inside", node, "rack-1", rank, 10)
        fleet.analyze()
    assert ("communicating", "cross_rack") in at_once.states()
    assert late.rows() == at_once.rows()


@pytest.mark.parametrize("cut", [12, pytest.param(6, marks=pytest.mark.soak)])
def test_a_hang_of_half_a_day_is_one_however_it_is_cut(cut: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What its links carried lies further back than an hour looks: it is known within a chunk as from a former one."""
    ledgers = []
    for gpu_hours in (pending.GPU_HOURS, cut):
        monkeypatch.setattr(pending, "GPU_HOURS", gpu_hours)
        fleet = Fleet()
        fleet.own("n0", ["g0", "g1"])
        fleet.hold("slurm/alpha/1", "n0", ["g0", "g1"], T)
        for gpu in ("g0", "g1"):
            fleet.sample("n0", gpu, T, T + 2 * HOUR, nvlink_receive_bytes=10**12, nvlink_transmit_bytes=10**12)
            silent: dict[str, Any] = {"sm_active_ratio": 0.02, "nvlink_receive_bytes": 0, "nvlink_transmit_bytes": 0}
            fleet.sample("n0", gpu, T + 2 * HOUR, T + 12 * HOUR, **silent)
        fleet.analyze()
        ledgers.append(fleet.rows())
        assert fleet.states()["communicating", "hang"] == 2 * 10 * HOUR // 1000
    assert ledgers[0] == ledgers[1]


# The first dies with an hour booked and the next one in half.
@pytest.mark.parametrize(
    ("after", "gpus"), [(3, 14), *(pytest.param(after, 8, marks=pytest.mark.soak) for after in (1, 2, 5))]
)
def test_a_pass_that_is_cut_off_is_made_good_by_the_next(
    after: int, gpus: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server may be killed between any two transactions: no hour is lost by it, and none counted twice."""
    whole, killed = analysed_site(), small_site()
    monkeypatch.setattr(pending, "GPU_HOURS", 20)
    monkeypatch.setattr(pending, "GPUS", gpus)
    with pytest.raises(KeyboardInterrupt):
        analyze(killed.store, Settings(), now_us=T + DAY, progress=_dies(after))
    killed.analyze()
    assert killed.rows() == whole.rows()
    assert killed.analyze().hours == 0


def _dies(after: int) -> Callable[[int, int], None]:
    def progress(done: int, _: int) -> None:
        if done == after:
            raise KeyboardInterrupt

    return progress


def test_a_second_analyzer_counts_nothing_twice() -> None:
    """Two passes over the same store, one right after the other, leave one ledger."""
    fleet = fleet_of_runs()
    before = fleet.rows()
    fleet.sample("n1", "n1g0", T + 2 * HOUR, T + 3 * HOUR)
    for _ in range(2):
        analyze(fleet.store, Settings(), now_us=T + DAY)
    assert len(fleet.rows()) != 0
    assert fleet.rows() != before
    assert fleet.unbalanced() == []
