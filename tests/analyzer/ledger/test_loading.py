"""How long a start lasts: as long as something is seen to load, and no longer than that."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.analyzer.ledger.copies import OnePass
from tests.analyzer.ledger.fleet import HOUR, MINUTE, MONDAY, SECOND, Beside, Fleet

Row = dict[str, Any]

T = MONDAY
RUN = "slurm/alpha/1"
POD = "kubernetes/prod/1"
GB = 10**9
MINUTE_MS = 60_000
# Another GPU, interval of samples, and size: sku, seconds, minutes of a load, GB on each GPU, is SM activity known
NEIGHBOURS = (("H200-141GB", 10, 43, 60, True), ("A100-80GB", 60, 100, 30, False), ("V100-32GB", 150, 27, 14, False))

one_pass = OnePass()


def _still(has_sm: bool, memory: int) -> Row:
    idle: Row = {"utilization_ratio": 0.0, "utilization_zero_ratio": 1.0, "memory_used_bytes": memory}
    return idle | {"sm_active_ratio": 0.0 if has_sm else None}


def _at_work(has_sm: bool, memory: int) -> Row:
    return {"memory_used_bytes": memory, "sm_active_ratio": 0.8 if has_sm else None}


def _spans(start: int, end: int, every: int) -> Iterator[tuple[int, int]]:
    return ((at, min(at + every, end)) for at in range(start, end, every))


def _grow(fleet: Fleet, gpu: str, end: int, every: int, size: int, has_sm: bool = True) -> None:
    """Let a GPU that does nothing take up memory, evenly, from the beginning until `end`."""
    rows = [
        {"node": "n1", "gpu_uuid": gpu, "up": True, "started_at": at, "ended_at": until}
        | _still(has_sm, 3 * GB + size * (until - T) // (end - T))
        for at, until in _spans(T, end, every)
    ]
    fleet.add("gpu_samples", rows)


def _tell(fleet: Fleet, table: str, start: int, end: int, every: int = MINUTE, **values: object) -> None:
    """Say the same of a host, or of a run on it, in each interval."""
    fleet.add(
        table,
        [{"node": "n1", "started_at": at, "ended_at": until, **values} for at, until in _spans(start, end, every)],
    )


def _minutes(fleet: Fleet, run: str = RUN) -> dict[str, int]:
    """Return a run's GPU-minutes by state; all is balanced."""
    assert fleet.unbalanced() == []
    found: dict[str, int] = {}
    for (state, _), ms in fleet.states(run).items():
        found[state] = found.get(state, 0) + ms
    return {state: ms // MINUTE_MS for state, ms in found.items()}


def _held(fleet: Fleet, sku: str = "H100-80GB", run: str = RUN, **more: Any) -> None:
    fleet.own("n1", ["G1", "G2"], sku=sku)
    fleet.hold(run, "n1", ["G1", "G2"], T, T + 4 * HOUR, **more)


@one_pass.each(*NEIGHBOURS)
def test_a_gpu_whose_memory_grows_is_starting(
    fleet: Fleet, sku: str, seconds: int, minutes: int, size: int, has_sm: bool
) -> Iterator[None]:
    """Weights from a network file system take longer than a quarter of an hour: nobody left that GPU unused."""
    _held(fleet, sku)
    every, work = seconds * SECOND, T + minutes * MINUTE
    for gpu in ("G1", "G2"):
        _grow(fleet, gpu, work, every, size * GB, has_sm)
        fleet.sample("n1", gpu, work, T + 4 * HOUR, every=every, **_at_work(has_sm, (size + 3) * GB))
    yield
    found = _minutes(fleet)
    assert found["starting"] == 2 * minutes
    assert "held_idle" not in found


@one_pass.each(*NEIGHBOURS)
def test_a_gpu_whose_peer_is_filled_first_starts_with_it(
    fleet: Fleet, sku: str, seconds: int, minutes: int, size: int, has_sm: bool
) -> Iterator[None]:
    """A model that is spread over several GPUs fills one after another."""
    _held(fleet, sku)
    every, work = seconds * SECOND, T + minutes * MINUTE
    _grow(fleet, "G1", work, every, size * GB, has_sm)
    fleet.sample("n1", "G2", T, work, every=every, **_still(has_sm, GB))
    for gpu in ("G1", "G2"):
        fleet.sample("n1", gpu, work, T + 4 * HOUR, every=every, **_at_work(has_sm, (size + 3) * GB))
    yield
    found = _minutes(fleet)
    assert found["starting"] == 2 * minutes


READS: list[tuple[str, Callable[[int], Row]]] = [
    ("disk_samples", lambda ms: {"device": "/mnt/w", "mount_kind": "nfs", "read_bytes": 300_000 * ms}),
    ("disk_samples", lambda ms: {"device": "nvme0n1", "mount_kind": "block", "read_bytes": 20_000 * ms}),
    ("network_samples", lambda ms: {"device": "eth0", "link_kind": "ethernet", "receive_bytes": 90_000 * ms}),
    ("run_samples", lambda ms: {"run_id": RUN, "read_bytes": 40_000 * ms}),
    ("process_samples", lambda ms: {"run_id": RUN, "gpu_uuid": "G1", "pid": 7, "cpu_seconds": 1.3 * ms / 1000}),
    ("run_samples", lambda ms: {"run_id": RUN, "cpu_seconds": 4.2 * ms / 1000}),
]


@one_pass.each(*((seconds, number) for seconds in (10, 60, 240) for number in range(len(READS))))
def test_a_host_that_reads_or_computes_for_a_run_without_work_loads(
    fleet: Fleet, seconds: int, number: int
) -> Iterator[None]:
    """Weights go into the memory of the host first, and a compiler needs processors alone: the GPU's memory rests."""
    every, work = seconds * SECOND, T + 48 * MINUTE
    table, values = READS[number]
    _held(fleet)
    _tell(fleet, table, T, work, every, **values(seconds * 1000))
    for gpu in ("G1", "G2"):
        fleet.sample("n1", gpu, T, work, every=every, **_still(True, GB))
        fleet.sample("n1", gpu, work, T + 4 * HOUR, every=every)
    yield
    assert _minutes(fleet)["starting"] == 2 * 48


@one_pass.each((10,), (30,))
def test_ranks_that_wait_in_a_barrier_have_not_begun(fleet: Fleet, seconds: int) -> Iterator[None]:
    """Rank 0 prepares data on processors while the other spins at 100%: nothing has worked, and nothing is lost."""
    end = T + HOUR // 2
    fleet.own("n1", ["G1", "G2"])
    fleet.hold(RUN, "n1", ["G1", "G2"], T, end, exit_status="failed")
    spins = {"sm_active_ratio": 0.1, "tensor_active_ratio": 0.0, "dram_active_ratio": 0.0, "memory_used_bytes": GB}
    fleet.sample("n1", "G1", T, end, seconds * SECOND, **_still(has_sm=True, memory=GB))
    fleet.sample("n1", "G2", T, T + MINUTE, seconds * SECOND, **_still(has_sm=True, memory=GB))
    fleet.sample("n1", "G2", T + MINUTE, end, seconds * SECOND, utilization_ratio=1.0, **spins)
    _tell(fleet, "run_samples", T, end, run_id=RUN, cpu_seconds=120.0)
    yield
    assert _minutes(fleet) == {"starting": 60}


@one_pass
def test_a_gpu_on_which_nothing_happens_is_never_used(fleet: Fleet) -> Iterator[None]:
    """It starts for a quarter of an hour, whatever is read for another run of its host."""
    _held(fleet)
    fleet.own("n1", ["G3"])
    fleet.hold("slurm/alpha/2", "n1", ["G3"], T, T + 4 * HOUR)
    fleet.sample("n1", "G3", T, T + 4 * HOUR)
    _tell(fleet, "disk_samples", T, T + 4 * HOUR, device="/mnt/w", mount_kind="nfs", read_bytes=10 * GB)
    _tell(fleet, "run_samples", T, T + 4 * HOUR, run_id="slurm/alpha/2", cpu_seconds=500.0, read_bytes=GB)
    _tell(fleet, "run_samples", T, T + 4 * HOUR, run_id=RUN, cpu_seconds=1.0, read_bytes=0)
    for gpu in ("G1", "G2"):
        fleet.sample("n1", gpu, T, T + 4 * HOUR, **_still(True, 3 * 10**6))
    yield
    assert _minutes(fleet) == {"starting": 30, "held_idle": 450}


@one_pass
def test_a_gauge_that_trembles_is_no_load(fleet: Fleet) -> Iterator[None]:
    """Three thousandths more every quarter of an hour, and then no more: nobody allocates."""
    _held(fleet)
    for gpu in ("G1", "G2"):
        for number, (at, until) in enumerate(_spans(T, T + 4 * HOUR, MINUTE)):
            fleet.sample("n1", gpu, at, until, **_still(True, 30 * GB + (number % 16 == 9) * 10**8))
    yield
    assert _minutes(fleet) == {"starting": 30, "held_idle": 450}


@one_pass
def test_a_gpu_beside_one_that_works_is_never_used(fleet: Fleet) -> Iterator[None]:
    """What is read and computed then is the work of the other."""
    _held(fleet)
    _tell(fleet, "run_samples", T, T + 4 * HOUR, run_id=RUN, cpu_seconds=500.0, read_bytes=GB)
    fleet.sample("n1", "G1", T, T + 2 * MINUTE, **_still(True, GB))
    fleet.sample("n1", "G1", T + 2 * MINUTE, T + 4 * HOUR, memory_used_bytes=20 * GB)
    fleet.sample("n1", "G2", T, T + 4 * HOUR, **_still(True, 3 * 10**6))
    yield
    assert _minutes(fleet)["held_idle"] == 225


@one_pass
def test_a_job_that_computes_on_processors_for_hours_does_not_load(fleet: Fleet) -> Iterator[None]:
    """An hour may be the preparation of a load; what goes on holds GPUs for nothing."""
    _held(fleet)
    _tell(fleet, "run_samples", T, T + 4 * HOUR, run_id=RUN, cpu_seconds=500.0, read_bytes=GB)
    for gpu in ("G1", "G2"):
        fleet.sample("n1", gpu, T, T + 4 * HOUR, **_still(True, 3 * 10**6))
    yield
    assert _minutes(fleet) == {"starting": 120, "held_idle": 360}


@one_pass.each((10, 0.03), (60, 0.02), (240, 0.045))
def test_a_gpu_that_hardly_works_is_not_loading(fleet: Fleet, seconds: int, activity: float) -> Iterator[None]:
    """One core feeds it a little, for hours, and its memory rests: that core is its work."""
    _held(fleet)
    every = seconds * SECOND
    _tell(fleet, "run_samples", T, T + 4 * HOUR, run_id=RUN, cpu_seconds=63.0)
    hardly = {"utilization_ratio": activity, "utilization_zero_ratio": 1 - activity, "sm_active_ratio": None}
    fleet.sample("n1", "G1", T, T + 4 * HOUR, every=every, **hardly, memory_used_bytes=2 * GB)
    fleet.sample("n1", "G2", T, T + 4 * HOUR, every=every, **_still(False, 3 * 10**6))
    yield
    found = _minutes(fleet)
    assert (found["starting"], found["held_idle"]) == (30, 225)


@one_pass
def test_a_load_that_pauses_for_longer_than_a_start_takes_is_over(fleet: Fleet) -> Iterator[None]:
    """Half of it came, then nothing: what is held after it is not starting."""
    _held(fleet)
    for gpu in ("G1", "G2"):
        _grow(fleet, gpu, T + 20 * MINUTE, MINUTE, 30 * GB)
        fleet.sample("n1", gpu, T + 20 * MINUTE, T + 2 * HOUR, **_still(True, 33 * GB))
        fleet.sample("n1", gpu, T + 2 * HOUR, T + 4 * HOUR, **_still(True, 60 * GB))
    yield
    assert _minutes(fleet) == {"starting": 40, "held_idle": 440}


@one_pass
def test_a_person_who_computes_in_a_session_does_not_load(fleet: Fleet) -> Iterator[None]:
    """A notebook computes on its host's processors: that is no model on its way."""
    fleet.own("n1", ["G1"])
    fleet.hold(RUN, "n1", ["G1"], T, T + 4 * HOUR, name="jupyter")
    _tell(fleet, "run_samples", T, T + 4 * HOUR, run_id=RUN, cpu_seconds=500.0, read_bytes=GB)
    fleet.sample("n1", "G1", T, T + 4 * HOUR, **_still(True, GB))
    yield
    assert _minutes(fleet)["starting"] == 15


@one_pass.each(*NEIGHBOURS)
def test_kernels_before_the_memory_is_there_are_no_work(
    fleet: Fleet, sku: str, seconds: int, minutes: int, size: int, has_sm: bool
) -> Iterator[None]:
    """Weights are unpacked and graphs captured on the GPU: a tenth of it is busy, and then its memory grows."""
    _held(fleet, sku)
    every, loaded = seconds * SECOND, T + minutes * MINUTE
    work = loaded + 10 * MINUTE
    capturing: Row = {
        "utilization_ratio": 0.2,
        "utilization_zero_ratio": 0.8,
        "sm_active_ratio": 0.1 if has_sm else None,
    }
    for gpu in ("G1", "G2"):
        _grow(fleet, gpu, loaded, every, size * GB, has_sm)
        fleet.sample("n1", gpu, loaded, work, every=every, **capturing, memory_used_bytes=(size + 10) * GB)
        fleet.sample("n1", gpu, work, T + 4 * HOUR, every=every, **_at_work(has_sm, (size + 16) * GB))
    yield
    found = _minutes(fleet)
    assert found["starting"] == 2 * (minutes + 10)


@one_pass
def test_a_replica_that_has_loaded_for_long_waits_for_requests(fleet: Fleet) -> Iterator[None]:
    """Its load is a start, and what follows is the reserve of a service that has told of itself."""
    _held(fleet, run=POD, name="coder", scheduler="kubernetes")
    loaded = T + 43 * MINUTE
    for gpu in ("G1", "G2"):
        _grow(fleet, gpu, loaded, MINUTE, 60 * GB)
        fleet.sample("n1", gpu, loaded, T + 4 * HOUR, **_still(True, 63 * GB))
    # An engine that spins in wait of requests computes, and loads nothing once it tells of itself.
    _tell(fleet, "run_samples", T, T + 4 * HOUR, run_id=POD, cpu_seconds=90.0)
    _tell(fleet, "service_samples", loaded, T + 4 * HOUR, run_id=POD, requests=0, running=0)
    yield
    found = _minutes(fleet, POD)
    assert found["starting"] == 2 * 43
    assert set(found) == {"starting", "headroom", "held_idle"}


@pytest.mark.parametrize("size", [30, pytest.param(20, marks=pytest.mark.soak)])
def test_a_load_is_the_same_however_its_rows_arrive(size: int) -> None:
    """It takes longer than an hour looks ahead: each hour goes on from the one before, and no later word is missed.

    One host tells all in parts of about an hour; of the other, beside it, what its run computed comes after all else.
    """
    rows: list[tuple[str, Row]] = []

    class Recorder(Fleet):
        def add(self, table: str, rows_of: Any) -> None:
            rows.extend((table, dict(row)) for row in rows_of)

    recorder = Recorder()
    recorder.own("n1", ["G1", "G2"])
    recorder.hold(RUN, "n1", ["G1", "G2"], T + 20 * MINUTE, T + 6 * HOUR)
    for gpu in ("G1", "G2"):
        _grow(recorder, gpu, T + 130 * MINUTE, 5 * MINUTE, 40 * GB)
        recorder.sample("n1", gpu, T + 130 * MINUTE, T + 190 * MINUTE, every=5 * MINUTE, **_still(True, 43 * GB))
        recorder.sample("n1", gpu, T + 190 * MINUTE, T + 6 * HOUR, every=5 * MINUTE)
    _tell(recorder, "run_samples", T + 130 * MINUTE, T + 190 * MINUTE, 5 * MINUTE, run_id=RUN, cpu_seconds=600.0)
    at_once, in_parts = Fleet(), Fleet()
    for fleet in _two(at_once):
        for table, row in rows:
            fleet.add(table, [row])
    at_once.analyze()
    assert [_minutes(fleet)["starting"] for fleet in _two(at_once)] == [2 * 170] * 2
    known = [(table, row) for table, row in rows if table in ("ownership", "allocations")]
    told = [(table, row) for table, row in rows if (table, row) not in known]
    hourly = sorted(told, key=lambda one: int(str(one[1]["started_at"])))
    late = sorted(hourly, key=lambda one: one[0] == "run_samples")
    for first in range(0, len(told), size):
        for fleet, order in zip(_two(in_parts), (hourly, late), strict=True):
            for table, row in [*(known if first == 0 else ()), *order[first : first + size]]:
                fleet.add(table, [row])
        in_parts.analyze()
    assert in_parts.rows() == at_once.rows()


def _two(store: Fleet) -> tuple[Beside, Beside]:
    return Beside(store, "~hourly"), Beside(store, "~late")


@pytest.mark.parametrize("table", ["disk_samples", pytest.param("run_samples", marks=pytest.mark.soak)])
def test_what_is_read_beyond_an_hour_says_late_that_the_hour_before_was_starting(table: str) -> None:
    """It reads until ten minutes before the hour, and from two minutes after it on: so far it was a pause."""
    values = dict(READS)[table](MINUTE // 1000) if table == "disk_samples" else {"run_id": RUN, "cpu_seconds": 90.0}
    ledgers = []
    for is_late in (False, True):
        fleet = Fleet()
        fleet.own("n1", ["G1"])
        fleet.hold(RUN, "n1", ["G1"], T + 30 * MINUTE, T + 4 * HOUR)
        fleet.sample("n1", "G1", T, T + 90 * MINUTE, **_still(True, GB))
        fleet.sample("n1", "G1", T + 90 * MINUTE, T + 4 * HOUR)
        _tell(fleet, table, T + 30 * MINUTE, T + 50 * MINUTE, **values)
        if is_late:
            fleet.analyze()
            assert _minutes(fleet)["starting"] == 20
        _tell(fleet, table, T + 62 * MINUTE, T + 90 * MINUTE, **values)
        fleet.analyze()
        assert _minutes(fleet)["starting"] == 60
        ledgers.append(fleet.rows())
    assert ledgers[0] == ledgers[1]
