"""What goes wrong with GPUs and drivers, and what the rows then say."""

import pytest

from tests.agent.gpu.conftest import Host, Starter
from tests.waiting import until

SECOND = "GPU-00000001-0000-0000-0000-000000000000"
NOT_SUPPORTED, NO_PERMISSION, UNINITIALIZED, DRIVER_NOT_LOADED, MISMATCH, LOST, RESET, UNKNOWN = (
    3,
    4,
    1,
    9,
    18,
    15,
    16,
    999,
)


def test_a_gpu_that_falls_off_the_bus_says_so_at_every_beat_until_it_is_back(host: Host) -> None:
    """A missing row reads as a quiet GPU; the row that says down is what pages somebody."""
    host.read()
    host.scenario.gpu(1, lost=1)
    for _ in range(5):
        well, gone = host.rows()
        assert well["up"] is True
        assert gone == {"gpu_uuid": SECOND, "up": False}
    assert host.read()["lost"] == [SECOND]
    host.scenario.gpu(1, lost=0)
    back = host.rows()[1]
    assert back["up"] is True
    assert back["energy_joules"] is None
    assert host.rows()[1]["energy_joules"] == 0


def test_a_gpu_that_needs_a_reset_is_down(host: Host) -> None:
    """The driver answers, but nobody can compute there."""
    host.read()
    host.scenario.fail("nvmlDeviceGetMemoryInfo_v2", RESET, index=1)
    assert [row["up"] for row in host.rows()] == [True, False]


def test_a_gpu_that_vanished_from_the_count_is_down_and_not_absent(host: Host) -> None:
    """After some failures the driver lists one GPU fewer, and the others move up."""
    host.read()
    host.scenario.host(count=1)
    assert host.rows()[1] == {"gpu_uuid": SECOND, "up": False}
    assert host.rows()[1] == {"gpu_uuid": SECOND, "up": False}
    host.scenario.host(count=2)
    assert [row["up"] for row in host.rows()] == [True, True]


def test_a_call_that_is_not_supported_is_asked_once(host: Host) -> None:
    """Half the calls of a consumer card answer so, and asking again every beat costs for nothing."""
    unsupported = ("nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetSamples", "nvmlDeviceGetMaxClockInfo")
    for function in unsupported:
        host.scenario.fail(function, NOT_SUPPORTED)
    host.scenario.every(field_138=None, field_139=None, field_74=None)
    row = [host.rows() for _ in range(4)][-1][0]
    assert row["up"] is True
    assert row["utilization_ratio"] == 0.8
    assert row["utilization_zero_ratio"] is None
    assert row["sm_clock_reference_hertz"] is None
    assert row["throttle_power_seconds"] is None
    assert row.get("nvlink_receive_bytes") is None
    # Once for each of two GPUs, and of each kind: two of errors, four of rings.
    assert [host.calls(function) for function in unsupported] == [4, 8, 2]
    assert host.read()["failures"] == {}


def test_what_is_not_supported_for_a_moment_comes_back(host: Host) -> None:
    """A reset in the middle of a reading switched energy off until the driver was loaded anew."""
    host.scenario.gpu(0, **{"fail.field.83": NOT_SUPPORTED}).fail("nvmlDeviceGetTotalEnergyConsumption", NOT_SUPPORTED)
    host.scenario.fail("nvmlDeviceGetClockInfo", NOT_SUPPORTED).fail("nvmlDeviceGetPcieThroughput", NOT_SUPPORTED)
    row = host.rows()[0]
    assert (row["energy_joules_total"], row["sm_clock_hertz"]) == (None, None)
    host.scenario.gpu(0, **{"fail.field.83": 0}).fail("nvmlDeviceGetTotalEnergyConsumption", 0)
    host.scenario.fail("nvmlDeviceGetClockInfo", 0)
    row = host.rows(seconds=61)[0]
    assert (row["energy_joules_total"], row["sm_clock_hertz"]) == (1_000_000, 1_755_000_000)


def test_what_is_never_supported_is_asked_for_rarely(host: Host) -> None:
    """Half the calls of a consumer card answer so; a day has 8,640 beats."""
    host.scenario.fail("nvmlDeviceGetClockInfo", NOT_SUPPORTED)
    for _ in range(24 * 6):
        host.read(seconds=600)
    # In a minute, two, four, … 64 minutes, then hourly; of each of two GPUs, of two clocks.
    assert host.calls("nvmlDeviceGetClockInfo") / 4 < 24 + 10
    assert host.supported("clocks") == "the driver reports not supported"


def test_a_fact_that_cannot_be_read_once_stays_as_it_was_told(host: Host) -> None:
    """A GPU whose name is unknown for a moment has not lost its price."""
    (before, _) = host.read()["reading"]["inventory"]
    host.scenario.fail("nvmlDeviceGetName", UNKNOWN, 0).fail("nvmlDeviceGetPciInfo_v3", UNKNOWN, 0)
    assert "inventory" not in host.read(seconds=31)["reading"]
    host.scenario.gpu(0, power_limit_mw=500_000)
    (after,) = host.read(seconds=31)["reading"]["inventory"]
    assert after == {**before, "power_limit_watts": 500.0}


