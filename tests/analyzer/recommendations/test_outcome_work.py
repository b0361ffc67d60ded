"""The cost of a unit of work: by what runs say, at one price for both sides."""

from math import exp

import pytest

from analyzer.recommendations.lifecycle.work import Spent, Work, log_costs, rates_of, unit_of

HOUR_MS = 3_600_000


def work(run: str, *, after: bool = False, hours: int = 1, price: int | None = 2_600_000, **more: object) -> Work:
    """Return a run of so many GPU-hours at a price."""
    micros = None if price is None else hours * price
    facts = {"tokens": None, "samples": None, "steps": None, "exit_status": "completed", "is_whole": True} | more
    status, whole = facts.pop("exit_status"), facts.pop("is_whole")
    spent = (Spent("H100-80GB", hours * HOUR_MS, micros),)
    return Work(run, "x", None, 0, after, bool(whole), False, status, spent, **facts)  # type: ignore[arg-type]


def test_tokens_go_before_steps_and_a_whole_run_comes_last() -> None:
    """A step is another amount of work where the batch has changed."""
    assert unit_of([work("a", tokens=5, steps=1), work("b", after=True, tokens=5, steps=1)]) == "tokens"
    assert unit_of([work("a", steps=1), work("b", after=True, tokens=5, steps=1)]) == "steps"
    assert unit_of([work("a"), work("b", after=True)]) == "run"
    assert unit_of([work("a", is_whole=False), work("b", after=True)]) is None
    assert unit_of([work("a", exit_status="failed"), work("b", after=True)]) is None


def test_a_new_price_is_no_saving() -> None:
    """Both sides cost what a GPU-hour cost before."""
    before, after = work("a", tokens=100), work("b", after=True, tokens=100, price=1_000_000)
    costs = log_costs([before, after], "tokens", rates_of([before]))
    assert costs["a"] == pytest.approx(costs["b"])
    assert exp(costs["a"]) == pytest.approx(26_000)


def test_without_a_price_it_is_gpu_time() -> None:
    """A part that has a price and a part that has none cannot be added up."""
    before, after = work("a", tokens=100, price=None), work("b", after=True, tokens=100, hours=2)
    costs = log_costs([before, after], "tokens", rates_of([before]))
    assert exp(costs["b"] - costs["a"]) == pytest.approx(2)


def test_of_what_failed_nobody_knows_which_work_was_of_use() -> None:
    """It is left out, and not counted as work that was free."""
    assert log_costs([work("a", tokens=9, exit_status="failed"), work("b", tokens=0)], "tokens", {}) == {}
