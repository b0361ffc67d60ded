"""Checkpoints: bursts, Young's interval, and what to say of the one that is used."""

from math import isclose, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.measures.efficiency.checkpoints import (
    Failures,
    Saving,
    advice,
    best_interval_seconds,
    bursts,
    checkpoints,
    lost_ratio,
    mtbf_seconds,
)

MINUTE, HOUR = 60_000_000, 3_600_000_000
seconds = st.floats(1, 1e6)


def saving(interval_minutes: int, count: int = 20, **more: object) -> Saving:
    """Return a run of 16 GPUs on 2 hosts that stands still for 60 s at each of its checkpoints."""
    facts: dict[str, object] = {
        "run_id": "slurm/a/1",
        "name": "llama",
        "team": "nlp",
        "gpus": 16,
        "nodes": 2,
        "seen": tuple(n * interval_minutes * MINUTE for n in range(count)),
        "named": (),
        "saving_ms": 16 * 60_000 * count,
        "saving_micros": 1_000_000,
        "held_ms": 16 * 3_600_000 * 100,
        "held_micros": 4_160_000_000,
        "restored_at": None,
    }
    return Saving(**(facts | more))  # type: ignore[arg-type]


# A failure every 200 host-hours: on two hosts one every 100 h. √(2 x 360,000 s x 60 s) is 6,573 s, 1 h 50 min.
FAILURES = Failures(failures=5, node_us=1_000 * HOUR)


def test_by_hand() -> None:
    """Every hour where 1 h 50 min would be best: within a factor of two, so it is right."""
    found = checkpoints(saving(60), FAILURES)
    assert found is not None
    assert (found.count, found.by) == (20, "seen")
    assert (found.interval_seconds.value, found.save_seconds.value) == (3_600, 60)
    assert found.mtbf_seconds.value == 360_000
    assert found.best_seconds.value == pytest.approx(sqrt(2 * 360_000 * 60))
    assert found.advice == "right"


@pytest.mark.parametrize(
    ("minutes", "word"), [(10, "less often"), (54, "less often"), (56, "right"), (400, "more often")]
)
def test_twice_too_often_or_too_seldom_is_told(minutes: int, word: str) -> None:
    """The best is 109.5 minutes: from 54.8 to 219.1 nothing is to be changed."""
    found = checkpoints(saving(minutes), FAILURES)
    assert found is not None
    assert found.advice == word
    assert found.stake_ms is not None


def test_the_stake_is_what_the_best_interval_would_save() -> None:
    """Every 10 minutes: 60/600 + 600/720,000 = 10.083% lost; at the best √(2 x 60/360,000) = 1.826%. Of 1,600
    GPU-hours that is 132.1, of $4,160 it is $343.51.
    """
    found = checkpoints(saving(10), FAILURES)
    assert found is not None
    assert found.stake_ms is not None
    assert found.stake_micros is not None
    assert round(found.stake_ms / 3_600_000, 1) == 132.1
    assert round(found.stake_micros / 10**6, 1) == 343.5


def test_one_host_that_keeps_failing_is_the_finding() -> None:
    """Saving more often would only pay for the host; of hosts that the run never had nothing is said."""
    failures = Failures(5, 1_000 * HOUR, (("n05", 3),))
    found = checkpoints(saving(60), failures, ["n04", "n05"])
    assert found is not None
    assert (found.advice, found.worst_node, found.worst_node_failures) == ("node", "n05", 3)
    elsewhere = checkpoints(saving(60), failures, ["n01", "n02"])
    assert elsewhere is not None
    assert (elsewhere.advice, elsewhere.worst_node) == ("right", None)


@pytest.mark.parametrize(
    ("given_saving", "failures", "why"),
    [
        (saving(60), Failures(2, 1_000 * HOUR), "2 failures of training in 1,000 host-hours: 3 are needed"),
        (saving(60), Failures(1, 10 * HOUR), "1 failure of training in 10 host-hours"),
        (saving(60, count=2), FAILURES, "2 checkpoints: 3 are needed"),
        (saving(60, saving_ms=0), FAILURES, "no time lost to saving was observed"),
        (saving(60), Failures(5, HOUR // 100), "no interval helps"),
    ],
)
def test_what_is_not_known_is_not_advised(given_saving: Saving, failures: Failures, why: str) -> None:
    """A cadence from two failures is luck."""
    found = checkpoints(given_saving, failures)
    assert found is not None
    assert (found.advice, found.stake_ms) == (None, None)
    assert why in (found.best_seconds.because or "")


def test_minutes_that_follow_each_other_are_one_checkpoint() -> None:
    """A large one takes minutes to write."""
    assert bursts([9 * MINUTE, 10 * MINUTE, 12 * MINUTE, 40 * MINUTE, 41 * MINUTE]) == (9 * MINUTE, 40 * MINUTE)


def test_what_the_run_says_goes_before_what_is_seen() -> None:
    """It knows when one is complete; two words are not enough for an interval."""
    said = checkpoints(saving(60, named=(0, HOUR, 2 * HOUR)), FAILURES)
    assert said is not None
    assert (said.count, said.by) == (3, "named")
    seen = checkpoints(saving(60, named=(0, HOUR)), FAILURES)
    assert seen is not None
    assert seen.by == "seen"
    assert checkpoints(saving(60, seen=()), FAILURES) is None


@given(mtbf=seconds, save=seconds, other=st.floats(0.01, 100))
def test_no_interval_loses_less_than_youngs(mtbf: float, save: float, other: float) -> None:
    """The formula is the minimum of the loss that it is made for."""
    best = best_interval_seconds(mtbf, save)
    assert lost_ratio(best * other, mtbf, save) >= lost_ratio(best, mtbf, save) * (1 - 1e-9)


@given(mtbf=seconds, save=seconds)
def test_a_factor_of_two_costs_a_quarter(mtbf: float, save: float) -> None:
    """Which is why nobody is told to change within it."""
    best = best_interval_seconds(mtbf, save)
    for off in (2 * best, best / 2):
        assert isclose(lost_ratio(off, mtbf, save), 1.25 * lost_ratio(best, mtbf, save))


@given(nodes=st.integers(1, 1_000), failures=st.integers(3, 1_000))
def test_twice_the_hosts_fail_twice_as_often(nodes: int, failures: int) -> None:
    """Each host fails for itself."""
    one = mtbf_seconds(Failures(failures, 10**15), nodes).value
    two = mtbf_seconds(Failures(failures, 10**15), 2 * nodes).value
    assert one is not None
    assert two is not None
    assert isclose(one, 2 * two)


def test_the_edges_of_advice() -> None:
    """Twice is still right, more is not; once is no habit of a host."""
    assert [advice(interval, 100, None) for interval in (49.9, 50, 200, 200.1)] == [
        "less often",
        "right",
        "right",
        "more often",
    ]
    assert advice(100, 100, ("n05", 1)) == "right"
