"""The second generator: what its truth is, and that its rows are the contract's."""

import ast
from pathlib import Path

import numpy as np
import pytest

from analyzer.states import BOOKINGS
from bench.machine import ROOT, kept
from bench.published import sensors
from bench.published.registry import KINDS, runs
from bench.published.score import put, section, settled
from bench.published.setting import OPEN
from bench.published.site import Site
from collector.cli.imports import import_

PUBLISHED = Path(__file__).parents[2] / "bench" / "published"
LABELS = {f"{one.state}/{one.cause or ''}" for one in BOOKINGS} | {OPEN, "starved/memory", "starved/video_decoder"}


@pytest.mark.parametrize("name", KINDS)
def test_truth_is_of_the_ledgers_labels_and_covers_every_held_second(name: str) -> None:
    """A label that nobody can book, or a second without one, would be held against the ledger."""
    for _, setting, story in runs(1, [name]):
        truth = story.truth()
        assert set(truth) <= LABELS
        held = sum(lane.end - lane.ends[0] for lane in story.lanes)
        assert len(story.lanes) == setting.gpus
        assert sum(truth.values()) == pytest.approx(held)


def test_a_seed_makes_the_same_runs_again() -> None:
    """Figures are compared from day to day."""
    first, second = ([story.truth() for _, _, story in runs(3, ["storage_mount"])] for _ in range(2))
    assert first == second


def test_the_generator_knows_nothing_of_the_rules() -> None:
    """Of the analyzer it may have the names of states alone; of the other generator nothing."""
    for path in PUBLISHED.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                assert not node.module.startswith(("simulator", "bench.truth"))
                assert not node.module.startswith("analyzer") or node.module == "analyzer.states"


def test_what_is_accepted_counts_only_as_far_as_the_truth_lacks_it() -> None:
    """Twice the time under an accepted name is half wrong."""
    told = settled({"a/b": 10.0}, {"a/b": 4.0, "c/d": 10.0}, {"a/b": {"c/d"}})
    assert told == {"a/b": 10.0, "c/d": 4.0}


def test_every_row_is_taken_by_the_import(tmp_path: Path) -> None:
    """What is refused would be missing from a verdict, and nobody would see why."""
    site = Site()
    for name in ("across_racks_ethernet", "service_busy", "strangers", "failed"):
        for run_id, setting, story in runs(2, [name]):
            site.add(setting, story, run_id)
    files = [str(path) for path in site.write(tmp_path)]
    assert import_([*files, "--store", str(tmp_path / "s.duckdb"), "--dry-run"]) == 0


def test_the_readme_has_the_figures_that_were_recorded() -> None:
    """`make bench-published` writes both; who edits one by hand is found here."""
    readme = (ROOT / "bench" / "README.md").read_text()
    assert put(readme, section(kept("published"))) == readme


def test_some_of_many_tasks_waits_most_of_the_time_though_each_hardly_does() -> None:
    """The kernel's "some" of a fed run of eight ranks reads as that of a starved one: no rule may trust it alone."""
    for _, setting, story in runs(1, ["fed_reading"]):
        edges = np.arange(story.start + 600, story.start + 3600, 60.0)
        each = story.lanes[0].mean("blocked", edges).max()
        told = sensors.some(story.lanes, "blocked", edges).mean()
        assert each < 0.04
        assert told > (0.15 if setting.gpus == 4 else 0.3)


def test_what_a_board_cannot_tell_is_not_there() -> None:
    """No SM activity without GPM or DCGM; no shares of a ring that does not reach back so far (docs/gpu.md)."""
    seen = set()
    for _, setting, story in (run for seed in range(1, 6) for run in runs(seed, ["fed_compute", "hang_pcie"])):
        edges = np.arange(0, story.end, setting.interval)
        told = sensors.gpu(setting, setting.board, story.lanes[0], edges, setting.board.limit_watts)
        assert bool(np.isnan(told["sm_active_ratio"]).all()) is not setting.profiled(setting.board)
        assert bool(np.isnan(told["utilization_zero_ratio"]).all()) is (not setting.rings or setting.interval > 16)
        seen.add((setting.profiled(setting.board), setting.interval > 16))
    assert len(seen) > 2
