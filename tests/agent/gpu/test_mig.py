"""MIG instances are rows of their own, and parts of a GPU."""

from tests.agent.gpu.conftest import Host
from tests.agent.gpu.fake.build import MIB

PARENT = "GPU-00000000-0000-0000-0000-000000000000"
SMALL = "MIG-00000000-0000-0000-0000-000000000001"
LARGE = "MIG-00000000-0000-0000-0000-000000000003"


def cut(host: Host) -> None:
    """Cut the first GPU into a small and a large instance, with an empty place between them."""
    host.scenario.gpu(0, mig=1, mig_max=7, processes=None)
    host.scenario.instance(0, 0, slices=1, gpu_instance=9, memory_total=9984 * MIB, memory_used=100 * MIB)
    host.scenario.instance(0, 2, slices=3, gpu_instance=1, memory_total=40448 * MIB, processes="77:5000")


def test_instances_are_rows_beside_their_gpu(host: Host) -> None:
    """The driver measures no utilization of an instance: it is unknown, never 0, and so is the whole GPU's."""
    cut(host)
    parent, small, large, other = host.rows()
    assert parent["gpu_uuid"] == PARENT
    assert parent["utilization_ratio"] is None
    assert (small["gpu_uuid"], small["parent_uuid"], small["up"]) == (SMALL, PARENT, True)
    assert small["memory_used_bytes"] == 100 * MIB
    assert small.get("utilization_ratio") is None
    assert large["gpu_uuid"] == LARGE
    assert other["utilization_ratio"] is not None


def test_an_instances_share_of_the_gpu_is_in_the_inventory(host: Host) -> None:
    """Money is divided by compute slices."""
    cut(host)
    facts = {row["gpu_uuid"]: row for row in host.read()["reading"]["inventory"]}
    assert facts[PARENT]["mig_slices_max"] == 7
    assert (facts[SMALL]["mig_slices"], facts[SMALL]["mig_slices_max"]) == (1, 7)
    assert (facts[LARGE]["mig_slices"], facts[LARGE]["memory_bytes"]) == (3, 40448 * MIB)
    assert facts[LARGE]["sku"] == "H100-80GB"
    assert facts[LARGE]["parent_uuid"] == PARENT


def test_processes_are_held_by_their_instance(host: Host) -> None:
    """The whole GPU lists them too; counting both would hold it twice."""
    cut(host)
    held = host.read()["processes"]
    assert [(process["gpu_uuid"], process["pid"]) for process in held if process["pid"] == 77] == [(LARGE, 77)]
    assert PARENT not in {process["gpu_uuid"] for process in held}


def test_gpm_measures_the_instance_by_its_own_number(host: Host) -> None:
    """It is all that is known of how busy an instance is."""
    cut(host)
    host.scenario.gpu(0, gpm=1, **{"gpm_2": 40, "gpm_instance9.2": 90, "gpm_instance1.2": 10})
    host.rows()
    parent, small, large, _ = host.rows()
    assert [row["sm_active_ratio"] for row in (parent, small, large)] == [0.4, 0.9, 0.1]


def test_a_lost_gpu_takes_its_instances_with_it(host: Host) -> None:
    """Each of them is somebody's."""
    cut(host)
    host.rows()
    host.scenario.gpu(0, lost=1)
    assert [row["up"] for row in host.rows()] == [False, False, False, True]
    host.scenario.gpu(0, lost=0)
    assert [row["up"] for row in host.rows()] == [True, True, True, True]


def test_an_instance_that_was_deleted_is_gone_and_not_lost(host: Host) -> None:
    """Cutting a GPU anew is no failure; MIG off gives the GPU its utilization back."""
    cut(host)
    host.rows()
    host.scenario.instance(0, 2, slices=0)
    assert [row["gpu_uuid"] for row in host.rows(seconds=31)][:2] == [PARENT, SMALL]
    host.scenario.gpu(0, mig=0)
    rows = host.rows(seconds=31)
    assert len(rows) == 2
    assert rows[0]["utilization_ratio"] is not None


def test_an_instance_whose_uuid_is_no_text_takes_no_other_along(host: Host) -> None:
    """Nobody can say whose it is; the GPU and its other instance are read, and it is named."""
    cut(host)
    host.scenario.instance(0, 0, uuid=b"MIG-\xf8".decode(errors="surrogateescape"))
    told = host.read()
    assert [row["gpu_uuid"] for row in told["reading"]["gpu_samples"] if row["up"]][:2] == [PARENT, LARGE]
    assert [each["pid"] for each in told["processes"] if each["gpu_uuid"] == LARGE] == [77]
    assert f"{PARENT}: nvmlDeviceGetUUID of MIG device 0" in told["unreadable"]
