"""dcgm-exporter's names, units and labels, so that what was made for it works unchanged."""

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from agent.config import DcgmNames
from agent.metrics.dcgm import bus_id, mig_profile, pod_labels, values
from agent.metrics.families import Scraped, registry
from agent.wire.dcgm import fields
from tests.agent.situations import (
    GIB,
    LARGE,
    MIB,
    Situation,
    gpu,
    healthy,
    lived,
    lost_gpu,
    mig,
    time_sliced,
    uuid,
    xid_storm,
)

# What the expressions of Grafana's dashboard 12239 ask for, by the metric: labels in matchers, groupings and legends.
# Source: dcgm-exporter, grafana/dcgm-exporter-dashboard.json, before it followed 4.8.3 to `hostname`.
DASHBOARD_12239 = {
    "DCGM_FI_DEV_GPU_TEMP": {"Hostname", "gpu"},
    "DCGM_FI_DEV_POWER_USAGE": {"Hostname", "gpu"},
    "DCGM_FI_DEV_SM_CLOCK": {"Hostname", "gpu", "UUID"},
    "DCGM_FI_DEV_FB_FREE": {"Hostname", "gpu"},
    "DCGM_FI_DEV_FB_USED": {"Hostname", "gpu", "GPU_I_ID", "GPU_I_PROFILE"},
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": {"Hostname", "gpu", "GPU_I_ID", "GPU_I_PROFILE"},
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": {"Hostname", "gpu", "GPU_I_ID", "GPU_I_PROFILE"},
}
# And an older revision of it, by host and port.
OLDER_12239 = {"DCGM_FI_DEV_GPU_UTIL": {"gpu"}}
MIG_LABELS = {"GPU_I_ID", "GPU_I_PROFILE"}

Series = dict[str, list[tuple[dict[str, str], float]]]


def series(situation: Situation, dcgm: DcgmNames = "legacy") -> Series:
    """Return every series of dcgm-exporter's names, by metric."""
    text = generate_latest(registry(lived(situation), Scraped(dcgm=dcgm))).decode()
    found: Series = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name.startswith("DCGM_"):
                found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def value(situation: Situation, name: str, dcgm: DcgmNames = "legacy") -> float:
    """Return the first value of a metric."""
    return series(situation, dcgm)[name][0][1]


@pytest.mark.parametrize("metric", DASHBOARD_12239 | OLDER_12239)
def test_grafanas_dashboard_finds_what_it_asks_for(metric: str) -> None:
    """Who replaces dcgm-exporter must not find empty panels."""
    asked = (DASHBOARD_12239 | OLDER_12239)[metric]
    whole = series(healthy())[metric]
    assert len(whole) == 8
    assert all(asked - MIG_LABELS <= labels.keys() for labels, _ in whole)
    parts = series(mig()).get(metric, [])
    assert all(asked <= labels.keys() for labels, _ in parts if MIG_LABELS & labels.keys())


