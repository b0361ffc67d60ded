import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import ConfigError
from agent.sources.flows import Names, Peers, address_text, hosts_entries, read_peers
from tests.agent.sources.flows_wire import packed

HOSTS = """
127.0.0.1 localhost n1
10.0.0.2  n2.cluster.example n2 # rack 1
10.0.0.3  n3.cluster.example
fe80::7%eth0 n7
ff02::1   ip6-allnodes
garbage   n9
10.0.0.4
"""


def write(path: Path, content: str, when: int) -> Path:
    """Write a file that was changed at this time."""
    path.write_text(content)
    os.utime(path, ns=(when, when))
    return path


def test_hosts_names_other_hosts_by_their_short_names() -> None:
    """Schedulers call them so; loopback and multicast are no hosts, and a line that is none is passed over."""
    assert list(hosts_entries(HOSTS)) == [
        ("10.0.0.2", "n2"),
        ("10.0.0.3", "n3.cluster.example"),
        ("fe80::7", "n7"),
    ]


def test_the_longest_network_wins(tmp_path: Path) -> None:
    """A site names its racks by network, and the one storage server in them by address."""
    table = write(tmp_path / "peers.csv", "address , node\n10.1.0.0/16,rack1\n10.1.2.3,nas\n\nfd00::/8,six\n,\n", 1)
    names = read_peers(table)
    assert [names.name(packed(address)) for address in ("10.1.2.3", "10.1.2.4", "fd00::5", "10.2.0.1")] == [
        "nas",
        "rack1",
        "six",
        None,
    ]


def test_the_table_comes_before_hosts_and_both_are_read_again(tmp_path: Path) -> None:
    """A node that is added must not wait for a restart of every agent."""
    table = write(tmp_path / "peers.csv", "address,node\n10.0.0.2,first\n", 1)
    hosts = write(tmp_path / "hosts", HOSTS, 1)
    peers = Peers(table, hosts)
    assert [peers.node(packed(address)) for address in ("10.0.0.2", "10.0.0.3", "10.9.9.9")] == [
        "first",
        "n3.cluster.example",
        None,
    ]
    write(table, "address,node\n10.0.0.2,second\n", 2)
    write(hosts, "10.9.9.9 new\n", 2)
    peers.refresh()
    assert [peers.node(packed(address)) for address in ("10.0.0.2", "10.9.9.9")] == ["second", "new"]


def test_a_table_that_breaks_later_leaves_the_last_good_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is said once, and names stay names: a half-written file must not turn racks into addresses."""
    table = write(tmp_path / "peers.csv", "address,node\n10.0.0.2,n2\n", 1)
    peers = Peers(table, tmp_path / "none")
    write(table, "address,node\nnonsense,n2\n", 2)
    peers.refresh()
    peers.refresh()
    write(table, f"address,node\n{'x' * 200_000},n2\n", 3)
    peers.refresh()
    assert peers.node(packed("10.0.0.2")) == "n2"
    assert len(caplog.records) == 2


@pytest.mark.parametrize(
    "content",
    [
        "ip,host\n",
        "",
        "address,node\n10.0.0.0/40,n1\n",
        "address,node\nn1,10.0.0.1\n",
        pytest.param("x" * 200_000, id="no line end"),
        pytest.param("address,node\n10.0.0.1," + "x" * 200_000, id="no second line end"),
    ],
)
def test_a_table_that_is_none_ends_the_start(tmp_path: Path, content: str) -> None:
    """A wrong file is found when it is given, not at the first report."""
    with pytest.raises(ConfigError, match=r"peers\.csv"):
        Peers(write(tmp_path / "peers.csv", content, 1))


def test_a_table_that_is_not_there_ends_the_start(tmp_path: Path) -> None:
    """As any other path of the settings."""
    with pytest.raises(ConfigError, match="cannot be read"):
        Peers(tmp_path / "none.csv")


def test_an_address_is_written_as_people_do() -> None:
    """What no file names is told as it is."""
    assert [address_text(packed(address)) for address in ("10.0.0.2", "fd00::1")] == ["10.0.0.2", "fd00::1"]


@given(st.text(max_size=300))
def test_any_hosts_file_is_read(hosts: str) -> None:
    """Anybody's line may be in it, and none of them may end the agent."""
    names = Names(hosts_entries(hosts))
    assert names.name(b"\x0a\0\0\1") is None or names.name(b"\x0a\0\0\1") != ""


@given(st.lists(st.tuples(st.ip_addresses(), st.integers(0, 128)), max_size=8), st.ip_addresses())
def test_a_name_is_that_of_a_network_which_holds_the_address(
    entries: list[tuple[object, int]], address: object
) -> None:
    """Checked against the standard library, network by network."""
    import ipaddress

    networks = []
    for base, prefix in entries:
        with contextlib.suppress(ValueError):
            networks.append(ipaddress.ip_network(f"{base}/{prefix}", strict=False))
    held = [network for network in networks if ipaddress.ip_address(str(address)) in network]
    longest = max(held, key=lambda network: network.prefixlen, default=None)
    found = Names((str(network), str(network)) for network in networks).name(packed(str(address)))
    assert found == (None if longest is None else str(longest))
