"""What a snapshot keeps: bounded, each source by itself, and never longer than it is true."""

import threading

import pytest
from prometheus_client import generate_latest

from agent.metrics.families import registry
from agent.metrics.snapshot import MOST_SERIES, Holders, LabelledHolder, Snapshot
from agent.sampling.sampler import Stamped
from agent.source import Row
from agent.wire.tables import TABLES
from agent.wire.units import SECOND_US
from tests.fake_clock import FakeClock

SECOND = SECOND_US
HELD: Row = {"gpu_uuid": "GPU-0", "run_id": "slurm/alpha/1", "scheduler": "cgroup", "started_at": 1, "user": "mira"}


def said(
    clock: FakeClock, table: str, rows: list[dict[str, object]], source: str = "test", came_ago: int = 0
) -> Stamped:
    """Return rows as a source that is read every second said them, now or a while ago."""
    ended = clock.wall() - came_ago
    return Stamped(source, SECOND, ended - SECOND, ended, {table: rows})  # type: ignore[dict-item]


def text(snapshot: Snapshot) -> str:
    """Return what a scrape says."""
    return generate_latest(registry(snapshot)).decode()


def test_too_many_series_are_left_out_and_counted() -> None:
    """A host with 12,000 runs must not take its Prometheus down; and those shown stay the same ones."""
    clock = FakeClock()
    snapshot = Snapshot(clock.monotonic)
    few: list[dict[str, object]] = [{"run_id": f"slurm/a/{number}", "cpu_seconds": 1.0} for number in range(500)]
    many: list[dict[str, object]] = [{"run_id": f"slurm/b/{number}", "cpu_seconds": 1.0} for number in range(12_000)]
    snapshot.observe([said(clock, "run_samples", few)])
    snapshot.observe([said(clock, "run_samples", many + few)])
    shown = [line for line in text(snapshot).splitlines() if line.startswith("gpuledger_run_cpu_seconds_total{")]
    assert len(shown) == MOST_SERIES
    assert sum("slurm/a/" in line and line.endswith(" 2.0") for line in shown) == 500
    left_out = f'gpuledger_agent_series_left_out_total{{table="run_samples"}} {float(12_500 - MOST_SERIES)}'
    assert left_out in text(snapshot)


def test_two_sources_may_tell_of_one_table() -> None:
    """What the second says must not make the first's series vanish."""
    clock = FakeClock()
    snapshot = Snapshot(clock.monotonic)
    for name in ("disk", "mounts"):
        snapshot.observe([said(clock, "disk_samples", [{"device": name, "read_bytes": 1}], source=name)])
    assert 'device="disk"' in text(snapshot)
    assert 'device="mounts"' in text(snapshot)


def test_a_clock_that_is_set_neither_hides_nor_keeps() -> None:
    """NTP steps by hours now and then; freshness goes by the clock that never jumps."""
    clock = FakeClock()
    snapshot = Snapshot(clock.monotonic)
    snapshot.observe([said(clock, "gpu_samples", [{"gpu_uuid": "GPU-0", "up": True}])])
    clock.step(3_600 * SECOND)
    assert "gpuledger_gpu_up" in text(snapshot)
    clock.step(-7_200 * SECOND)
    clock.advance(4 * SECOND)
    assert "gpuledger_gpu_up" not in text(snapshot)


def test_what_came_late_is_as_old_as_it_is() -> None:
    """A source that hung for a minute says what was true a minute ago."""
    clock = FakeClock()
    snapshot = Snapshot(clock.monotonic)
    late = said(clock, "gpu_samples", [{"gpu_uuid": "GPU-0", "up": True}], came_ago=60 * SECOND)
    now = said(clock, "disk_samples", [{"device": "sda", "read_bytes": 1}], source="disk")
    snapshot.observe([late, now])
    assert "gpuledger_gpu_up" not in text(snapshot)
    assert "gpuledger_disk_read_bytes_total" in text(snapshot)


