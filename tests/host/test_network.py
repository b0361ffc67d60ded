import shutil
from pathlib import Path
from typing import Any

import pytest

from agent.errors import SourceError
from agent.network import LinkCounters, NetworkSource, interface_counters, port_counters

DEV = (
    "Inter-|   Receive                      |  Transmit\n"
    " face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier\n"
    "  eth0: 100 2 3 4 0 0 0 0 200 5 6 7 0 0 0 0\n"
    "eth1:0:1 2 0 0 0 0 0 0 3 4 0 0 0 0 0 0\n"
)


def test_errors_are_errors_and_drops_both_ways() -> None:
    """A drop at either end is a segment sent again. An alias holds a colon in its name, with no blank after it."""
    assert interface_counters(DEV) == {
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
