"""Slurm's topology.conf and its host lists."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import ConfigError
from agent.sources.topology import NodePlace, hostlist, read_topology

TREE = """
# leaf switches
SwitchName=rack0 Nodes=gpu[0-1] LinkSpeed=400
switchname=rack1 nodes=gpu[2-3],\\
  login1
SwitchName=row0 Switches=rack[0-1]   # a block
SwitchName=spine Switches=row[0-3]
"""


def place(tmp_path: Path, text: str, node: str) -> NodePlace:
    """Return where a topology.conf of this text puts a node."""
    path = tmp_path / "topology.conf"
    path.write_text(text)
    return read_topology(slurm=path).place(node)


def test_leaf_switches_are_racks_and_what_joins_them_blocks_and_zones(tmp_path: Path) -> None:
    """The tree is what the scheduler itself places by."""
    assert place(tmp_path, TREE, "gpu1") == NodePlace("rack0", "row0", "spine", "topology.conf")
    assert place(tmp_path, TREE, "gpu2").rack == "rack1"


def test_a_continued_line_is_one_line(tmp_path: Path) -> None:
    """Long node lists are broken with a backslash."""
    text = TREE.replace(",\\\n  login1", "").replace("gpu[2-3]", "gpu[2-3] \\\n LinkSpeed=1")
    assert place(tmp_path, text, "gpu3").rack == "rack1"


def test_a_node_under_two_leaf_switches_has_no_one_rack(tmp_path: Path) -> None:
    """Rail-optimized fabrics join each node to several leaves: any one of them would be a wrong answer."""
    assert place(tmp_path, "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[2-3]\n", "n2") == NodePlace()
    assert place(tmp_path, "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[2-3]\n", "n3").rack == "b"


def test_the_block_plugin_gives_blocks_and_no_racks(tmp_path: Path) -> None:
    """topology/block knows which nodes belong together, and nothing of racks."""
    assert place(tmp_path, "BlockName=b1 Nodes=n[01-18]\nBlockSizes=18\n", "n07") == NodePlace(
        None, "b1", None, "topology.conf"
    )


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu1", ["gpu1"]),
        ("gpu[0-2]", ["gpu0", "gpu1", "gpu2"]),
        ("gpu[008-010,7],login", ["gpu008", "gpu009", "gpu010", "gpu7", "login"]),
        ("r[1-2]n[1,3]-ib", ["r1n1-ib", "r1n3-ib", "r2n1-ib", "r2n3-ib"]),
        (" a , b ,", ["a", "b"]),
        ("", []),
    ],
)
def test_a_host_list_stands_for_its_names(text: str, names: list[str]) -> None:
    """Widths are kept, and brackets multiply."""
    assert list(hostlist(text)) == names


@pytest.mark.parametrize("text", ["n[1-", "n1]", "n[a-b]", "n[3-1]", "n[]", "n[1-999999999]", "n[1-999]m[1-999]"])
def test_a_host_list_that_is_none_or_too_long_is_refused(tmp_path: Path, text: str) -> None:
    """A slip of a digit must not fill the memory."""
    with pytest.raises(ConfigError, match=r"topology\.conf cannot be parsed"):
        place(tmp_path, f"SwitchName=a Nodes={text}\n", "n1")


@given(st.text(alphabet="an01[]-, ", max_size=30))
def test_any_text_is_names_or_a_value_error(text: str) -> None:
    """Nothing else may come out of a configuration file."""
    try:
        names = list(hostlist(text))
    except ValueError:
        return
    assert all(not set(name) & set("[],") for name in names)
