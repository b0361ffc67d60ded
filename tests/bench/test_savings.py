"""The bench of savings: what is held is counted once, and a trial is judged by what was said of it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.savings.applied import change_of
from bench.savings.kept import Kept, code_digest
from bench.savings.measured import held_ms
from bench.savings.tables import inside, share_inside, summary
from simulator.activity import NOTHING
from simulator.plan import Plan, Run, Seat
from simulator.timeline import lasting

spans = st.lists(st.tuples(st.integers(-50, 200), st.integers(1, 100), st.integers(0, 2)), max_size=12)


def run(start: int, length: int, gpu: int, name: str = "a") -> Run:
    """Return a run that holds one GPU for so long."""
    plan = Plan(name, name, "nlp", "gpu", (Seat("n01", gpu, 0),), start, start, start + length, "completed")
    return Run(plan, (lasting(NOTHING, start, start + length),), (0,))


@given(spans)
def test_a_gpu_that_several_hold_counts_once(made: list[tuple[int, int, int]]) -> None:
    """Two trials on one GPU for an hour are one GPU-hour, whatever the order in which they come."""
    held = {(gpu, at) for start, length, gpu in made for at in range(max(0, start), start + length)}
    assert held_ms([run(*each) for each in made]) == len(held)


def trial(realised: int | None, **predicted: int | None) -> dict[str, Any]:
    """Return a trial as it is kept, of a loss of 100."""
    said = {"p5": None, "p20": 40, "p50": 50, "p80": 60, "p95": None} | predicted
    return {
        "kind": "pack",
        "cause": "small_kernels",
        "subject": "sweep",
        "booked_ms": 100,
        "predicted": said,
        "realised_ms": realised,
        "second_ledger_ms": None,
        "second_booked_ms": None,
    }


def test_quantiles_that_were_not_said_are_not_judged() -> None:
    """A prediction without P5 and P95 is neither inside nor outside of them."""
    assert inside(trial(55), "p20", "p80") is True
    assert inside(trial(61), "p20", "p80") is False
    assert inside(trial(55), "p5", "p95") is None
    assert inside(trial(65, p5=30, p95=70), "p5", "p95") is True
    assert inside(trial(None), "p20", "p80") is None


def test_what_was_not_applied_is_not_counted() -> None:
    """A share is of the recommendations that the simulator could follow."""
    assert share_inside([trial(55), trial(10), trial(None)], "p20", "p80") == 0.5
    assert share_inside([], "p20", "p80") is None
    assert summary([trial(55), trial(45)])["realised_share"]["p50"] == pytest.approx(0.55)


@pytest.mark.parametrize(
    ("kind", "cause", "to", "expected"),
    [
        ("cache_input", "storage", "the memory of its hosts", "cache_input"),
        ("local_nvme", "storage", "n24 (rack-3), where 6 GPUs stood free", "move_to_same_drives"),
        ("drain_slow_gpu", "straggler", "another host", "exclude"),
        ("batch", "unbatched", "dynamic batches", None),
    ],
)
def test_a_change_does_what_is_asked_for(kind: str, cause: str, to: str, expected: str | None) -> None:
    """Drives of another host of the same kind are no faster; what the simulator cannot do is said to be so."""
    advice = SimpleNamespace(kind=kind, title="restart without n11", from_="a rank on n11", to=to)
    finding = SimpleNamespace(cause=cause, run_ids=("slurm/alpha/80217",))
    change = change_of(advice, finding, {})  # type: ignore[arg-type]
    assert (change and change.kind) == expected
    if change is not None:
        assert change.runs == ("80217",)
        assert change.nodes == (("n11",) if kind == "drain_slow_gpu" else ())


def test_a_seed_that_was_made_is_not_made_again(tmp_path: Path) -> None:
    """A bench of hours that is cut off goes on with the seeds that are missing."""
    kept = Kept(tmp_path / "savings", "c0de", 60)
    assert kept.read(7, second=False) is None
    kept.write(7, [trial(55)], 33.5, second=False)
    assert kept.read(7, second=False) == ([trial(55)], 33.5)
    assert [path.name for path in (tmp_path / "savings").iterdir()] == ["7.json"]


def test_what_other_code_gave_is_made_anew(tmp_path: Path) -> None:
    """Figures of two predictors in one table would be of neither."""
    Kept(tmp_path, "c0de", 60).write(7, [trial(55)], 33.5, second=False)
    assert Kept(tmp_path, "beef", 60).read(7, second=False) is None
    assert Kept(tmp_path, "c0de", 10).read(7, second=False) is None
    assert Kept(tmp_path, "c0de", 60).read(7, second=True) is None
    assert code_digest() == code_digest()
