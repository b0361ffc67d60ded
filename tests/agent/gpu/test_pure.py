"""Meters, shares, units and what the driver's bytes mean, for whatever a driver may give."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
from hypothesis import given
from hypothesis import strategies as st

from agent.files import StateFile
from agent.gpu.nvidia.activity import RATES, RATIOS, Ring, Samples, decoded_metrics, in_base_units, of_samples
from agent.gpu.nvidia.calls import Calls, Failures, Meter, decoded_fields
from agent.gpu.nvidia.device_registry import Followed, ask_all, mended
from agent.gpu.nvidia.gpu import GpuReading
from agent.gpu.nvidia.instruments import action
from agent.gpu.nvidia.listing import ExpectedDevices, Listed
from agent.gpu.nvidia.power import EnergyBook, EnergyCounter, EnergyMeter
from agent.gpu.source import GpuHost
from agent.watchdog_thread import WatchdogThread
from agent.wire.tables import GPU_SAMPLES

COUNTS = st.integers(0, 2**64 - 1)
READINGS = st.lists(st.one_of(st.none(), COUNTS), max_size=30)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
    max_leaves=8,
)


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


@given(st.lists(st.tuples(COUNTS, st.booleans()), min_size=1, max_size=30))
def test_an_epoch_changes_with_the_counter_and_never_with_the_agent(steps: list[tuple[int, bool]]) -> None:
    """A restart at any moment, marked True, leaves the epochs what they would have been without it."""
    wall = iter(range(1000, 10_000))
    whole, restarted = EnergyMeter(lambda: 1.0), EnergyMeter(lambda: float(next(wall)))
    before: tuple[int, int | None, int | None] | None = None
    for reading, restart in steps:
        if restart:
            restarted = EnergyMeter(lambda: float(next(wall)), restarted.counter)
        now = (reading, whole.read(reading).epoch, restarted.read(reading).epoch)
        assert before is None or (before[1] == now[1]) is (before[2] == now[2]) is (before[0] <= reading)
        before = now


@given(JSON)
def test_a_broken_memory_of_energy_is_no_memory(section: object) -> None:
    """The file lies on a disk that anybody may have filled or edited."""
    state_file = StateFile(None)
    state_file.keep("energy", section if isinstance(section, dict) else {"boot": section, "GPU-1": section})
    book = EnergyBook(state_file, Path("nowhere"))
    assert book.known("GPU-1") is None
    book.keep({"GPU-1": EnergyCounter(5, 6)})
    assert book.known("GPU-1") is None  # without a boot id nothing is believed
    assert json.dumps(state_file.section("energy"))


ENTRIES = st.one_of(JSON, st.dictionaries(st.sampled_from(["pci_bus_id", "sku", "missing_since"]), JSON))


@given(
    st.dictionaries(st.text(max_size=2), ENTRIES, max_size=5), st.booleans(), st.lists(st.text(max_size=2), max_size=3)
)
def test_a_broken_memory_of_gpus_stops_nothing(section: dict[str, object], complete: bool, listed: list[str]) -> None:
    """What is listed is listed, whatever an older agent or an editor left behind."""
    state_file = StateFile(None)
    state_file.keep("gpus", section)
    host = GpuHost("", Path("nowhere"), Path("nowhere"), 0, 0.5, 0.0, state_file, frozenset)
    expected_devices = ExpectedDevices(host, lambda: 1e9)
    assert list(expected_devices.missing) == []
    gpus = {uuid: (index, None) for index, uuid in enumerate(dict.fromkeys(listed))}
    expected_devices.update(Listed(gpus, len(gpus) + (not complete), 0, {} if complete else {len(gpus): "lost"}), {})
    assert not set(expected_devices.missing) & set(listed)
    assert expected_devices.expected >= len(set(listed))


@given(st.lists(st.integers(0, 100), min_size=1, max_size=120))
def test_shares_of_samples_are_shares(percents: list[int]) -> None:
    """Zero is part of low, low and high exclude each other, and the mean lies within what they allow."""
    found = of_samples(Samples(percents, whole=True))
    assert found.ratio is not None
    assert found.zero_ratio is not None
    assert found.low_ratio is not None
    assert found.high_ratio is not None
    assert 0 <= found.zero_ratio <= found.low_ratio <= 1
    assert found.low_ratio + found.high_ratio <= 1
    assert 0 <= found.ratio <= 1


class FakeRing:
    """A driver's ring as nvmlDeviceGetSamples gives it: all samples, newer than the cursor or not."""

    def __init__(self) -> None:
        self.pairs: list[tuple[int, int]] = []

    def ask_as(self, name: str, call: object, *arguments: object) -> tuple[int, list[pynvml.c_nvmlSample_t]] | None:
        """Answer like Calls."""
        samples = [pynvml.c_nvmlSample_t() for _ in self.pairs]
        for sample, (time, value) in zip(samples, self.pairs, strict=True):
            sample.timeStamp, sample.sampleValue.uiVal = time, value
        return (1, samples) if samples else None


SAMPLES = st.lists(st.tuples(st.integers(0, 2**63), st.integers(0, 2**32 - 1)), max_size=20)


