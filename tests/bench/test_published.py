"""The second generator: what its truth is, and that its rows are the contract's."""

import ast
from pathlib import Path

import pytest

from analyzer.states import BOOKINGS
from bench.machine import ROOT, kept
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
