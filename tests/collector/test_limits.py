"""One agent that sends too much is told so; the others notice nothing, and memory stays bounded."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.config import CollectorConfig
from collector.errors import BatchError
from collector.limits import SenderLimits, spread_seconds
from tests.collector.batches import body
from tests.collector.hostile import sealed
from tests.collector.serving import running
from tests.collector.test_bad_input import GPU


class FakeClock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def _limits(clock: FakeClock, **changes: float) -> SenderLimits:
    settings = {"batches_per_second": 2.0, "bytes_per_second": 1000.0, "burst_seconds": 5.0} | changes
    return SenderLimits(**settings, now=clock)  # type: ignore[arg-type]


def _taken(limits: SenderLimits, sender: str, size: int, tries: int) -> int:
    taken = 0
    for _ in range(tries):
        try:
            limits.spend(sender, size)
            taken += 1
        except BatchError:
            return taken
    return taken


def test_a_rush_is_taken_up_to_the_burst_and_then_the_rate() -> None:
    """After an outage an agent has much to send, and it should; only what never ends is slowed down."""
    clock = FakeClock()
    limits = _limits(clock)
    assert _taken(limits, "n1", 1, 100) == 10  # 5 s at 2 a second
    clock.now += 1.0
    assert _taken(limits, "n1", 1, 100) == 2
    clock.now += 3600.0
    assert _taken(limits, "n1", 1, 100) == 10  # an hour of silence saves up no more than the burst


def test_bytes_count_too() -> None:
    """A few large batches are as much work as many small ones."""
    clock = FakeClock()
    assert _taken(_limits(clock), "n1", 1000, 100) == 5


def test_one_sender_does_not_cost_another() -> None:
    """A loop gone wrong on one host must not silence the rest of the fleet."""
    limits = _limits(FakeClock())
    _taken(limits, "n1", 1, 100)
    assert _taken(limits, "n2", 1, 100) == 10


def test_a_batch_above_the_burst_fits_who_was_quiet() -> None:
    """It would otherwise be refused for ever, and the agent would send it for ever."""
    clock = FakeClock()
    limits = _limits(clock)
    limits.spend("n1", 50_000)
    with pytest.raises(BatchError):
        limits.spend("n1", 1)
    clock.now += 50.0
    limits.spend("n1", 50_000)


def test_the_wait_that_is_asked_for_is_enough() -> None:
    """Who comes back when told is taken; and not all who were told in one second come back in one."""
    clock = FakeClock()
    limits = _limits(clock, batches_per_second=0.5)
    _taken(limits, "n1", 1, 100)
    with pytest.raises(BatchError, match="n1 sends more batches per second") as refused:
        limits.spend("n1", 1)
    assert refused.value.status == 429
    assert refused.value.retry_after is not None
    clock.now += refused.value.retry_after
    limits.spend("n1", 1)
    assert {spread_seconds(3.2) for _ in range(1000)} == {4, 5, 6, 7, 8}
    assert {spread_seconds(0.01) for _ in range(1000)} == {1, 2}


def test_what_is_refused_costs_nothing() -> None:
    """A sender that keeps knocking is not kept out for longer by it."""
    clock = FakeClock()
    limits = _limits(clock)
    for _ in range(1000):
        _taken(limits, "n1", 1, 1)
    clock.now += 0.5
    assert _taken(limits, "n1", 1, 10) == 1


def test_made_up_names_take_no_memory() -> None:
    """Names come from outside; the table forgets the oldest."""
    limits = SenderLimits(1, 1, 1, max_senders=3)
    for number in range(1000):
        limits.spend(f"n{number}", 1)
    assert len(limits) == 3


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(0, 4000)), max_size=60))
def test_no_pattern_gets_more_than_rate_and_burst(pattern: list[tuple[float, int]]) -> None:
    """Over any time, what is taken stays within the burst, the rate and the one batch that always fits."""
    clock = FakeClock()
    limits = _limits(clock)
    begun = clock.now
    batches = size = 0
    for pause, more in pattern:
        clock.now += pause
        if _taken(limits, "n1", more, 1):
            batches, size = batches + 1, size + more
    seconds = clock.now - begun + 5.0
    assert batches <= 2.0 * seconds + 1
    assert size <= 1000.0 * seconds + 4000


def test_over_http_one_agent_is_slowed_and_another_is_not(config: CollectorConfig) -> None:
    """The limit is the agent's by name where all share a token, and by its key where it has one."""
    slow = replace(config, agent_batches_per_second=0.01, agent_burst_seconds=200.0)
    with running(slow) as serving:
        assert [serving.client.post(body(sequence)).status for sequence in range(3)] == [200, 200, 429]
        answer = serving.client.post(body(3))
        assert answer.json["reason"] == "rate"
        assert 100 <= int(answer.headers["retry-after"]) <= 201
        other = sealed({"gpu_samples": GPU}, agent="n15", stream="another")
        assert serving.client.post(other).status == 200
        metrics = serving.client.get("/metrics").text
        assert 'gpuledger_collector_batches_total{result="rate"} 2.0' in metrics
        assert "gpuledger_collector_limited_senders 2.0" in metrics
