"""Meters, shares and units, for whatever numbers a driver may give."""

from hypothesis import given
from hypothesis import strategies as st

from agent.nvml.gpm import RATES, RATIOS, in_base_units
from agent.nvml.meter import EnergyMeter, Meter
from agent.nvml.utilization import of_samples

READINGS = st.lists(st.one_of(st.none(), st.integers(0, 2**64 - 1)), max_size=30)


@given(READINGS)
def test_an_amount_is_never_negative_and_never_more_than_the_counter_moved(readings: list[int | None]) -> None:
    """Neither a reset nor silence can look like work."""
    meter, before = Meter(), None
    for reading in readings:
        amount = meter.amount(reading)
        if before is None or reading is None or reading < before:
            assert amount is None
        else:
            assert amount == reading - before
        before = reading


@given(st.lists(st.one_of(st.none(), st.integers(0, 1000)), max_size=30))
def test_rare_events_are_not_lost_to_silence(steps: list[int | None]) -> None:
    """One failed question must not hide an ECC error for ever."""
    meter, total, counted = Meter(over_silence=True), 0, 0
    meter.amount(0)
    for step in [*steps, 0]:
        total += step or 0
        counted += meter.amount(None if step is None else total) or 0
    assert counted == total


@given(READINGS)
def test_within_an_epoch_the_joules_are_the_difference_of_the_totals(readings: list[int | None]) -> None:
    """That is what lets a reader mend a lost batch, and what it must not do across epochs."""
    meter = EnergyMeter(lambda: 1000.0)
    last_epoch = None
    for before, reading in zip([None, *readings], readings, strict=False):
        energy = meter.read(reading)
        if reading is None:
            assert energy.epoch is None
            continue
        assert energy.epoch is not None
        assert last_epoch is None or energy.epoch >= last_epoch
        assert energy.joules is None or (before is not None and energy.joules == (reading - before) / 1000)
        last_epoch = energy.epoch


@given(st.lists(st.integers(0, 100), min_size=1, max_size=120))
def test_shares_of_samples_are_shares(percents: list[int]) -> None:
    """Zero is part of low, low and high exclude each other, and the mean lies within what they allow."""
    found = of_samples(percents)
    assert found.ratio is not None
    assert found.zero_ratio is not None
    assert found.low_ratio is not None
    assert found.high_ratio is not None
    assert 0 <= found.zero_ratio <= found.low_ratio <= 1
    assert found.low_ratio + found.high_ratio <= 1
    assert 0 <= found.ratio <= 1


@given(
    st.dictionaries(st.sampled_from([*RATIOS, *RATES]), st.floats(-1e6, 1e6)),
    st.one_of(st.none(), st.floats(0.1, 3600)),
)
def test_activity_within_the_chip_stays_within_its_range(metrics: dict[int, float], seconds: float | None) -> None:
    """The collector refuses what lies outside, and with it the whole batch."""
    for name, value in in_base_units(metrics, seconds).items():
        assert 0 <= value <= (1 if name.endswith("_ratio") else 2**60)
