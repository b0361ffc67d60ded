"""Schedules of what befalls the places of a site: a few of those that make bench-faults draws (`--schedules 200`)."""

from pathlib import Path

import pytest

from bench.places import Schedule


@pytest.mark.parametrize("seed", [3, 5])
def test_nothing_is_twice_and_what_is_lost_is_named(tmp_path: Path, seed: int) -> None:
    """Older lakes, disks that come late, clocks that jump: agents keep what nobody has, and nothing expires."""
    assert Schedule(tmp_path, seed).play(steps=7).wrong == []