def test_any_other_error_is_counted_and_asked_again(host: Host) -> None:
    """One error is no reason to lose a metric for ever: only NOT_SUPPORTED is."""
    host.scenario.fail("nvmlDeviceGetClockInfo", UNKNOWN, index=0)
    first = host.read()
    assert first["reading"]["gpu_samples"][0]["sm_clock_hertz"] is None
    assert first["failures"] == {"nvmlDeviceGetClockInfo": 1, "nvmlDeviceGetClockInfo(memory)": 1}
    host.scenario.fail("nvmlDeviceGetClockInfo", 0, index=0)
    assert host.rows()[0]["sm_clock_hertz"] == 1_755_000_000


def test_a_field_that_failed_once_makes_one_interval_unknown(host: Host) -> None:
    """Two intervals' worth must not be booked into one."""
    host.rows()
    host.scenario.gpu(0, field_83=1_000_001_000, **{"fail.field.83": UNKNOWN})
    assert host.rows()[0]["energy_joules"] is None
    host.scenario.gpu(0, field_83=1_000_002_000, **{"fail.field.83": 0})
    assert host.rows()[0]["energy_joules"] is None
    host.scenario.gpu(0, field_83=1_000_003_500)
    assert host.rows()[0]["energy_joules"] == 1.5


def test_an_energy_counter_that_starts_anew_is_no_negative_energy(host: Host) -> None:
    """The interval is unknown, and the epoch says that the totals before and after cannot be subtracted."""
    before = host.rows()[0]
    host.scenario.gpu(0, field_83=5_000)
    after = host.rows()[0]
    assert after["energy_joules"] is None
    assert after["energy_joules_total"] == 5
    assert after["energy_epoch"] > before["energy_epoch"]
    host.scenario.gpu(0, field_83=6_000)
    later = host.rows()[0]
    assert later["energy_joules"] == 1
    assert later["energy_epoch"] == after["energy_epoch"]


def test_a_gpu_that_answers_nothing_is_unknown_and_not_down(host: Host) -> None:
    """In a container that lost its devices every call fails with UNKNOWN: silence is not a loss."""
    host.read()
    asked = {line.split()[0] for line in (host.directory / "calls").read_text().splitlines()}
    fallbacks = (
        "GetUtilizationRates",
        "GetPowerUsage",
        "GetTotalEnergyConsumption",
        "GetTemperature",
        "GetRemappedRows",
    )
    for function in {*asked, *(f"nvmlDevice{name}" for name in fallbacks)} - {"nvmlDeviceGetCount_v2"}:
        host.scenario.fail(function, UNKNOWN)
    for _ in range(4):
        assert [row["up"] for row in host.rows()] == [None, None]


def test_a_driver_that_went_away_is_opened_again(host: Host) -> None:
    """A reload of the same driver needs no restart of the agent."""
    host.read()
    host.scenario.host(**{"fail.nvmlDeviceGetCount_v2": UNINITIALIZED})
    answer = host.read()
    assert answer["error"] == "SourceError"
    assert "does not list its GPUs" in answer["message"]
    host.scenario.host(**{"fail.nvmlDeviceGetCount_v2": 0})
    assert [row["up"] for row in host.rows()] == [True, True]
    assert host.calls("nvmlInitWithFlags") == 2


@pytest.mark.parametrize("function", ["nvmlDeviceGetCount_v2", "nvmlDeviceGetUUID", "nvmlDeviceGetMemoryInfo_v2"])
def test_another_driver_under_a_running_agent_ends_it(host: Host, function: str) -> None:
    """Only a new process can load the new library: the agent ends, its supervisor starts it again."""
    host.read()
    host.scenario.host(**{f"fail.{function}": MISMATCH}).fail(function, MISMATCH)
    answers = [host.read(seconds=31) for _ in range(2)]
    assert answers[-1]["error"] == "DriverChangedError"
    assert "restart the agent" in answers[-1]["message"]
    host.scenario.host(**{f"fail.{function}": 0}).fail(function, 0)


def test_xid_errors_that_nobody_hears_are_unknown_until_somebody_listens_again(host: Host) -> None:
    """After a driver reload every wait fails; a 0 would then be a claim."""
    assert host.rows()[0]["xid_events"] == 0
    host.scenario.host(**{"fail.nvmlEventSetWait_v2": UNINITIALIZED})
    until(lambda: host.rows(seconds=0.01)[0]["xid_events"] is None, "nobody listens, and it is seen")
    host.scenario.host(**{"fail.nvmlEventSetWait_v2": 0})
    assert host.rows(seconds=31)[0]["xid_events"] == 0


def test_a_driver_that_is_not_loaded_has_a_reason_in_words(host: Host) -> None:
    """The agent goes on with the host side and says why there is nothing of GPUs."""
    host.scenario.host(**{"fail.nvmlInitWithFlags": DRIVER_NOT_LOADED})
    host.start()
    assert host.opened == {"open": False, "reason": "Driver Not Loaded"}


