import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import SourceError
from agent.procfs import boot_id, difference, share
from agent.sources.host import CpuTicks, HostSource, cpu_ratios, cpu_ticks, host_memory, stalled_microseconds


def test_the_first_line_of_stat_is_all_cores(tmp_path: Path) -> None:
    """Steal and interrupts are busy, guest time is already within user: counting it again would pass 1."""
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 20 30 1000 50 1 2 3 99 0\ncpu0 1 2 3 4 5\n")
    assert cpu_ticks(tmp_path) == CpuTicks(156, 1000, 50)
    stat.write_text("intr 5\n")
    with pytest.raises(SourceError, match="unknown format"):
        cpu_ticks(tmp_path)


@given(st.lists(st.integers(0, 2**53 // 100), min_size=10, max_size=10))
def test_ticks_are_those_that_the_kernel_wrote(ticks: list[int]) -> None:
    """psutil tells seconds: what it divided comes back whole, so that no interval has a fraction of a tick."""
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "stat").write_text(f"cpu  {' '.join(map(str, ticks))}\n")
        user, nice, system, idle, iowait, irq, softirq, steal, *_ = ticks
        assert cpu_ticks(Path(place)) == CpuTicks(user + nice + system + irq + softirq + steal, idle, iowait)


def test_iowait_that_goes_back_is_unknown_and_spoils_nothing_else() -> None:
    """The kernel's manual warns that iowait may decrease; busy is still known then."""
    assert cpu_ratios(CpuTicks(100, 100, 50), CpuTicks(150, 150, 49)) == (0.5, None)


def test_a_restarted_counter_says_nothing() -> None:
    """After a reset the counter is below its last reading; the interval is unknown, not negative."""
    assert cpu_ratios(CpuTicks(100, 100, 50), CpuTicks(5, 10, 0)) == (None, None)


def test_memory_is_used_where_it_cannot_be_had(host: Any) -> None:
    """Page cache is not use: it can be had without swapping."""
    kib = {"MemTotal": 1000, "MemFree": 10, "MemAvailable": 900, "Buffers": 1, "Cached": 800, "Shmem": 1, "Active": 1}
    meminfo = host.proc / "meminfo"
    meminfo.write_text("".join(f"{name}:  {value} kB\n" for name, value in {**kib, "Inactive": 1}.items()))
    row = HostSource(host.proc).read()["host_samples"][0]
    assert (row["memory_used_bytes"], row["memory_available_bytes"]) == (102_400, 921_600)
    meminfo.write_text("MemTotal:       1000 kB\n")
    assert host_memory(host.proc) is None
    row = HostSource(host.proc).read()["host_samples"][0]
    assert (row["memory_used_bytes"], row["memory_available_bytes"]) == (None, None)


def test_pressure_is_read_from_its_total() -> None:
    """The averages have windows of their own, which are not our interval."""
    assert (
        stalled_microseconds("some avg10=9.10 avg60=1.09 avg300=0.35 total=4281367\nfull avg10=0.00 total=7\n")
        == 4281367
    )
    assert stalled_microseconds("") is None
    assert stalled_microseconds(None) is None


def test_a_kernel_without_pressure_says_nothing_of_it(host: Any) -> None:
    """PSI can be compiled or switched off; that is not a host without waiting."""
    source = HostSource(host.proc, monotonic=host.monotonic)
    source.read()
    host.move_on()
    for name in ("cpu", "io", "memory"):
        (host.proc / "pressure" / name).unlink()
    row = source.read()["host_samples"][0]
    assert [row[f"pressure_{name}_some_ratio"] for name in ("cpu", "io", "memory")] == [None, None, None]
    assert row["cpu_busy_ratio"] == 0.525


def test_a_missing_procfs_is_one_sentence(tmp_path: Path) -> None:
    """The sampler logs the sentence once; it must name the file and the way out."""
    with pytest.raises(SourceError, match="mount procfs"):
        HostSource(tmp_path).read()


def test_a_form_that_is_not_known_is_a_source_error(tmp_path: Path) -> None:
    """A future kernel must not end the agent."""
    (tmp_path / "stat").write_text("cpu  a b c d e f\n")
    with pytest.raises(SourceError, match="unknown format"):
        HostSource(tmp_path).read()


def test_this_host_can_be_read() -> None:
    """The captured trees are ours; the real one is the kernel's."""
    source = HostSource()
    source.read()
    row = source.read()["host_samples"][0]
    used, available = row["memory_used_bytes"], row["memory_available_bytes"]
    assert isinstance(used, int)
    assert isinstance(available, int)
    assert used > 0
    assert available > 0


@given(st.none() | st.integers(0, 2**64), st.none() | st.integers(0, 2**64))
def test_a_difference_is_never_negative(before: int | None, now: int | None) -> None:
    """A reset must never look like work, nor like its opposite."""
    moved = difference(before, now)
    assert moved is None or (moved >= 0 and now is not None and moved <= now)


@given(st.none() | st.floats(0, 1e18), st.floats(-1e6, 1e6))
def test_a_share_is_a_ratio_or_unknown(part: float | None, whole: float) -> None:
    """The collector refuses a ratio above 1, and one refused cell must not cost a row."""
    found = share(part, whole)
    assert found is None or 0 <= found <= 1


def test_the_boot_of_this_very_host_is_known() -> None:
    """The kernel refuses large reads of it: no energy epoch outlived a restart, and nothing but a fake showed one."""
    place = Path("/proc/sys/kernel/random/boot_id")
    with place.open("rb", buffering=0) as file:
        assert boot_id(Path("/proc")) == file.read(64).decode().strip()


def test_idle_ticks_that_go_back_make_no_share_above_one(tmp_path: Path) -> None:
    """The kernel's idle time may step back (prometheus/node_exporter#1903)."""
    (tmp_path / "stat").write_text("cpu  1000 0 1000 500000 100 0 0 0 0 0\n")
    before = cpu_ticks(tmp_path)
    (tmp_path / "stat").write_text("cpu  1200 0 1100 499990 90 0 0 0 0 0\n")
    assert cpu_ratios(before, cpu_ticks(tmp_path)) == (None, None)
