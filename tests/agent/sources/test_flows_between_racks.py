"""Real connections between real network namespaces: what an agent without rights says, against what was sent."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import until

MEGABYTE = 1_000_000
TABLE = "address,node\n10.213.2.2,rack2-n2\nfd00:213::/64,rack2-n3\n"


@pytest.fixture
def agent(racks: Any, tmp_path: Path) -> subprocess.Popen[str]:
    """Return the agent's flow source on n1, after its first reading."""
    table = tmp_path / "peers.csv"
    table.write_text(TABLE)
    reader: subprocess.Popen[str] = racks.start("n1", "flows_reader.py", str(table))
    first = reading(reader)
    assert first["rows"] == []
    assert first["uid"] != 0
    return reader


def reading(agent: subprocess.Popen[str]) -> dict[str, Any]:
    """Return one reading of the agent."""
    assert agent.stdin is not None
    agent.stdin.write("\n")
    agent.stdin.flush()
    found: dict[str, Any] = json.loads(line(agent))
    return found


def line(child: subprocess.Popen[str]) -> str:
    """Return what a child says next."""
    assert child.stdout is not None
    return child.stdout.readline().strip()


def talk(racks: Any, host: str, send: int, receive: int, cgroup: Path | None = None) -> subprocess.Popen[str]:
    """Let n1 send and receive so much to and from a host, and return its end of the connection, still open."""
    address = racks.ADDRESSES[host][1]
    server = racks.start(host, "flows_talker.py", "serve", address)
    client: subprocess.Popen[str] = racks.start(
        "n1", "flows_talker.py", "connect", address, line(server), str(send), str(receive), cgroup=cgroup
    )
    assert line(client) == "connected"
    return client


def begin(client: subprocess.Popen[str]) -> None:
    """Let a connection move its bytes."""
    assert client.stdin is not None
    client.stdin.write("go\n")
    client.stdin.flush()


def test_bytes_by_run_and_peer_are_those_that_were_sent(racks: Any, agent: subprocess.Popen[str]) -> None:
    """The whole path at once: the kernel's list, IPv4 and IPv6, the job's cgroup, and the table of names."""
    job = racks.job()
    for client in (talk(racks, "n2", 5 * MEGABYTE, MEGABYTE, job), talk(racks, "n3", 2 * MEGABYTE, 3000, job)):
        begin(client)
        assert line(client) == "done"
    rows = {row["peer"]: row for row in reading(agent)["rows"]}
    assert set(rows) == {"rack2-n2", "rack2-n3"}
    assert {row["run_id"] for row in rows.values()} == {"slurm/alpha/81234"}
    for peer, sent, received in (("rack2-n2", 5 * MEGABYTE, MEGABYTE), ("rack2-n3", 2 * MEGABYTE, 3000)):
        assert rows[peer]["transmit_bytes"] == pytest.approx(sent, rel=0.01)
        assert rows[peer]["receive_bytes"] == pytest.approx(received, rel=0.01)
        assert rows[peer]["transport"] == "tcp"
    assert reading(agent)["rows"] == []  # the connections are still there, and nothing moves


def test_what_no_run_moved_is_shown_as_such(racks: Any, agent: subprocess.Popen[str]) -> None:
    """A remainder that is left out would pass for measured; one that is given to some run would accuse it."""
    client = talk(racks, "n2", MEGABYTE, 1)
    begin(client)
    assert line(client) == "done"
    (row,) = reading(agent)["rows"]
    assert row["run_id"] == "unattributed/n1"
    assert row["peer"] == "rack2-n2"


def test_what_was_lost_on_the_way_is_counted(racks: Any, agent: subprocess.Popen[str]) -> None:
    """Retransmits tell a bad link from a slow host; the bytes are counted once, however often they were sent."""
    client = talk(racks, "n2", MEGABYTE, 1, racks.job())
    racks.lose("n2", lost=True)
    begin(client)
    until(lambda: racks.lost() > 0, "something has gone astray")
    racks.lose("n2", lost=False)
    assert line(client) == "done"
    (row,) = reading(agent)["rows"]
    assert row["retransmits"] > 0
    assert row["transmit_bytes"] == pytest.approx(MEGABYTE, rel=0.01)


def test_other_network_namespaces_are_named_as_not_seen(racks: Any, agent: subprocess.Popen[str]) -> None:
    """A host whose pods have networks of their own must not look as if nothing moved there."""
    assert any(said.startswith("2 other network namespaces") for said in reading(agent)["coverage"])
