"""Scaling: against the smallest size, of the same model, in what both sizes say."""

import pytest

from analyzer.measures.efficiency.goodput import Peer, Signature, Size, Unit, scaling, signature

SECOND = 1_000_000


def peer(run: str, gpus: int, seconds: int, **amounts: int) -> Peer:
    """Return a run that did so much in so many seconds."""
    named: dict[Unit, int] = {unit: amounts[unit] for unit in ("tokens", "samples", "steps") if unit in amounts}
    return Peer(run, gpus, named, seconds * SECOND)


def test_the_example_of_the_capacity_profile() -> None:
    """8 GPUs at 8,400 tokens/s and 16 at 15,400: 1.83 times, 92% efficient."""
    found = scaling([peer("b", 16, 100, tokens=1_540_000), peer("a", 8, 100, tokens=840_000)], is_batch_known=False)
    small, large = found.sizes
    assert small == Size(8, 1, 8_400.0, 1.0, 1.0)
    assert (large.gpus, large.per_second) == (16, 15_400.0)
    assert (round(large.speed_up, 2), round(large.efficiency, 2)) == (1.83, 0.92)


def test_runs_of_one_size_are_put_together() -> None:
    """The longer run weighs more: 300 tokens in 30 s, not the mean of 5 and 20 a second."""
    runs = [peer("a", 1, 20, tokens=100), peer("b", 1, 10, tokens=200), peer("c", 2, 10, tokens=150)]
    small, large = scaling(runs, is_batch_known=False).sizes
    assert (small.runs, small.per_second) == (2, 10.0)
    assert large.efficiency == 0.75


@pytest.mark.parametrize(
    ("peers", "is_batch_known", "why"),
    [
        ([], False, "no run of its kind reports"),
        ([peer("a", 8, 0, tokens=5)], False, "no run of its kind reports"),
        ([peer("a", 8, 9, tokens=5), peer("b", 8, 9, tokens=6)], False, "only one size observed"),
        ([peer("a", 8, 9, tokens=5), peer("b", 16, 9, samples=6)], False, "report steps alone"),
        ([peer("a", 8, 9, steps=5), peer("b", 16, 9, steps=6)], False, "label global_batch"),
        ([peer("a", 8, 9, steps=5)], True, "only one size observed"),
    ],
)
def test_what_cannot_be_compared_is_withheld(peers: list[Peer], is_batch_known: bool, why: str) -> None:
    """A speed-up of runs that did unlike work would buy GPUs."""
    found = scaling(peers, is_batch_known=is_batch_known)
    assert found.sizes == ()
    assert why in (found.because or "")


def test_steps_compare_where_their_batch_is_the_same() -> None:
    """Two steps a second and three: 1.5 times on twice the GPUs."""
    found = scaling([peer("a", 8, 10, steps=20), peer("b", 16, 10, steps=30)], is_batch_known=True)
    assert found.unit == "steps"
    assert found.sizes[1].efficiency == 0.75


def test_a_table_without_runs_whose_samples_are_gone_says_so() -> None:
    """It has fewer runs than it had, and a reader cannot see that."""
    left = [peer("a", 8, 10, steps=20), peer("b", 16, 10, steps=30)]
    gone = "the samples of 1 run of its kind, which report no steps, are no longer kept"
    found = scaling(left, is_batch_known=True, expired=1)
    assert (found.sizes, found.because) == (scaling(left, is_batch_known=True).sizes, gone)
    assert scaling(left[:1], is_batch_known=True, expired=1).because == f"only one size observed; {gone}"


def test_a_signature_is_model_batch_and_sku() -> None:
    """The label goes before the name: people name runs after the weather."""
    assert signature("sunny", {"model": "llama-7b", "global_batch": "1024"}, "H100-80GB") == Signature(
        "llama-7b", "1024", "H100-80GB"
    )
    assert signature("sunny", {"batch": "8"}, "H100-80GB") == Signature("sunny", "8", "H100-80GB")
    assert signature(None, {}, "H100-80GB") is None
    assert signature("sunny", {}, None) is None
