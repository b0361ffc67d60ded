"""Two pages become a row: amounts of the interval between them, or nothing."""

import math

import pytest

from agent.sources.service_page import Page
from agent.sources.services import row


def page(requests: float | None, tokens: float = 0, engine: str = "vllm", quick: float = 0, slow: float = 0) -> Page:
    """Return a page of a service after so many requests."""
    counters = {"tokens_out": tokens} | ({} if requests is None else {"requests": requests})
    buckets = {0.1: quick, 1.0: quick + slow, math.inf: quick + slow}
    return Page(engine, counters, {"running": 2}, buckets)


def test_amounts_are_those_of_the_interval() -> None:
    """And percentiles are those of its requests, not of all that the server ever answered."""
    said = row("slurm/alpha/7", page(100, 5000, quick=1000), page(103, 5600, quick=1000, slow=100), 0.5)
    assert said == {
        "run_id": "slurm/alpha/7",
        "engine": "vllm",
        "model": None,
        "slo_seconds": 0.5,
        "running": 2,
        "requests": 3,
        "tokens_out": 600,
        "first_token_seconds_p50": pytest.approx(0.55),
        "first_token_seconds_p99": pytest.approx(0.991),
    }


def test_the_first_page_tells_no_amounts() -> None:
    """What a server answered before we looked was answered before we looked."""
    assert row("r", None, page(100), None) == {
        "run_id": "r",
        "engine": "vllm",
        "model": None,
        "slo_seconds": None,
        "running": 2,
    }


def test_a_restart_is_no_work() -> None:
    """One counter that fell tells of the others, those too that have passed their old values already."""
    assert "tokens_out" not in row("r", page(100, 50), page(3, 900), None)
    assert "requests" not in row("r", page(100), page(130, engine="tgi"), None)


def test_a_counter_that_comes_with_its_first_event_began_at_nothing() -> None:
    """TGI says nothing of requests before there was one."""
    assert row("r", page(None), page(4), None)["requests"] == 4


def test_an_interval_without_requests_has_no_percentile() -> None:
    """Nobody waited, and so nobody waited for 0 seconds."""
    said = row("r", page(100, quick=7), page(100, quick=7), None)
    assert said["requests"] == 0
    assert "first_token_seconds_p50" not in said
