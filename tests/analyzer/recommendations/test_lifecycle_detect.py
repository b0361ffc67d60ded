"""Each kind of change is seen from how runs were placed, and from nothing else that changed."""

from dataclasses import replace
from typing import Any

import pytest

from analyzer.recommendations.lifecycle.applied import TESTS, Shape, applied

BEFORE = Shape(
    "r1", 0, 1, ("n1", "n2", "n3", "n4"), ("a", "b", "a", "b"), 32, ("H100-80GB",), 0, 0, 256.0, 900, 100
)  # fmt: skip
CHANGES: dict[str, dict[str, Any]] = {
    "reorder_ranks": {"nodes": ("n1", "n3", "n2", "n4"), "racks": ("a", "a", "b", "b")},
    "co_locate": {"racks": ("a", "a", "a", "a")},
    "more_cpu": {"cores": 384.0},
    "local_nvme": {"network_read_bytes": 50, "local_read_bytes": 950},
    "release": {"gpus": 24},
    "right_size": {"skus": ("A100-80GB",)},
    "share_mig": {"slices": 4},
    "pack": {"shared": 32},
    "share_time": {"shared": 32},
    "fewer_replicas": {"gpus": 16},
}


def later(number: int, **changed: Any) -> Shape:
    """Return the number-th run after the proposal."""
    return replace(BEFORE, run_id=f"r{number}", started_at=number, **changed)


@pytest.mark.parametrize("kind", sorted(TESTS))
def test_a_change_is_seen_by_its_own_kind(kind: str) -> None:
    """The moment is that of the first run that shows it, and a sentence says by what."""
    found = applied(kind, [BEFORE], [later(2), later(3, **CHANGES[kind]), later(4, **CHANGES[kind])])
    assert found is not None
    assert (found.applied_at, found.by_run) == (3, "r3")
    assert found.seen


@pytest.mark.parametrize("kind", sorted(TESTS))
def test_what_stays_as_it_was_is_not_applied(kind: str) -> None:
    """A new run of the same shape is no change."""
    assert applied(kind, [BEFORE], [later(2), later(3)]) is None


@pytest.mark.parametrize("kind", sorted(TESTS))
def test_what_was_tried_and_taken_back_is_not_applied(kind: str) -> None:
    """The runs that are compared must be those that have it."""
    assert applied(kind, [BEFORE], [later(2, **CHANGES[kind]), later(3)]) is None


@pytest.mark.parametrize(
    ("kind", "unknown"),
    [
        ("reorder_ranks", {"racks": ("a", None, "a", "b")}),
        ("co_locate", {"racks": (None, None, None, None)}),
        ("more_cpu", {"cores": None}),
        ("local_nvme", {"network_read_bytes": None}),
    ],
)
def test_what_is_not_known_is_no_change(kind: str, unknown: dict[str, Any]) -> None:
    """Silence proves nothing, and does not break a row of runs that show it."""
    assert applied(kind, [BEFORE], [later(2, **unknown)]) is None
    found = applied(kind, [BEFORE], [later(2, **CHANGES[kind]), later(3, **unknown), later(4, **CHANGES[kind])])
    assert found is not None
    assert found.applied_at == 2


def test_a_run_that_moved_into_one_rack_is_ordered_too() -> None:
    """Its ring crosses nowhere."""
    assert applied("reorder_ranks", [BEFORE], [later(2, racks=("a", "a", "a", "a"))]) is not None


def test_a_slow_host_is_left_out_where_it_was_in() -> None:
    """A run that never had the host says nothing of it."""
    assert applied("drain_slow_gpu", [BEFORE], [later(2, nodes=("n1", "n2", "n3", "n9"))], ["n4"]) is not None
    assert applied("drain_slow_gpu", [BEFORE], [later(2, nodes=("n1", "n2", "n3", "n9"))], ["n7"]) is None
    assert applied("drain_slow_gpu", [BEFORE], [later(2)], ["n4"]) is None
    assert applied("drain_slow_gpu", [BEFORE], [later(2)]) is None


def test_a_kind_that_cannot_be_seen_is_never_applied_by_itself() -> None:
    """Settings of a loader are nowhere told: who changes them says so."""
    assert applied("loader_settings", [BEFORE], [later(2, cores=999.0)]) is None
    assert applied("more_cpu", [], [later(2, cores=999.0)]) is None
