import contextlib
import math
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import SourceError
from agent.sources.network import (
    LinkCounters,
    NetworkSource,
    interface_counters,
    port_counters,
    port_rate,
    ports,
    speed,
)

CAPTURED = Path(__file__).parent / "data/captured"

HEAD = (
    "Inter-|   Receive                      |  Transmit\n"
    " face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier\n"
)
DEV = f"{HEAD}  eth0: 100 2 3 4 0 0 0 0 200 5 6 7 0 0 0 0\neth1:0:1 2 0 0 0 0 0 0 3 4 0 0 0 0 0 0\n"


counters = st.lists(st.integers(0, 2**64), min_size=16, max_size=16)


def told(net_dev: str) -> dict[str, LinkCounters]:
    """Return what is read of a host with this /proc/net/dev."""
    with tempfile.TemporaryDirectory() as proc:
        (Path(proc) / "net").mkdir()
        (Path(proc) / "net/dev").write_text(net_dev, "utf-8")
        return interface_counters(Path(proc))


def test_errors_are_errors_and_drops_both_ways() -> None:
    """A drop at either end is a segment sent again. An alias holds a colon in its name, with no blank after it."""
    assert told(DEV) == {
        "eth0": LinkCounters(None, 100, 200, 20),
        "eth1:0": LinkCounters(None, 1, 3, 0),
    }


def test_port_data_is_in_words_of_four_bytes(host: Any) -> None:
    """Read as bytes, InfiniBand would look four times slower than it is."""
    port = host.sys / "class/infiniband/mlx5_0/ports/1"
    assert port_counters(port) == LinkCounters("infiniband", 4_000_000, 4_000_000, 0)


def test_a_counter_that_is_stuck_at_its_top_is_unknown(host: Any) -> None:
    """32-bit counters stop at their top: the difference 0 would say that nothing moves."""
    found = port_counters(host.sys / "class/infiniband/mthca0/ports/1")
    assert found.receive_bytes is None


def test_only_hardware_is_told_and_ip_over_infiniband_once(host: Any) -> None:
    """Bridges and veth pairs show a NIC's bytes again, and ib0 those of its port."""
    rows = NetworkSource(host.proc, host.sys).read()["network_samples"]
    assert {row["device"]: row["link_kind"] for row in rows} == {
        "mlx5_0:1": "infiniband",
        "mlx5_1:1": "roce",
        "mthca0:1": "infiniband",
        "eth0": "ethernet",
    }


def test_a_container_tells_all_but_the_virtual(host: Any) -> None:
    """Within a network namespace no interface has a device, and yet its traffic is the run's."""
    shutil.rmtree(host.sys / "class/net/eth0/device")
    shutil.rmtree(host.sys / "class/net/ib0/device")
    shutil.rmtree(host.sys / "class/infiniband")
    rows = NetworkSource(host.proc, host.sys).read()["network_samples"]
    assert [row["device"] for row in rows] == ["eth0"]


def test_a_link_that_was_reset_tells_no_amounts(host: Any) -> None:
    """A driver that is loaded again starts at 0."""
    source = NetworkSource(host.proc, host.sys)
    source.read()
    (host.proc / "net/dev").write_text(DEV.replace("100 2", "1 2"))
    row = next(row for row in source.read()["network_samples"] if row["device"] == "eth0")
    assert row["receive_bytes"] is None


def test_a_host_without_procfs_is_one_sentence(tmp_path: Path) -> None:
    """The sampler logs the sentence once; it must name the file and the way out."""
    with pytest.raises(SourceError, match="mount procfs"):
        NetworkSource(tmp_path, tmp_path).read()


def test_this_hosts_links_can_be_read() -> None:
    """The captured trees are ours; the real one is the kernel's."""
    source = NetworkSource()
    source.read()
    for row in source.read()["network_samples"]:
        assert isinstance(row["device"], str)
        assert row["device"] != "lo"


