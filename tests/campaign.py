"""Cases that are generated: the suite runs the first of them, `make soak` the others."""

import pytest
from _pytest.mark.structures import ParameterSet


def cases(count: int, here: int) -> list[ParameterSet]:
    """Return two ranges to parametrize a test with: the `here` first of `count` cases, and what `make soak` runs."""
    rest = pytest.param(range(here, count), marks=pytest.mark.soak, id=f"{here}-{count}")
    return [pytest.param(range(here), id=f"0-{here}"), rest]


def examples(count: int, here: int) -> list[ParameterSet]:
    """Return how many examples Hypothesis draws: `here` in the suite, and what `make soak` draws."""
    return [pytest.param(here, id=f"{here}"), pytest.param(count, marks=pytest.mark.soak, id=f"{count}")]
