"""Hosts in situations that matter, as their sources tell of them, beat by beat, through the real sampler."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agent.metrics.snapshot import Snapshot
from agent.sampling.sampler import Sampler
from agent.sampling.stamp import Identity, Stamper
from agent.source import Reading, Row, Supported, Value
from agent.wire.units import SECOND_US
from tests.fake_clock import FakeClock

BEAT_SECONDS = 10
BEATS = 4  # the first measures no interval
GIB, MIB = 2**30, 2**20
BEGAN = 1_795_219_000_000_000

Readings = Mapping[str, Callable[[int], Reading]]  # by source, what it says at each beat


@dataclass(frozen=True, slots=True)
class Situation:
    """A host: what its sources say, and what its GPUs can be measured by."""

    readings: Readings
    supported: Sequence[Supported] = ()


class Scripted:
    """A source that says what is written for each beat."""

    period_seconds = 0.0

    def __init__(self, name: str, reading: Callable[[int], Reading]) -> None:
        self.name = name
        self._reading = reading
        self._beat = -1

    def read(self) -> Reading:
        """Return the next beat's reading."""
        self._beat += 1
        return self._reading(self._beat)


def lived(situation: Situation, identity: Identity | None = None) -> Snapshot:
    """Return the snapshot of a host after BEATS beats of a situation."""
    clock = FakeClock()
    sources = [Scripted(name, reading) for name, reading in situation.readings.items()]
    sampler = Sampler(Stamper("n14", identity), sources, clock, BEAT_SECONDS)
    snapshot = Snapshot(clock.monotonic)
    for _ in range(BEATS):
        snapshot.observe(sampler.beat())
        clock.advance(BEAT_SECONDS * SECOND_US)
    sampler.close()
    return snapshot


def uuid(number: int) -> str:
    """Return the UUID of one of a host's GPUs."""
    return f"GPU-5a1c0000-0000-4000-8000-{number:012d}"


def gpu(number: int, beat: int, **other: Value) -> Row:
    """Return a row of a busy H100 as NVML tells it."""
    busy = 0.9 - number / 100
    return {
        "gpu_uuid": uuid(number),
        "up": True,
        "utilization_ratio": busy,
        "utilization_zero_ratio": 0.02,
        "utilization_low_ratio": 0.04,
        "utilization_high_ratio": 0.9,
        "memory_used_bytes": 60 * GIB,
        "memory_reserved_bytes": 560 * MIB,
        "graphics_active_ratio": 0.95,
        "sm_active_ratio": 0.62,
        "sm_occupancy_ratio": 0.31,
        "tensor_active_ratio": 0.29,
        "fp64_active_ratio": 0.0,
        "fp32_active_ratio": 0.11,
        "fp16_active_ratio": 0.07,
        "dram_active_ratio": 0.44,
        "pcie_receive_bytes": 12_500_000_000,
        "pcie_transmit_bytes": 2_500_000_000,
        "nvlink_receive_bytes": 409_600_000_000,
        "nvlink_transmit_bytes": 204_800_000_000,
        "power_watts": 612.5,
        "power_watts_min": 580.0,
        "power_watts_max": 655.25,
        "energy_joules": 6125.0,
        "energy_joules_total": 9_000_000.0 + 6125 * beat,
        "energy_epoch": 0,
        "temperature_celsius": 61.0,
        "memory_temperature_celsius": 74.0,
        "sm_clock_hertz": 1_755_000_000.0,
        "sm_clock_hertz_min": 1_710_000_000.0,
        "sm_clock_reference_hertz": 1_980_000_000.0,
        "memory_clock_hertz": 2_619_000_000.0,
        "memory_utilization_ratio": 0.38,
        "encoder_utilization_ratio": 0.0,
        "decoder_utilization_ratio": 0.0,
        "throttle_power_seconds": 1.25,
        "throttle_thermal_seconds": 0.0,
        "throttle_hardware_seconds": 0.0,
        "throttle_sync_boost_seconds": 0.0,
        "pcie_replay_events": 0,
        "pcie_generation": 5,
        "pcie_generation_max": 5,
        "pcie_width": 16,
        "pcie_width_max": 16,
        "xid_events": 0,
        "ecc_corrected_events": 0,
        "ecc_uncorrected_events": 0,
        "remapped_rows_corrected": 0,
        "remapped_rows_uncorrected": 0,
        "row_remap_pending": False,
        "row_remap_failure": False,
        "recovery_action": "none",
        **other,
    }


def found(number: int, **other: Value) -> Row:
    """Return the row of `inventory` of an H100."""
    return {
        "gpu_uuid": uuid(number),
        "gpu_index": number,
        "pci_bus_id": f"0000:{0x1B + number:02x}:00.0",
        "sku": "H100-80GB",
        "memory_bytes": 81_559 * MIB,
        "driver_version": "570.86.15",
        **other,
    }


