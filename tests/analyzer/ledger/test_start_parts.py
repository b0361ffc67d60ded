"""What a start consists of: image, load, warm-up, told apart by when each sign was first seen."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from analyzer.ledger.run_facts import StartParts, StartSeen, parts
from analyzer.ledger.thresholds import Thresholds

LIMITS = Thresholds()
SLURM = StartSeen(from_ms=1_000, started_ms=901_000, has_memory=True, context_ms=100_000, kernel_ms=500_000)
POD = replace(SLURM, is_pod=True, life_ms=60_000)


def test_a_pod_pulls_until_its_first_process() -> None:
    """Its kubelet hands the GPU out before the image is there."""
    assert parts(POD, LIMITS) == StartParts(60_000, 500_000)


def test_a_context_ends_the_pull_whatever_processes_are_seen() -> None:
    """Process trees are read every few minutes, memory every second."""
    assert parts(replace(POD, life_ms=300_000), LIMITS).image_until_ms == 100_000


def test_a_pod_of_which_no_process_was_ever_seen_pulls_nothing() -> None:
    """Who does not see processes does not see their absence."""
    assert parts(replace(POD, life_ms=None), LIMITS) == StartParts(1_000, 500_000)


def test_without_the_memory_gauge_nobody_saw_an_image_come() -> None:
    """None is not zero."""
    assert parts(replace(POD, has_memory=False), LIMITS).image_until_ms == 1_000


def test_a_job_that_unpacks_a_gigabyte_before_its_context_brings_an_image() -> None:
    """Its scheduler pulls none for it; importing libraries writes nothing."""
    assert parts(replace(SLURM, written_bytes=10**10), LIMITS) == StartParts(100_000, 500_000)
    assert parts(replace(SLURM, written_bytes=10**8), LIMITS) == StartParts(1_000, 500_000)
    assert parts(SLURM, LIMITS) == StartParts(1_000, 500_000)


def test_a_start_without_a_kernel_never_warms_up() -> None:
    """It loads until a quarter of an hour is over."""
    assert parts(replace(SLURM, kernel_ms=None), LIMITS).warm_from_ms == 901_000


instants = st.none() | st.integers(0, 2_000_000)


@given(
    st.builds(
        StartSeen,
        from_ms=st.integers(0, 1_000_000),
        started_ms=st.integers(1_000_000, 2_000_000),
        has_memory=st.booleans(),
        context_ms=instants,
        kernel_ms=instants,
        life_ms=instants,
        is_pod=st.booleans(),
        written_bytes=st.none() | st.integers(0, 10**11),
    )
)
def test_the_parts_lie_in_order_within_the_start(seen: StartSeen) -> None:
    """Whatever clocks say, every millisecond has one part."""
    cut = parts(seen, LIMITS)
    assert seen.from_ms <= cut.image_until_ms <= cut.warm_from_ms <= seen.started_ms
