"""Labels say of which GPU, host, disk or link a series is, and who held it."""

import random

import pytest

from collector.prometheus.labels import (
    Clusters,
    ExporterHolder,
    Subject,
    gpu_facts,
    holder,
    host,
    run_of,
    subject,
    target_pod,
)
from collector.prometheus.names import catalogue
from tests.collector.prometheus.writes import labels


def of(name: str, **more: str) -> Subject | None:
    """Return the subject of a series of dcgm-exporter."""
    metric = catalogue()[name]
    return subject(metric, metric.slots[0], labels(name) | more)


@pytest.mark.parametrize(
    ("named", "node"),
    [
        ({"Hostname": "n14", "instance": "10.0.0.7:9400"}, "n14"),
        ({"hostname": "n14", "instance": "10.0.0.7:9400"}, "n14"),
        ({"node": "worker-3", "Hostname": "dcgm-exporter-x7k2p"}, "worker-3"),
        ({"Hostname": "dcgm-exporter-x7k2p", "pod": "dcgm-exporter-x7k2p", "instance": "10.0.0.7:9400"}, "10.0.0.7"),
        ({"instance": "n14:9400"}, "n14"),
        ({"instance": "n14"}, "n14"),
        ({"instance": "[fd00::7]:9400"}, "fd00::7"),
        ({}, None),
    ],
)
def test_which_host(named: dict[str, str], node: str | None) -> None:
    """The name must be the scheduler's; an exporter in a pod may give the pod's (dcgm-exporter#78)."""
    assert host(named) == node


def test_a_mig_instance_is_a_part_of_its_gpu() -> None:
    """Two instances of one GPU bear its UUID; taken for the GPU they would be one row with the numbers of either."""
    found = of("DCGM_FI_PROF_SM_ACTIVE", GPU_I_ID="7", GPU_I_PROFILE="1g.10gb")
    assert found == Subject("gpu_samples", "n14", (("gpu_uuid", "GPU-0/7"), ("parent_uuid", "GPU-0")))
    ours = of("DCGM_FI_PROF_SM_ACTIVE", GPU_I_ID="MIG-ab", GPU_I_PROFILE="1g.10gb")
    assert ours is not None
    assert ours.key("gpu_uuid") == "MIG-ab"


def test_what_is_a_whole_gpus_is_not_said_of_its_instances() -> None:
    """dcgm-exporter repeats the board's power for each instance: seven of them would draw seven times as much."""
    assert of("DCGM_FI_DEV_POWER_USAGE", GPU_I_ID="7") is None
    assert of("DCGM_FI_DEV_FB_USED", GPU_I_ID="7") is not None


@pytest.mark.parametrize(
    ("named", "who"),
    [
        (
            {"pod": "train-0", "namespace": "research", "container": "main"},
            ExporterHolder("research", "train-0", "main", None),
        ),
        (
            {"pod": "dcgm-exporter-x", "namespace": "gpu", "exported_pod": "train-0", "exported_namespace": "research"},
            ExporterHolder("research", "train-0", None, None),
        ),
        (
            {"pod": "train-0", "namespace": "gpu", "exported_namespace": "research", "container": "main"},
            ExporterHolder("research", "train-0", "main", None),
        ),
        (
            {"pod": "exporter-x", "exported_pod": "train-0", "namespace": "research", "container": "main"},
            ExporterHolder("research", "train-0", "main", None),
        ),
        ({"pod": "nvidia-dcgm-exporter-x7k2p", "namespace": "gpu", "container": "nvidia-dcgm-exporter"}, None),
        ({"hpc_job": "81234"}, ExporterHolder(None, None, None, "81234")),
        ({"pod": "", "hpc_job": ""}, None),
        ({}, None),
    ],
)
def test_who_held_it(named: dict[str, str], who: ExporterHolder | None) -> None:
    """Where Prometheus does not honour labels, `pod` is the exporter's own, which would hold every GPU of the fleet."""
    assert holder(named) == who


def test_what_a_gpu_is() -> None:
    """Prices are by what a GPU is called when it is bought."""
    facts = gpu_facts(labels("x", 3, pci_bus_id="00000000:B1:00.0", DCGM_FI_DRIVER_VERSION="570.86"))
    assert (facts.index, facts.pci_bus_id, facts.driver_version) == (3, "0000:b1:00.0", "570.86")
    assert facts.sku(None) == "H100-80GB"
    assert gpu_facts({"modelName": "NVIDIA L40S"}).sku(45 * 2**30) == "L40S-48GB"
    assert gpu_facts({"GPU_I_PROFILE": "1c.3g.20gb", "modelName": "NVIDIA A100"}).mig_slices == 3