def held(number: int, run_id: str, scheduler: str, **other: Value) -> Row:
    """Return an open allocation of one of the GPUs."""
    return {"gpu_uuid": uuid(number), "run_id": run_id, "scheduler": scheduler, "started_at": BEGAN, **other}


def agent(expected: int, seen: int) -> Callable[[int], Reading]:
    """Return what the agent says of itself."""
    row: dict[str, Value] = {"cpu_seconds": 0.04, "rss_bytes": 41_000_000, "beats_late": 0, "gaps": 0, "spool_bytes": 0}
    return lambda _: {"agent_samples": [row | {"gpus_expected": expected, "gpus_seen": seen, "paused": False}]}


def host(_: int) -> Reading:
    """Return what every host has."""
    return {
        "host_samples": [
            {
                "cpu_busy_ratio": 0.25,
                "cpu_iowait_ratio": 0.01,
                "pressure_io_some_ratio": 0.03,
                "memory_used_bytes": 300 * GIB,
                "memory_available_bytes": 700 * GIB,
            }
        ],
    }


def healthy() -> Situation:
    """Eight GPUs that one Slurm job trains on."""
    run = "slurm/alpha/81234"

    def gpus(beat: int) -> Reading:
        reading: Reading = {"gpu_samples": [gpu(number, beat) for number in range(8)]}
        return {**reading, "inventory": [found(number) for number in range(8)]} if beat == 0 else reading

    def processes(beat: int) -> Reading:
        trees: list[Row] = [
            {
                "run_id": run,
                "gpu_uuid": uuid(number),
                "pid": 4000 + number,
                "memory_used_bytes": 59 * GIB,
                "sm_utilization_ratio": 0.88,
                "cpu_seconds": 12.5,
                "workers": 8,
                "workers_busiest_cpu_ratio": 0.71,
                "workers_waiting_ratio": 0.0,
            }
            for number in range(8)
        ]
        began = [held(number, run, "cgroup", user="mira", attempt=0) for number in range(8)] if beat == 0 else []
        of_run: list[Row] = [{"run_id": run, "cpu_seconds": 100.0, "read_bytes": 10**9, "memory_used_bytes": 200 * GIB}]
        return {"process_samples": trees, "run_samples": of_run, "allocations": began}

    def network(_: int) -> Reading:
        port: dict[str, Value] = {
            "device": "mlx5_0/1",
            "link_kind": "infiniband",
            "receive_bytes": 10**11,
            "transmit_bytes": 10**11,
        }
        return {"network_samples": [port | {"errors": 0, "speed_bytes_per_second": 5e10}]}

    supported = [Supported(uuid(number), subject) for number in range(8) for subject in ("activity", "energy")]
    return Situation(
        {"gpu": gpus, "host": host, "network": network, "process": processes, "agent": agent(8, 8)}, supported
    )


def lost_gpu() -> Situation:
    """Two GPUs, of which one falls off the bus at the third beat; its job still holds it."""

    def gpus(beat: int) -> Reading:
        first = gpu(0, beat)
        second: Row = gpu(1, beat) if beat < 2 else {"gpu_uuid": uuid(1), "up": False, "xid_events": 0}
        if beat == 2:
            second = {**second, "xid_events": 1, "xid_last": 79, "xid_last_timestamp_seconds": 1_795_219_221.5}
        told = [found(0), found(1)] if beat == 0 else []
        return {"gpu_samples": [first, second], "inventory": told}

    def processes(beat: int) -> Reading:
        held_by = [held(number, "slurm/alpha/7_3", "cgroup", user="mira") for number in (0, 1)] if beat == 0 else []
        return {"allocations": held_by}

    lost = Supported(uuid(1), "activity", ok=False, reason="the GPU is lost")
    return Situation({"gpu": gpus, "process": processes, "agent": agent(2, 1)}, [Supported(uuid(0), "activity"), lost])


SMALL, LARGE = "MIG-5a1c0000-0000-4000-8000-0000000000a1", "MIG-5a1c0000-0000-4000-8000-0000000000a3"


