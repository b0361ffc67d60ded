"""What a GPU does not tell has a reason that a person understands."""

import pytest

from agent.gpu.nvidia.gpu import SUBJECTS
from tests.agent.gpu.conftest import Host
from tests.agent.gpu.fake.build import ACTIVITY

NOT_SUPPORTED = "the driver reports not supported"


def test_a_healthy_hopper_tells_everything(host: Host) -> None:
    """And each GPU has one entry for each subject."""
    host.scenario.every(gpm=1, **ACTIVITY)
    host.read()
    found = host.read()["supported"]
    assert [each["subject"] for each in found] == [*SUBJECTS, *SUBJECTS]
    assert [each["reason"] for each in found if not each["ok"]] == []


def test_an_older_chip_has_no_gpm_and_says_which_it_is(host: Host) -> None:
    """The most frequent question of all: why is there no sm_active."""
    host.scenario.every(architecture=7)
    assert host.supported("activity") == "GPM needs Hopper or newer; this is Ampere"


def test_a_newer_chip_without_gpm_is_the_drivers_word(host: Host) -> None:
    """A virtual GPU, for one."""
    host.scenario.every(architecture=9, gpm=0)
    assert host.supported("activity") == "the driver reports no GPM for this GPU"


@pytest.mark.parametrize(
    ("subject", "values", "functions"),
    [
        ("power", {"field_186": None}, ["nvmlDeviceGetPowerUsage"]),
        ("energy", {"field_83": None}, ["nvmlDeviceGetTotalEnergyConsumption"]),
        ("ecc", {}, ["nvmlDeviceGetTotalEccErrors"]),
        ("memory", {}, ["nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"]),
        ("utilization", {}, ["nvmlDeviceGetSamples", "nvmlDeviceGetUtilizationRates"]),
        ("remapped_rows", dict.fromkeys(f"field_{n}" for n in range(142, 146)), ["nvmlDeviceGetRemappedRows"]),
        ("mig", {}, ["nvmlDeviceGetMigMode"]),
        ("clocks", {}, ["nvmlDeviceGetClockInfo"]),
    ],
)
def test_a_subject_without_any_way_to_it_is_not_supported(
    host: Host, subject: str, values: dict[str, object], functions: list[str]
) -> None:
    """One way that works is enough, and none is said."""
    assert host.supported(subject) == ""
    host.scenario.every(**values)
    for function in functions:
        host.scenario.fail(function, 3)
    host.read(seconds=31)
    assert host.supported(subject) == NOT_SUPPORTED


def test_a_right_that_is_missing_is_named(host: Host) -> None:
    """It can be given, whereas a chip cannot be changed."""
    host.scenario.fail("nvmlDeviceGetTotalEccErrors", 4)
    assert host.supported("ecc") == "the driver does not permit it for this user"


def test_xid_errors_that_nobody_may_hear_have_a_reason(host: Host) -> None:
    """A container without the event capability hears none, and 0 would be a claim."""
    host.scenario.fail("nvmlDeviceRegisterEvents", 4)
    assert host.rows()[0]["xid_events"] is None
    assert host.supported("xid") == "the driver does not permit it for this user"


def test_a_gpu_in_mig_mode_is_measured_by_its_instances(host: Host) -> None:
    """The driver has no utilization for it at all."""
    host.scenario.gpu(0, mig=1, mig_max=7)
    assert host.supported("utilization").startswith("the driver does not report it for a GPU in MIG mode")


def test_a_lost_gpu_supports_nothing(host: Host) -> None:
    """Its silence has one reason."""
    host.read()
    host.scenario.gpu(0, lost=1)
    assert host.supported("memory") == "the GPU is lost: it is not responding to the driver"
