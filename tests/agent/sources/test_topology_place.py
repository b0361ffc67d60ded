"""Where a node sits: from the settings, a table or Slurm, and None where nobody says."""

import gzip
from collections import Counter
from pathlib import Path

import pytest

from agent.errors import ConfigError
from agent.sources.topology import NodePlace, Topology, read_table, read_topology

LINGJUN = Path(__file__).parents[2] / "data/topology/lingjun_topo.csv.gz"


def written(tmp_path: Path, text: str, name: str = "racks.csv") -> Path:
    """Return a file with this text."""
    path = tmp_path / name
    path.write_text(text)
    return path


def test_an_unknown_rack_is_none() -> None:
    """A guessed rack would accuse a placement that may be perfect."""
    assert Topology().place("n14") == NodePlace()


def test_a_table_gives_rack_block_and_zone(tmp_path: Path) -> None:
    """Block and zone may be left out, as may be a whole node."""
    table = written(tmp_path, "\ufeffnode, rack ,block,zone\nn14,r1,b1,z1\nn15, r2 ,,\n\nn16,,,\n")
    topology = read_topology(table=table)
    assert topology.place("n14") == NodePlace("r1", "b1", "z1", "racks.csv")
    assert topology.place("n15") == NodePlace("r2", None, None, "racks.csv")
    assert topology.place("n16") == topology.place("n17") == NodePlace()


def test_the_settings_win_over_the_table_part_by_part(tmp_path: Path) -> None:
    """A zone that only the operator knows may stand beside racks from a file; the source names who said the rack."""
    table = written(tmp_path, "node,rack,block\nn14,r1,b1\n")
    assert read_topology(zone="hall 2", table=table).place("n14") == NodePlace("r1", "b1", "hall 2", "racks.csv")
    assert read_topology(rack="here", table=table).place("n14") == NodePlace("here", "b1", None, "settings")
    assert read_topology(zone="hall 2").place("n99") == NodePlace(None, None, "hall 2", "settings")


def test_a_node_is_also_known_by_its_short_name(tmp_path: Path) -> None:
    """Kernels say n14.cluster.example where tables say n14."""
    topology = read_topology(table=written(tmp_path, "node,rack\nn14,r1\nn15.other.example,r2\n"))
    assert topology.place("n14.cluster.example").rack == "r1"
    assert topology.place("n15").rack is None


def test_a_real_fleets_racks_are_counted_by_both_switches(tmp_path: Path) -> None:
    """Alibaba's names of rack switches repeat under each aggregation switch: 119 racks, not 48."""
    table = tmp_path / "topo.csv"
    table.write_bytes(gzip.decompress(LINGJUN.read_bytes()))
    sites = read_table(table)
    assert len(sites) == 847
    assert len({site.rack for site in sites.values()}) == 119
    assert Counter(site.zone for site in sites.values()) == {"G6": 847}
    assert len({site.block for site in sites.values()}) == 3
    node = "0c9d9de1b19e7f39b08f49ddfa26744ae26d3adf8bd59af1b16e203b6fa5fe4b"
    assert read_topology(table=table).place(node) == NodePlace("P10/S14", "P10", "G6", "topo.csv")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the columns of an empty file"),
        ("host,rack\nn14,r1\n", "host, rack"),
        ("node,rack\nn14,r1\nn14,r2\n", "line 3: n14 is already in another rack"),
        (f"node,rack\n{'x' * 200_000},r1\n", "line 1: not CSV"),
    ],
)
def test_a_table_that_is_none_is_refused_in_words(tmp_path: Path, text: str, words: str) -> None:
    """At startup, while somebody is looking."""
    with pytest.raises(ConfigError, match=words):
        read_table(written(tmp_path, text))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """The path is what was mistyped."""
    with pytest.raises(ConfigError, match=r"nowhere\.csv cannot be read: No such file"):
        read_topology(table=tmp_path / "nowhere.csv")
    binary = tmp_path / "table.csv"
    binary.write_bytes(b"node,rack\n\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8 text"):
        read_topology(table=binary)