def test_legacy_units_are_those_of_the_exporter() -> None:
    """A dashboard that multiplies MHz by a million must not show petahertz."""
    row = healthy()
    assert value(row, "DCGM_FI_DEV_SM_CLOCK") == 1755
    assert value(row, "DCGM_FI_DEV_GPU_UTIL") == 90
    assert value(row, "DCGM_FI_DEV_FB_USED") == 60 * 1024
    assert value(row, "DCGM_FI_DEV_FB_FREE") == 81_559 - 560 - 60 * 1024
    assert value(row, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION") == (9_000_000 + 3 * 6125) * 1000
    assert value(row, "DCGM_FI_DEV_POWER_VIOLATION") == 3 * 1.25e9
    assert value(row, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE") == 0.29
    assert value(row, "DCGM_FI_PROF_PCIE_RX_BYTES") == 1.25e9
    assert value(row, "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL") == 614_400_000_000 / 10 / 1_024_000


def test_units_since_4_9_are_base_units() -> None:
    """Eleven of the renamed fields changed their unit as well."""
    row = healthy()
    assert value(row, "DCGM_FI_DEV_SM_CLOCK_HERTZ", "v4.9") == 1_755_000_000
    assert value(row, "DCGM_FI_DEV_GPU_UTIL_RATIO", "v4.9") == 0.9
    assert value(row, "DCGM_FI_DEV_FB_USED_BYTES", "v4.9") == 60 * GIB
    assert value(row, "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", "v4.9") == 9_000_000 + 3 * 6125
    assert value(row, "DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND", "v4.9") == 61_440_000_000
    assert "DCGM_FI_DEV_GPU_UTIL" not in series(row, "v4.9")


def test_labels_are_those_of_the_exporter() -> None:
    """Dashboards match on them, and recording rules sum by them."""
    labels, _ = series(healthy())["DCGM_FI_DEV_GPU_TEMP"][1]
    assert labels == {
        "gpu": "1",
        "UUID": uuid(1),
        "pci_bus_id": "00000000:1C:00.0",
        "device": "nvidia1",
        "modelName": "H100-80GB",
        "Hostname": "n14",
        "DCGM_FI_DRIVER_VERSION": "570.86.15",
        "hpc_job": "81234",
    }


def test_the_host_and_the_driver_are_labels_of_their_time() -> None:
    """A name that 4.9 kept bears the labels of both where both are served; the others bear those of their own."""
    old, new = {"Hostname", "DCGM_FI_DRIVER_VERSION"}, {"hostname", "DCGM_FI_SYSTEM_DRIVER_VERSION"}
    found = series(healthy(), "both")
    for name, expected in {
        "DCGM_FI_DEV_GPU_TEMP": old,
        "DCGM_FI_DEV_GPU_TEMP_CELSIUS": new,
        "DCGM_FI_PROF_PCIE_TX_BYTES": old | new,
    }.items():
        assert {label for label in found[name][0][0] if label in old | new} == expected, name


def test_an_instance_bears_its_gpus_labels_and_its_own() -> None:
    """`UUID` and `gpu` are the whole GPU's, as dcgm-exporter has it; the pod is that of the instance."""
    busy = next(labels for labels, _ in series(mig())["DCGM_FI_DEV_FB_USED"] if labels["GPU_I_PROFILE"] == "3g.40gb")
    assert (busy["UUID"], busy["gpu"], busy["GPU_I_ID"]) == (uuid(0), "0", LARGE)
    assert (busy["namespace"], busy["pod"], busy["container"]) == ("research", "notebook-mira", "jupyter")


def test_what_instances_tell_is_not_told_of_the_whole_as_well() -> None:
    """A sum over the host would count their memory twice."""
    found = series(mig())
    assert all("GPU_I_ID" in labels for labels, _ in found["DCGM_FI_DEV_FB_USED"])
    assert ["GPU_I_ID" in labels for labels, _ in found["DCGM_FI_DEV_POWER_USAGE"]] == [False]


def test_the_newest_xid_stays() -> None:
    """An alert that looks every minute must see what happened in one beat; before the first it is 0, not absent."""
    assert value(healthy(), "DCGM_FI_DEV_XID_ERRORS") == 0
    assert value(xid_storm(), "DCGM_FI_DEV_XID_ERRORS") == 63


def test_a_lost_gpu_keeps_no_reading_but_its_error() -> None:
    """Its last temperature would look like a healthy one."""
    lost = {name: of for name, found in series(lost_gpu()).items() for of in found if of[0]["gpu"] == "1"}
    assert {name for name in lost if "REPLAY" not in name and "VIOLATION" not in name} == {"DCGM_FI_DEV_XID_ERRORS"}
    assert lost["DCGM_FI_DEV_XID_ERRORS"][1] == 79


def test_sharers_leave_no_label() -> None:
    """One of two pods on a GPU must not be shown as its only user."""
    assert not {"pod", "hpc_job"} & series(time_sliced())["DCGM_FI_DEV_GPU_UTIL"][0][0].keys()


def test_names_are_chosen() -> None:
    """`off` costs nothing; `both` is the union, with no name twice."""
    legacy, current = ({getattr(field, which) for field in fields()} for which in ("legacy", "current"))
    assert series(healthy(), "off") == {}
    assert series(healthy(), "legacy").keys() <= legacy
    assert series(healthy(), "both").keys() == series(healthy(), "legacy").keys() | series(healthy(), "v4.9").keys()
    assert len(legacy) == len(current) == len(fields())


@pytest.mark.parametrize(
    ("slices", "part", "whole", "profile"),
    [
        (1, 4864, 40_960, "1g.5gb"),
        (3, 20_096, 40_960, "3g.20gb"),
        (7, 40_192, 40_960, "7g.40gb"),
        (1, 9728, 81_920, "1g.10gb"),
        (1, 11_008, 95_830, "1g.12gb"),  # an H100 NVL, of which dcgm-exporter says 1g.11gb (its issue 544)
        (1, 16_384, 143_771, "1g.18gb"),
        (2, None, 81_920, ""),
    ],
)
def test_a_profile_is_named_as_nvidia_smi_names_it(slices: int, part: int | None, whole: int, profile: str) -> None:
    """An instance has a little less memory than its name says."""
    instance = {"mig_slices": slices, "memory_bytes": part * MIB if part else None}
    assert mig_profile(instance, {"memory_bytes": whole * MIB}) == profile


def test_an_address_is_written_as_the_driver_writes_it() -> None:
    """Joins with what nvidia-smi says go by it."""
    assert bus_id("0000:b1:00.0") == "00000000:B1:00.0"
    assert bus_id("") == ""


@pytest.mark.parametrize(
    ("member", "labels"),
    [
        ("research/notebook/jupyter", {"namespace": "research", "pod": "notebook", "container": "jupyter"}),
        ("research/notebook/a, research/notebook/b", {"namespace": "research", "pod": "notebook"}),
        ("research/notebook", {"namespace": "research", "pod": "notebook"}),
        ("research/a/x, research/b/x", {"namespace": "research", "container": "x"}),
        ("", {}),
    ],
)
def test_pods_are_named_as_far_as_there_is_one(member: str, labels: dict[str, str]) -> None:
    """Two containers of a pod may share a GPU; then it has no container, rather than a wrong one."""
    assert pod_labels(member) == labels


def test_nothing_is_worked_out_of_what_is_not_known() -> None:
    """A rate without an interval, free memory without the size: none, rather than a guess."""
    row = gpu(0, 0)
    found = values(row, {}, {})
    assert not {"memory_free_bytes", "memory_bytes", "nvlink_bytes_per_second"} & found.keys()
    assert "pcie_replay_events" not in found
    half = {**row, "started_at": 0, "ended_at": 10_000_000, "nvlink_receive_bytes": None}
    assert "nvlink_bytes_per_second" not in values(half, {}, {})