@given(st.lists(SAMPLES, max_size=10))
def test_a_sample_of_a_ring_is_used_once_at_most(beats: list[list[tuple[int, int]]]) -> None:
    """A ring spans several beats, and places of it that are not used bear any time and value."""
    driver = FakeRing()
    ring = Ring(driver, "ring", 1, 100)  # type: ignore[arg-type]  # of Calls a ring needs only ask_as
    newest = 0
    for beat in beats:
        driver.pairs = beat
        found = ring.read(None)
        allowed = [value for time, value in beat if time > newest and value <= 100]
        assert list(found.values) == allowed
        newest = max([newest, *(time for time, _ in beat)])


@given(st.lists(st.binary(min_size=40, max_size=40), max_size=40))
def test_any_bytes_of_the_driver_are_numbers_or_nothing(answers: list[bytes]) -> None:
    """A NaN, a negative counter or a type that is newer than we are is no value; it must not end a beat either."""
    found = list(decoded_fields(b"".join(answers)))
    assert len(found) == len(answers)
    for _, code, value in found:
        assert value is None or (code == 0 and isinstance(value, int) and value >= 0)


@given(st.integers(0, 6), st.integers(0, 2**16 - 1))
def test_every_type_of_value_is_read_as_the_binding_reads_it(kind: int, number: int) -> None:
    """The driver chooses the type, also anew for a field that had another."""
    answer = pynvml.c_nvmlFieldValue_t()
    answer.fieldId, answer.scopeId, answer.valueType = 186, 1, kind
    setattr(answer.value, ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")[kind], number)
    assert list(decoded_fields(bytes(answer))) == [((186, 1), 0, number)]


@given(st.binary(min_size=400, max_size=400))
def test_any_bytes_of_gpm_are_finite_numbers_or_nothing(metrics: bytes) -> None:
    """They are sums and means further on, and one NaN makes a week unknown."""
    for value in in_base_units(decoded_metrics(metrics, 10), 1.0).values():
        assert 0 <= value < 2**60


def test_a_metric_is_read_as_the_binding_reads_it() -> None:
    """We look at the bytes since ten thousand attributes a second cost more than the driver does."""
    question = pynvml.c_nvmlGpmMetricsGet_t()
    question.metrics[1].metricId, question.metrics[1].value = 5, 41.25
    question.metrics[2].metricId, question.metrics[2].nvmlReturn = 6, 3
    assert decoded_metrics(memoryview(question.metrics).cast("B"), 3) == {0: 0.0, 5: 41.25}


@given(
    st.dictionaries(st.sampled_from([*RATIOS, *RATES]), st.floats(allow_nan=False, allow_infinity=False)),
    st.one_of(st.none(), st.floats(0.1, 3600)),
)
def test_activity_within_the_chip_stays_within_its_range(metrics: dict[int, float], seconds: float | None) -> None:
    """The collector refuses what lies outside, and with it the whole batch."""
    for name, value in in_base_units(metrics, seconds).items():
        assert 0 <= value <= (1 if name.endswith("_ratio") else 2**60)


AMOUNTS = [column.name for column in GPU_SAMPLES.columns if column.kind == "amount"]
EVENTS = [column.name for column in GPU_SAMPLES.columns if column.kind == "amount" and column.unit == "events"]
ROWS = st.dictionaries(st.sampled_from([*AMOUNTS, "power_watts"]), st.one_of(st.none(), st.integers(0, 1000)))


@given(ROWS, ROWS)
def test_after_a_late_answer_no_event_is_lost_and_no_amount_is_made_up(
    now: dict[str, int | None], late: dict[str, int | None]
) -> None:
    """Errors are counted whenever they came; joules of an unknown time are nobody's."""
    whose = {"gpu_uuid": "GPU-1"}
    (row,) = mended(GpuReading(({**whose, **now},)), GpuReading(({**whose, **late},))).rows
    assert row.get("power_watts") == now.get("power_watts")
    for name in AMOUNTS:
        counts = [value for value in (now.get(name), late.get(name)) if value is not None]
        assert row.get(name) == (sum(counts) if counts and name in EVENTS else None)


@given(st.integers(0, 2**64))
def test_what_the_driver_asks_for_has_a_word(number: int) -> None:
    """An action that we do not know yet is not none."""
    assert (action(number) == "none") is (number == 0)
    assert action(None) is None


def test_a_refusal_that_was_overcome_is_no_reason_any_more() -> None:
    """What failed for a minute must not be said to be missing for a month."""
    calls = Calls("GPU-1", Failures())
    calls.refused("question", 999)
    assert calls.refusal("question") is not None
    assert calls.ask_as("question", lambda: 1) == 1
    assert calls.refusal("question") is None


def test_whatever_one_gpu_s_reading_raises_costs_that_reading_alone() -> None:
    """One value that nobody thought of ended the reading of all."""
    failures = Failures()
    answers = {"GPU-1": GpuReading(({"gpu_uuid": "GPU-1", "up": True},))}

    def followed(uuid: str) -> Followed:
        gpu: Any = SimpleNamespace(uuid=uuid, absent=False, context=SimpleNamespace(failures=failures))
        return Followed(gpu, WatchdogThread(uuid, lambda: answers[uuid]))

    both = [followed("GPU-0"), followed("GPU-1")]
    ask_all(both, None, 20)
    assert [one.reading for one in both] == [None, answers["GPU-1"]]
    assert list(failures.unreadable) == [("GPU-0", "reading")]
    answers["GPU-0"] = GpuReading(({"gpu_uuid": "GPU-0", "up": True},))
    ask_all(both, None, 20)
    assert both[0].reading is not None
    assert failures.unreadable == {}
    for one in both:
        one.watchdog.close()