def mig() -> Situation:
    """A GPU cut into 1g.10gb and 3g.40gb; a pod holds the larger part. The driver tells no utilization of parts."""
    parts: dict[str, Value] = {"parent_uuid": uuid(0), "gpu_index": 0, "sku": "H100-80GB", "mig_slices_max": 7}
    whole = {
        "utilization_ratio": None,
        "graphics_active_ratio": None,
        "sm_active_ratio": None,
        "tensor_active_ratio": None,
    }

    def gpus(beat: int) -> Reading:
        idle: Row = {"gpu_uuid": SMALL, "parent_uuid": uuid(0), "up": True, "memory_used_bytes": 12 * MIB}
        busy: Row = {
            "gpu_uuid": LARGE,
            "parent_uuid": uuid(0),
            "up": True,
            "memory_used_bytes": 30 * GIB,
            "memory_reserved_bytes": 0,
            "graphics_active_ratio": 0.9,
            "sm_active_ratio": 0.8,
            "tensor_active_ratio": 0.5,
        }
        told: list[Row] = [
            found(0, mig_slices_max=7),
            {"gpu_uuid": SMALL, "mig_slices": 1, "memory_bytes": 9984 * MIB, "driver_version": "570.86.15", **parts},
            {"gpu_uuid": LARGE, "mig_slices": 3, "memory_bytes": 40_448 * MIB, "driver_version": "570.86.15", **parts},
        ]
        return {"gpu_samples": [gpu(0, beat, **whole), idle, busy], "inventory": told if beat == 0 else []}

    def kubelet(beat: int) -> Reading:
        pod: Row = {
            "gpu_uuid": LARGE,
            "run_id": "kubernetes/prod/8d0e0c3a-1111-4222-8333-444455556666",
            "scheduler": "kubernetes",
            "started_at": BEGAN,
            "member": "research/notebook-mira/jupyter",
        }
        return {"allocations": [pod] if beat == 0 else []}

    no_driver_utilization = Supported(LARGE, "utilization", ok=False, reason="the driver has none for MIG instances")
    return Situation(
        {"gpu": gpus, "kubelet": kubelet, "agent": agent(1, 1)}, [Supported(LARGE, "activity"), no_driver_utilization]
    )


def no_gpu() -> Situation:
    """A host without a GPU: it still serves what it has."""

    def disks(_: int) -> Reading:
        return {"disk_samples": [{"device": "nvme0n1", "mount_kind": "block", "read_bytes": 4096, "busy_ratio": 0.5}]}

    return Situation({"host": host, "disk": disks, "agent": agent(0, 0)})


def time_sliced() -> Situation:
    """Two pods share one GPU: each is named, and no reading of the GPU is told twice."""
    pods = {
        "kubernetes/prod/aaaa0c3a-1111-4222-8333-444455556666": "serving/serve-a/vllm",
        "kubernetes/prod/bbbb0c3a-1111-4222-8333-444455556666": "research/serve-b/vllm",
    }

    def gpus(beat: int) -> Reading:
        return {"gpu_samples": [gpu(0, beat)], "inventory": [found(0)] if beat == 0 else []}

    def kubelet(beat: int) -> Reading:
        held_by = [held(0, run, "kubernetes", member=member) for run, member in pods.items()]
        return {"allocations": held_by if beat == 0 else []}

    def processes(_: int) -> Reading:
        trees: list[Row] = [
            {"run_id": run, "gpu_uuid": uuid(0), "pid": 70, "owner": "nobody", "memory_used_bytes": 10 * GIB}
            for run in pods
        ]
        return {"process_samples": trees}

    return Situation({"gpu": gpus, "kubelet": kubelet, "process": processes, "agent": agent(1, 1)})


def without_gpm() -> Situation:
    """An A100: the chip has no activity meter that a user may read, and `supported` says so."""
    meters = [name for name in gpu(0, 0) if name.endswith("_active_ratio") or name == "sm_occupancy_ratio"]

    def gpus(beat: int) -> Reading:
        row = gpu(0, beat, **dict.fromkeys(meters))
        told = found(0, sku="A100-40GB", memory_bytes=40_960 * MIB)
        return {"gpu_samples": [{**row, "memory_used_bytes": 30 * GIB}], "inventory": [told] if beat == 0 else []}

    why = "GPM needs Hopper or newer"
    supported = [Supported(uuid(0), "energy"), Supported(uuid(0), "activity", ok=False, reason=why)]
    return Situation({"gpu": gpus, "agent": agent(1, 1)}, supported)


def xid_storm() -> Situation:
    """A GPU that throws hundreds of errors a beat, of which a gauge of the last one would show nothing."""

    def gpus(beat: int) -> Reading:
        last = (0, 48, 63, 63)[beat]
        storm: dict[str, Value] = {
            "xid_events": 0 if beat == 0 else 480,
            "xid_last": last or None,
            "xid_last_timestamp_seconds": 1_795_219_200.0 + BEAT_SECONDS * beat if beat else None,
            "ecc_uncorrected_events": 3,
            "ecc_corrected_events": 1200,
            "remapped_rows_uncorrected": 2,
            "row_remap_pending": True,
            "recovery_action": "gpu_reset",
        }
        return {"gpu_samples": [gpu(0, beat, **storm)], "inventory": [found(0)] if beat == 0 else []}

    return Situation({"gpu": gpus, "agent": agent(1, 1)})


SITUATIONS: dict[str, Callable[[], Situation]] = {
    made.__name__: made for made in (healthy, lost_gpu, mig, no_gpu, time_sliced, without_gpm, xid_storm)
}
