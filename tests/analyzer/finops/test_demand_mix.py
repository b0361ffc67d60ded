"""The mix of buying: one more reserved GPU pays where it is wanted often enough, and never otherwise."""

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.wire.units import HOUR_MS
from analyzer.finops.demand import Rates, best_mix, mix_of, scaled

RATES = Rates(reserved=2_000_000, on_demand=4_000_000, spot=1_500_000)


def gpus(*counts: int) -> list[int]:
    """Return hours in which so many GPUs are wanted."""
    return [count * HOUR_MS for count in counts]


def test_a_gpu_that_is_wanted_more_than_half_the_time_is_reserved_at_half_the_price() -> None:
    """The newsvendor's rule, by the figures anybody can check: 10 always, 20 in four hours of ten, 30 in one."""
    firm = gpus(*[10] * 6, *[20] * 3, 30)
    mix = best_mix(firm, gpus(*[0] * 10), 0, RATES)
    assert mix is not None
    assert mix.held_gpus == 10
    firm = gpus(*[10] * 4, *[20] * 5, 30)
    mix = best_mix(firm, gpus(*[0] * 10), 0, RATES)
    assert mix is not None
    assert mix.held_gpus == 20


def test_owned_gpus_are_used_first() -> None:
    """They are paid for; to reserve beside idle ones would be to pay twice."""
    mix = best_mix(gpus(8, 8, 8), gpus(0, 0, 0), 8, RATES)
    assert mix is not None
    assert (mix.held_gpus, mix.micros_a_week) == (0, 0)


def test_what_may_be_interrupted_fills_what_is_free_and_then_spot() -> None:
    """Reserving for it would pay for hours that spot sells for less."""
    mix = mix_of(gpus(10, 6), gpus(4, 4), 0, 10, RATES)
    assert mix.spot_gpu_hours == 168 * 4 // 2
    assert mix.on_demand_gpu_hours == 0
    without = mix_of(gpus(10, 6), gpus(4, 4), 0, 10, Rates(2_000_000, 4_000_000, None))
    assert (without.spot_gpu_hours, without.on_demand_gpu_hours) == (0, 168 * 4 // 2)


def test_without_a_price_no_mix_is_told() -> None:
    """List prices differ more than two-fold: none takes the place of the site's own."""
    assert best_mix(gpus(1), gpus(0), 0, Rates(None, 4_000_000, None)) is None
    assert best_mix(gpus(1), gpus(0), 0, Rates(2_000_000, None, 1)) is None
    assert best_mix([], [], 0, RATES) is None


hours = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20)), min_size=1, max_size=30)


@settings(max_examples=60)
@given(hours, st.integers(0, 20), st.integers(1, 50), st.integers(1, 50), st.one_of(st.none(), st.integers(1, 50)))
def test_no_number_of_gpus_is_cheaper_than_the_best(
    wanted: list[tuple[int, int]], owned: int, reserved: int, on_demand: int, spot: int | None
) -> None:
    """Held against every other size that could be reserved."""
    rates = Rates(reserved, on_demand, spot)
    firm, loose = gpus(*(a for a, _ in wanted)), gpus(*(b for _, b in wanted))
    best = best_mix(firm, loose, owned, rates)
    assert best is not None
    assert best.micros_a_week == min(mix_of(firm, loose, owned, size, rates).micros_a_week for size in range(80))


def test_demand_grows_in_whole_milliseconds() -> None:
    """A forecast of nothing changes nothing."""
    assert scaled([10, 20], 3, 2) == [15, 30]
    assert scaled([10, 20], 3, 0) == [10, 20]
