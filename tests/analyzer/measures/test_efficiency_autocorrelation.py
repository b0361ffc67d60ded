"""Periods: the fundamental or nothing, never a part of a step and never several."""

import random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from analyzer.measures.efficiency.steps import Fundamental, correlations, fundamental

SAMPLES = 450


def steps(period: float, duty: float, noise: float, seed: int, parts: int = 1, depth: float = 0.0) -> list[float]:
    """Return a GPU that works for a share of each step and waits for the rest, averaged over each sample.

    With `parts` it also dips between the parts of a step, to `depth` of its activity.
    """
    chance = random.Random(seed)
    fine = 5
    found = []
    for sample in range(SAMPLES):
        levels = [_level((sample + place / fine) % period / period, duty, parts, depth) for place in range(fine)]
        found.append(sum(levels) / fine + chance.gauss(0, noise))
    return found


def _level(phase: float, duty: float, parts: int, depth: float) -> float:
    if phase >= duty:
        return 0.0
    within = phase / duty * parts % 1
    return 0.9 * depth if parts > 1 and within > 0.7 and phase / duty < 1 - 1 / parts else 0.9


@settings(max_examples=25)
@given(period=st.floats(12, 60), duty=st.floats(0.3, 0.9), noise=st.floats(0, 0.15), seed=st.integers(0, 10_000))
def test_the_fundamental_is_found(period: float, duty: float, noise: float, seed: int) -> None:
    """A step of any length that samples can show is told, with noise on it or without; seldom withheld, never wrong."""
    found = fundamental(steps(period, duty, noise, seed), 10, 120)
    if isinstance(found, str):
        assert found.startswith("a step may be")
        return
    assert found.lag == pytest.approx(period, rel=0.05)
    assert found.cycles == pytest.approx(SAMPLES / period, rel=0.05)


@settings(max_examples=30)
@given(
    period=st.floats(30, 80),
    parts=st.integers(2, 4),
    depth=st.floats(0, 1),
    noise=st.floats(0, 0.15),
    seed=st.integers(0, 10_000),
)
def test_a_part_of_a_step_is_never_told_as_the_step(
    period: float, parts: int, depth: float, noise: float, seed: int
) -> None:
    """Gradients that are accumulated dip between their parts: a step time of a half would double all that follows."""
    found = fundamental(steps(period, 0.8, noise, seed, parts, depth), 10, 120)
    assert isinstance(found, str) or found.lag == pytest.approx(period, rel=0.05)


@settings(max_examples=15)
@given(noise=st.floats(0.01, 0.3), seed=st.integers(0, 10_000))
def test_noise_has_no_period(noise: float, seed: int) -> None:
    """What never repeats must not get a step time."""
    chance = random.Random(seed)
    assert isinstance(fundamental([0.8 + chance.gauss(0, noise) for _ in range(SAMPLES)], 10, 120), str)


@settings(max_examples=10)
@given(drift=st.floats(-2, 2), seed=st.integers(0, 10_000))
def test_a_slow_change_is_no_period(drift: float, seed: int) -> None:
    """A run that only grows slower or warmer repeats nothing."""
    chance = random.Random(seed)
    assume(abs(drift) > 0.1)
    values = [0.5 + drift * place / SAMPLES + chance.gauss(0, 0.05) for place in range(SAMPLES)]
    assert isinstance(fundamental(values, 10, 120), str)


@pytest.mark.parametrize("period", [12.0, 20.0, 33.3, 60.0])
def test_a_clean_wave_is_always_found(period: float) -> None:
    """What is withheld here would be withheld everywhere."""
    found = fundamental(steps(period, 0.6, 0.02, 1), 10, 120)
    assert isinstance(found, Fundamental)
    assert found.lag == pytest.approx(period, rel=0.02)


def test_a_step_of_few_samples_is_withheld() -> None:
    """Five samples a step show that it repeats, and not how long it stalls (reference: ten)."""
    assert fundamental(steps(5, 0.5, 0.02, 1), 10, 120) == "its period is shorter than ten samples"


def test_two_like_halves_are_not_told_apart() -> None:
    """Where a half is nearly as good a period as the whole, both are named and none is claimed."""
    whole = [0.9] * 18 + [0.0] * 12 + [0.9] * 18 + [0.2] * 12
    found = fundamental(whole * 12, 10, 120)
    assert found == "a step may be 60 samples, or a part of it 30"


def test_correlations_by_hand() -> None:
    """1, 0, 1, 0: after one sample the opposite, after two itself."""
    assert correlations([1.0, 0.0, 1.0, 0.0], 3) == [1.0, -1.0, 1.0]
    assert correlations([0.7] * 5, 3) == [0.0, 0.0, 0.0]
    assert correlations([], 2) == [0.0, 0.0]