DISKS = "nvme0n1 sda sdaa vda xvda hda mmcblk0 rbd0 nbd0 dasda pmem0"
SHOWN_AGAIN = (
    "dm-0 md0 md127 nvme0c0n1 nvme0n1p1 sda1 xvdf1 mmcblk0p1 dasda1 rbd0p1 loop3 sr0 zram0 ram0 zd16 drbd0 bcache0"
)
LINKS = "eth0 ens5 eno1np0 enp65s0f0np0 enP5p1s0f0 enx0a1b2c3d4e5f em1 p1p1 hsn0 wlan0"
STACKED = (
    "lo veth1234 docker0 docker_gwbridge cali12ab tunl0 vxlan.calico flannel.1 cilium_host lxc12ab ib0 ibs1 ibp65s0"
    " bond0 bond0.100 eth0.100 vlan100 team0 br0 br-1a2b3c virbr0 vmbr0 vnet3 eni1a2b3c4d5e6 gke52af3c9d1e azv1a2b"
    " nodelocaldns kube-ipvs0 wg0 tailscale0 genev_sys_6081 ovn-k8s-mp0 ovs-system dummy0 ifb0 macvlan0 podman0 cni0"
    " sit0 ip6tnl0 gre0 erspan0 antrea-gw0 nerdctl0 vxlan_sys_4789 weave"
)


@pytest.mark.parametrize(
    ("name", "counted", "passed_over"),
    [("node_disk_read_bytes_total", DISKS, SHOWN_AGAIN), ("node_network_receive_bytes_total", LINKS, STACKED)],
)
def test_each_byte_is_counted_once(name: str, counted: str, passed_over: str) -> None:
    """What lies on a disk shows again what the disk shows; virtual links carry what a card under them carries."""
    metric = catalogue()[name]
    found = {
        device
        for device in (counted + " " + passed_over).split()
        if subject(metric, metric.slots[0], {"instance": "n14:9100", "device": device}) is not None
    }
    assert found == set(counted.split())


def test_another_exporters_uuid_is_made_the_drivers() -> None:
    """nvidia_gpu_exporter leaves GPU- out, and Slurm and the kubelet do not."""
    metric = catalogue()["nvidia_smi_utilization_gpu_ratio"]
    found = subject(metric, metric.slots[0], {"instance": "n14:9835", "uuid": "5a1c"})
    assert found is not None
    assert found.key("gpu_uuid") == "GPU-5a1c"


@pytest.mark.parametrize("seed", range(200))
def test_generated_labels_name_their_holder(seed: int) -> None:
    """Whatever exporters and work are called: a server that honors labels or not, whichever labels targets have."""
    choose = random.Random(seed)
    names = ("train-0", "dcgm-exporter-x1", "gpu-exporter-finetune", "metrics-exporter", "web", "exporter")
    own = {"namespace": choose.choice(("gpu", "default")), "pod": choose.choice(names), "container": "c"}
    who = {"namespace": "research", "pod": choose.choice(names), "container": "main"}
    honors, is_held = (choose.random() < 0.5 for _ in range(2))
    job = {"hpc_job": "7"} if choose.random() < 0.2 else {}
    target = {name: own[name] for name in choose.sample(sorted(own), choose.choice((0, 1, 2, 3, 3)))}
    renamed = {} if honors else target
    said = {f"exported_{name}" if name in renamed else name: value for name, value in who.items()} if is_held else {}
    up = {"__name__": "up", "instance": "n1:9400", **target}
    series = {"gpu": "0", **target, **said, **job}
    exporters = frozenset(filter(None, [target_pod(up)]))
    assert target_pod(series) in (None, *exporters)
    found = holder(series, Clusters(exporters=exporters))
    pod = who if is_held and (who["namespace"], who["pod"]) not in exporters else None
    namespace, name, container = [pod[key] if pod else None for key in ("namespace", "pod", "container")]
    truth = ExporterHolder(namespace, name, container, job.get("hpc_job")) if pod or job else None
    assert found == truth
    if job:
        assert found is not None
        assert run_of(found, Clusters(slurm="a")) == ("slurm/a/7", "cgroup", None)
