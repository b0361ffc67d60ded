"""Quantiles of Student's t: by its distribution as an incomplete beta function, and bisection.

Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.1 (the distribution) and 26.5.8 (the continued
fraction), evaluated as Lentz does. Checked against the published table (26.10).
"""

from math import exp, inf, isfinite, lgamma, log, sqrt
from statistics import NormalDist

_TINY = 1e-300
_ENOUGH = 1e-14
_STEPS = 300
_NORMAL_FROM = 1e6  # degrees of freedom from which t is the normal distribution to six digits


def quantile(probability: float, freedom: float) -> float:
    """Return the t below which a share `probability` lies, for `freedom` degrees, which need not be whole.

    Raises:
        ValueError: the probability is not between 0 and 1, or there is no freedom.
    """
    if not 0 < probability < 1 or freedom <= 0:
        raise ValueError(f"no quantile of t for {probability} and {freedom} degrees of freedom")
    if not isfinite(freedom) or freedom > _NORMAL_FROM:
        return NormalDist().inv_cdf(probability)
    if probability < 0.5:
        return -quantile(1 - probability, freedom)
    low, high = 0.0, 1.0
    while below(high, freedom) < probability:
        low, high = high, 2 * high
        if high == inf:
            raise ValueError(f"no quantile of t for {probability} and {freedom} degrees of freedom")
    while high - low > 1e-12 * max(1.0, high):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if below(middle, freedom) < probability else (low, middle)
    return (low + high) / 2


def below(t: float, freedom: float) -> float:
    """Return the share of the distribution below t, which is not negative."""
    return 1 - _incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5) / 2


def _incomplete_beta(x: float, a: float, b: float) -> float:
    if x <= 0 or x >= 1:
        return max(0.0, min(1.0, x))
    if x > (a + 1) / (a + b + 2):  # the fraction converges quickly on one side alone
        return 1 - _incomplete_beta(1 - x, b, a)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(1 - x))
    return front * _fraction(x, a, b) / a


def _fraction(x: float, a: float, b: float) -> float:
    c, d = 1.0, 1 / _not_zero(1 - (a + b) * x / (a + 1))
    found = d
    for step in range(1, _STEPS):
        even = step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step))
        d, c = 1 / _not_zero(1 + even * d), _not_zero(1 + even / c)
        found *= d * c
        odd = -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1))
        d, c = 1 / _not_zero(1 + odd * d), _not_zero(1 + odd / c)
        found *= d * c
        if abs(d * c - 1) < _ENOUGH:
            break
    return found


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def half_width(spread: float, freedom: float, level: float) -> float:
    """Return how far an interval of this level reaches to each side of an estimate whose error has this spread."""
    return 0.0 if spread == 0 else quantile((1 + level) / 2, freedom) * spread


def spread_of_mean(variance: float, count: int) -> float:
    """Return the standard error of a mean of `count` values."""
    return sqrt(variance / count)