def test_no_library_at_all_has_a_reason_in_words(host: Host) -> None:
    """Most hosts have no NVIDIA driver, and that is no failure."""
    host.starter = Starter(host.directory)
    host.start()
    host.close()
    host.starter.close()
    assert host.opened == {"open": False, "reason": "libnvidia-ml.so.1 is not installed"}


def test_a_library_that_does_not_fit_the_loaded_driver_is_told_at_once(host: Host) -> None:
    """Going on without GPUs would read as a host that lost them all."""
    host.scenario.host(**{"fail.nvmlInitWithFlags": MISMATCH})
    host.start()
    assert host.opened["error"] == "DriverChangedError"


NOT_UTF8 = {  # as a value of the scenario: bytes that the binding cannot decode
    "word": b"\xf8\x95\xa0\x81",
    "byte": b"\xf8",
    "cut": "\u00e9".encode()[:1] + b" GPU",
    "behind": b"NVIDIA H100 \xff",
}


def as_bytes(raw: bytes) -> str:
    """Return what the scenario writes as these bytes."""
    return raw.decode(errors="surrogateescape")


@pytest.mark.parametrize("raw", NOT_UTF8.values(), ids=NOT_UTF8)
def test_a_name_that_is_no_text_costs_the_name_and_no_gpu(host: Host, raw: bytes) -> None:
    """A driver release handed such names out, and the binding raises while it decodes (gpuopenanalytics/pynvml#53)."""
    host.scenario.host(count=4).gpu(2, name=as_bytes(raw))
    told = host.read()
    assert [row["up"] for row in told["reading"]["gpu_samples"]] == [True] * 4
    assert [row["sku"] is None for row in told["reading"]["inventory"]] == [False, False, True, False]
    assert list(told["unreadable"]) == ["GPU-00000002-0000-0000-0000-000000000000: nvmlDeviceGetName"]
    assert told["failures"]["nvmlDeviceGetName"] == 1


@pytest.mark.parametrize("raw", NOT_UTF8.values(), ids=NOT_UTF8)
def test_a_driver_version_that_is_no_text_is_unknown(host: Host, raw: bytes) -> None:
    """It ended the agent as it began."""
    host.scenario.host(count=4, driver=as_bytes(raw))
    told = host.read()
    assert [row["up"] for row in told["reading"]["gpu_samples"]] == [True] * 4
    assert {row["driver_version"] for row in told["reading"]["inventory"]} == {None}
    assert list(told["unreadable"]) == ["the driver: nvmlSystemGetDriverVersion"]


@pytest.mark.parametrize("raw", NOT_UTF8.values(), ids=NOT_UTF8)
def test_a_gpu_whose_uuid_is_no_text_is_missed_and_the_others_are_read(host: Host, raw: bytes) -> None:
    """It is known by its slot until it has a name again."""
    host.scenario.host(count=4).gpu(2, uuid=as_bytes(raw))
    told = host.read()
    rows = {row["gpu_uuid"]: row["up"] for row in told["reading"]["gpu_samples"]}
    assert sorted(map(str, rows.values())) == ["None", "True", "True", "True"]
    assert rows["n14/slot2"] is None
    assert list(told["unreadable"]) == ["GPU 2: nvmlDeviceGetUUID"]
    host.scenario.gpu(2, uuid=None)
    host.read(seconds=40)
    told = host.read(seconds=40)
    assert [row["up"] for row in told["reading"]["gpu_samples"]] == [True] * 4
    assert told["unreadable"] == {}


def test_one_gpu_that_answers_nothing_takes_no_other_along(host: Host) -> None:
    """Every question about it ends with an unknown error, its handle by index too (NVIDIA/dcgm-exporter#604)."""
    host.scenario.host(count=4)
    host.read()
    host.scenario.gpu(2, fail=UNKNOWN)
    for _ in range(5):
        told = host.read(seconds=20)
        rows = {row["gpu_uuid"][4:12]: row["up"] for row in told["reading"]["gpu_samples"]}
        assert [rows.get(f"0000000{index}") for index in range(4)] == [True, True, None, True]
        assert told["counts"] == [4, 3]
    host.scenario.gpu(2, fail=0)
    host.read(seconds=40)
    assert [row["up"] for row in host.rows(seconds=40)] == [True] * 4


def test_errors_of_every_call_pass(host: Host) -> None:
    """After a spell of errors an exporter never came back (utkuozdemir/nvidia_gpu_exporter#110)."""
    host.scenario.host(count=4)
    host.read()
    host.scenario.host(fail=UNKNOWN).every(fail=UNKNOWN)
    assert {host.read().get("error") for _ in range(5)} == {"SourceError"}
    host.scenario.host(fail=0).every(fail=0)
    host.read()
    assert [row["up"] for row in host.rows()] == [True] * 4


def test_an_error_whose_words_are_no_text_is_told_by_its_number(host: Host) -> None:
    """The binding asks the driver for the words of a code that it does not know."""
    host.scenario.host(error_text=as_bytes(b"\xf8\x95"))
    for function in ("nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"):
        host.scenario.fail(function, 500)
    assert [row["up"] for row in host.rows()] == [True, True]
    assert host.supported("memory").endswith("NVML error 500")
