"""Slurm's topology.yaml, of 25.05 and newer."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import ConfigError
from agent.sources.topology import NodePlace, read_topology, read_yaml

TREE = """---
# two rows of racks
- topology: blocks
  cluster_default: false
  block:
    block_sizes:
      - 4
      - 16
    blocks:
      - block: b1
        nodes: gpu[0-3]
      - block: b2
        nodes: "gpu[4-5]"   # beyond the tree
- topology: tree
  tree:
    switches:
      - switch: hall
        children: row[0-1]
      - switch: row0
        children: rack[0-1]
      - switch: rack0
        nodes: gpu[0-1]
      - nodes: gpu2
        switch: rack1
  cluster_default: true
- topology: none
  flat: true
"""


def place(tmp_path: Path, text: str, node: str) -> NodePlace:
    """Return where a topology.yaml of this text puts a node."""
    path = tmp_path / "topology.yaml"
    path.write_text(text)
    return read_topology(slurm=path).place(node)


def test_the_default_topology_comes_first_and_the_others_fill_in(tmp_path: Path) -> None:
    """A site may place by blocks for one partition and by switches for the rest."""
    assert place(tmp_path, TREE, "gpu1") == NodePlace("rack0", "row0", "hall", "topology.yaml")
    assert place(tmp_path, TREE, "gpu2") == NodePlace("rack1", "row0", "hall", "topology.yaml")
    assert place(tmp_path, TREE, "gpu4") == NodePlace(None, "b2", None, "topology.yaml")


def test_both_forms_of_the_file_say_the_same(tmp_path: Path) -> None:
    """Slurm's own migration is from one to the other."""
    conf = tmp_path / "topology.conf"
    conf.write_text("SwitchName=s0 Nodes=n[1-2]\nSwitchName=s1 Nodes=n3\nSwitchName=top Switches=s[0-1]\n")
    leaves = "    - switch: s0\n      nodes: n[1-2]\n    - switch: s1\n      nodes: n3\n"
    text = f"- topology: t\n  tree:\n    switches:\n{leaves}    - switch: top\n      children: s[0-1]\n"
    for node in ("n1", "n3"):
        said, wanted = place(tmp_path, text, node), read_topology(slurm=conf).place(node)
        assert (said.rack, said.block) == (wanted.rack, wanted.block) == ("s0" if node == "n1" else "s1", "top")


def test_names_may_stand_in_a_list(tmp_path: Path) -> None:
    """YAML allows it, and people write it."""
    text = "- topology: t\n  tree:\n    switches:\n      - switch: s0\n        nodes:\n          - n1\n          - n2\n"
    assert place(tmp_path, text, "n2").rack == "s0"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- {topology: t, flat: true}\n", "line 1: .* is not in a supported form"),
        ("tree:\n  switches:\n", "line 1: a topology must begin with"),
        ("- topology: t\n  tree:\n    switches:\n      - switch: s\n        nodes: n[1-\n", "cannot be parsed"),
        ("- topology: t\n  tree: &anchor\n", "line 2: .* is not in a supported form"),
        ("- topology: t\n  tree:\n\tswitches:\n", "line 3: .* is not in a supported form"),
    ],
)
def test_a_form_that_is_not_read_is_told_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    """A topology that is half understood would put hosts into wrong racks."""
    with pytest.raises(ConfigError, match=says):
        place(tmp_path, text, "n1")


@given(st.text(alphabet="-: \n\"'#[]{},abtopolgyswinde019", max_size=200))
def test_any_text_is_a_topology_or_an_error_of_the_settings(text: str) -> None:
    """The agent starts with one sentence or it starts."""
    try:
        read_yaml(Path("topology.yaml"), text)
    except ConfigError:
        return