def test_ports_as_others_captured_them() -> None:
    """Omni-Path, two generations of Mellanox, and AWS EFA, which counts bytes, elsewhere, and has no link layer."""
    found = ports(CAPTURED / "sys")
    assert found == {
        "hfi1_0:1": LinkCounters("infiniband", 345091702026 * 4, 273558326543 * 4, 0, 12.5e9),
        "mlx4_0:1": LinkCounters("infiniband", 2221223609 * 4, 26509113295 * 4, 0, 5e9),
        "mlx5_0:1": LinkCounters("infiniband", 18126345378 * 4, 2880761508848 * 4, 0, 3.125e9),
        "rdmap16s27:1": LinkCounters("efa", 1_000_000, 2_000_000, 3, 12.5e9),
    }


def test_efa_before_linux_5_14_counts_for_the_device(tmp_path: Path) -> None:
    """The files were moved to the port; both are found."""
    counters = tmp_path / "efa_0/hw_counters"
    counters.mkdir(parents=True)
    for name, value in (("rx_bytes", "5"), ("tx_bytes", "6")):
        (counters / name).write_text(value)
    found = port_counters(tmp_path / "efa_0/ports/1")
    assert (found.kind, found.receive_bytes, found.transmit_bytes) == ("efa", 5, 6)


def test_a_wide_counter_stands_in_for_one_that_is_stuck(tmp_path: Path) -> None:
    """Older adapters have both; the narrow one is full after two seconds at full speed."""
    for place, name, value in (
        ("counters", "port_rcv_data", 0xFFFFFFFF),
        ("counters_ext", "port_rcv_data_64", 2**40),
        ("counters", "port_xmit_data", 7),
    ):
        (tmp_path / place).mkdir(exist_ok=True)
        (tmp_path / place / name).write_text(f"{value}\n")
    found = port_counters(tmp_path)
    assert (found.receive_bytes, found.transmit_bytes) == (2**42, 28)


def test_speeds_are_what_a_link_can_carry_one_way(host: Any) -> None:
    """Against it, a day's bytes become a share."""
    (host.sys / "class/net/eth0/speed").write_text("25000\n")
    rows = {row["device"]: row for row in NetworkSource(host.proc, host.sys).read()["network_samples"]}
    assert rows["eth0"]["speed_bytes_per_second"] == 3.125e9
    assert speed(-1) is None  # of a virtual link, or one that is down
    assert speed(None) is None


def test_a_port_that_is_down_has_no_speed(tmp_path: Path) -> None:
    """It shows one all the same, mostly 10 Gb/sec."""
    (tmp_path / "rate").write_text("10 Gb/sec (4X SDR)\n")
    (tmp_path / "state").write_text("1: DOWN\n")
    assert port_rate(tmp_path) is None
    (tmp_path / "state").write_text("4: ACTIVE\n")
    assert port_rate(tmp_path) == 1.25e9


def test_a_link_that_cannot_be_counted_is_named(host: Any) -> None:
    """What is not seen is said, port by port."""
    source = NetworkSource(host.proc, host.sys)
    source.read()
    assert source.coverage() == ["mthca0:1 has no readable byte counter"]


@given(st.text(max_size=400))
def test_any_text_is_interfaces_or_a_source_error(net_dev: str) -> None:
    """It is one sentence; no daemon dies of a new kernel."""
    with contextlib.suppress(SourceError):
        assert all(link.receive_bytes is not None for link in told(net_dev).values())


@given(
    st.lists(st.tuples(st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True), counters), unique_by=lambda one: one[0])
)
def test_what_the_kernel_writes_is_what_is_read(links: list[tuple[str, list[int]]]) -> None:
    """Name for name, number for number."""
    text = "".join(f"{name:>6}: {' '.join(map(str, numbers))}\n" for name, numbers in links)
    assert told(f"{HEAD}{text}") == {
        name: LinkCounters(None, numbers[0], numbers[8], numbers[2] + numbers[3] + numbers[10] + numbers[11])
        for name, numbers in links
    }


@given(st.text(max_size=60))
def test_no_speed_is_negative_or_no_number(content: str) -> None:
    """Half of them come from firmware."""
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "state").write_text("4: ACTIVE\n")
        (Path(place) / "rate").write_text(content, encoding="utf-8", errors="replace")
        found = port_rate(Path(place))
    assert found is None or (math.isfinite(found) and found >= 0)