def test_a_view_is_not_changed_by_later_beats() -> None:
    """A scrape is made while the agent beats on: all of it is of one moment."""
    clock = FakeClock()
    snapshot = Snapshot(clock.monotonic)
    moved: list[dict[str, object]] = [{"gpu_uuid": "GPU-0", "pcie_receive_bytes": 10}]
    snapshot.observe([said(clock, "gpu_samples", moved)])
    view = snapshot.view()
    snapshot.observe([said(clock, "gpu_samples", moved)])
    assert view.shown("gpu_samples").carried["GPU-0",]["pcie_receive_bytes"] == 10
    assert snapshot.view().shown("gpu_samples").carried["GPU-0",]["pcie_receive_bytes"] == 20


def test_scrapes_and_beats_may_meet() -> None:
    """They run on threads of their own, and neither waits for the other's work."""
    clock = FakeClock()
    snapshot = Snapshot(clock.monotonic)
    stop = threading.Event()
    failed: list[BaseException] = []

    def scrape() -> None:
        try:
            while not stop.is_set():
                text(snapshot)
        except BaseException as error:  # noqa: BLE001  shown below
            failed.append(error)

    scraping = threading.Thread(target=scrape)
    scraping.start()
    for beat in range(300):
        rows: list[dict[str, object]] = [{"gpu_uuid": f"GPU-{gpu}", "xid_events": 1} for gpu in range(beat % 9)]
        snapshot.observe([said(clock, "gpu_samples", rows)])
    stop.set()
    scraping.join()
    assert failed == []


def test_a_name_that_is_no_text_costs_one_name() -> None:
    """A mount point may be any bytes; one that is no UTF-8 must not cost the whole scrape."""
    clock = FakeClock()
    snapshot = Snapshot(clock.monotonic)
    device = b"/mnt/\xff\xfe".decode("utf-8", "surrogateescape")
    snapshot.observe([said(clock, "disk_samples", [{"device": device, "mount_kind": "nfs", "read_bytes": 1}])])
    assert 'gpuledger_disk_read_bytes_total{device="/mnt/??",mount_kind="nfs"} 1.0' in text(snapshot)


def test_a_holder_stays_until_it_gives_back() -> None:
    """An allocation is told once: held and idle for a week is held all the same."""
    holders = Holders()
    assert holders.take([HELD]) == 0
    assert [(one.gpu_uuid, one.run_id) for one in holders.holding([])] == [("GPU-0", "slurm/alpha/1")]
    holders.take([{**HELD, "ended_at": 9}])
    assert holders.holding([]) == []


@pytest.mark.parametrize("row", [{**HELD, "gpu_uuid": None}, {**HELD, "started_at": None}])
def test_who_waits_holds_nothing(row: Row) -> None:
    """A job in the queue has no GPU yet."""
    holders = Holders()
    holders.take([row])
    assert holders.holding([]) == []


def test_processes_hold_and_name_their_user() -> None:
    """A GPU with processes and no known run is theirs; a run without a known user is that of its processes."""
    holders = Holders()
    holders.take([{**HELD, "user": None}])
    processes: list[Row] = [
        {"gpu_uuid": "GPU-0", "run_id": "slurm/alpha/1", "owner": "mira"},
        {"gpu_uuid": "GPU-1", "run_id": "process/n14/4.5", "owner": "otto"},
        {"gpu_uuid": None, "run_id": "slurm/alpha/1", "owner": "mira"},
    ]
    found = holders.holding(processes)
    assert [(one.gpu_uuid, one.identity["user"]) for one in found] == [("GPU-0", "mira"), ("GPU-1", "otto")]


def test_holders_are_bounded() -> None:
    """Whoever makes allocations by the million is counted, not remembered."""
    holders = Holders()
    assert holders.take({**HELD, "run_id": f"slurm/alpha/{number}"} for number in range(MOST_SERIES + 7)) == 7
    assert len(holders.holding([])) == MOST_SERIES
    assert all(isinstance(one, LabelledHolder) for one in holders.holding([]))


def test_every_labelled_table_names_columns_that_it_has() -> None:
    """A label that no row can have would make all rows one series."""
    assert all(table.has(label) for table in TABLES.values() for label in table.labels)
