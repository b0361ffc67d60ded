"""Quantiles of t against the published table (Abramowitz and Stegun, table 26.10)."""

import pytest

from analyzer.recommendations.lifecycle.outcome import below, quantile


@pytest.mark.parametrize(
    ("freedom", "by_probability"),
    [
        (1, {0.9: 3.078, 0.975: 12.706}),
        (4, {0.9: 1.533, 0.975: 2.776}),
        (10, {0.9: 1.372, 0.975: 2.228}),
        (30, {0.9: 1.310, 0.975: 2.042}),
        (120, {0.9: 1.289, 0.975: 1.980}),
        (1e9, {0.9: 1.282, 0.975: 1.960}),
    ],
)
def test_quantiles_are_those_of_the_table(freedom: float, by_probability: dict[float, float]) -> None:
    """An interval is as wide as this says."""
    for probability, t in by_probability.items():
        assert quantile(probability, freedom) == pytest.approx(t, abs=6e-4)
        assert quantile(1 - probability, freedom) == pytest.approx(-t, abs=6e-4)


@pytest.mark.parametrize("freedom", [1.5, 4.7, 23.2])
def test_degrees_of_freedom_need_not_be_whole(freedom: float) -> None:
    """Satterthwaite's hardly ever are."""
    for probability in (0.6, 0.9, 0.975):
        assert below(quantile(probability, freedom), freedom) == pytest.approx(probability, abs=1e-9)


@pytest.mark.parametrize(("probability", "freedom"), [(0.0, 3), (1.0, 3), (0.9, 0)])
def test_what_has_no_quantile_is_refused(probability: float, freedom: float) -> None:
    """A made-up width would be believed."""
    with pytest.raises(ValueError, match="no quantile"):
        quantile(probability, freedom)
