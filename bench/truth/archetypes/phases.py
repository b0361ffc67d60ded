"""The phases that runs are made of, each drawn from a published range.

- Dense training: SM activity 0.78 to 0.95 (NVIDIA's DCGM guide takes 0.8 as necessary for effective use), tensor
  activity 0.3 to 0.55, 0.7 to 0.97 of the power limit.
- Memory-bound kernels: DRAM activity from 0.5 (KempnerPulse's class) to its practical peak of about 0.8.
- In a collective NCCL's kernels stay resident: 8 to 32 blocks on 132 (H100) or 108 (A100) SMs are 0.06 to 0.25 of SM
  activity (NVIDIA developer forum: 24 blocks, 0.18), no tensor work, a quarter to 0.42 of the power limit.
- Without a kernel but with a context, clocks stay up: 0.15 to 0.22 of the limit.
- Launch-bound: NVML 80 to 100%, SM 0.1 to 0.4, power 0.2 to 0.4 (HTA's host wait).
- Decoding: DRAM over 0.5, tensor cores nearly idle, SM in between (KempnerPulse's memory-bound class).
- Checkpoints: 2 bytes a parameter (weights) to 16 (with the optimizer's state), device to host and then to storage.
"""

from bench.truth.draw import GIB, Draw
from bench.truth.kinds import Kind


def compute(draw: Draw) -> Kind:
    """Return forward and backward passes of a dense model."""
    return Kind(
        {
            "utilization": 1.0,
            "sm": draw.uniform(0.78, 0.95),
            "occupancy": draw.uniform(0.25, 0.55),
            "tensor": draw.uniform(0.30, 0.55),
            "dram": draw.uniform(0.30, 0.60),
            "pcie_in": draw.log_uniform(2e7, 1.2e9),
            "pcie_out": draw.log_uniform(1e6, 5e7),
            "power": draw.uniform(0.72, 0.96),
            "clock": 1.0,
            "memory": draw.memory_gib * GIB,
        }
    )


def memory_bound(draw: Draw) -> Kind:
    """Return kernels that wait for device memory: normalisations, embeddings, attention without fusion."""
    kind = compute(draw).but(sm=draw.uniform(0.6, 0.9), tensor=draw.uniform(0.0, 0.08), dram=draw.uniform(0.55, 0.82))
    return kind.but(power=draw.uniform(0.5, 0.75)).being("productive", "memory_bandwidth")


def optimizer(draw: Draw, work: Kind) -> Kind:
    """Return the optimizer's part of a step: device memory, no tensor cores."""
    quiet = work.but(sm=draw.uniform(0.75, 0.95), tensor=0.0, dram=draw.uniform(0.6, 0.8), pcie_in=1e6)
    return quiet.but(power=draw.uniform(0.55, 0.7))


def exchange(draw: Draw, work: Kind) -> Kind:
    """Return exposed collectives within a host."""
    kind = work.but(sm=draw.uniform(0.06, 0.25), occupancy=draw.uniform(0.02, 0.08), tensor=0.0, pcie_in=1e6)
    kind = kind.but(dram=draw.uniform(0.03, 0.12), power=draw.uniform(0.26, 0.42), pcie_out=1e6)
    return kind.but(nvlink=draw.uniform(0.3, 0.75) * draw.machine.nvlink_bytes).being("communicating", "collective")


def blocked(draw: Draw, work: Kind) -> Kind:
    """Return a GPU without any kernel, its clocks up and its memory held. Give it a label."""
    still = work.but(utilization=0.0, sm=0.0, occupancy=0.0, tensor=0.0, dram=0.0, pcie_in=0.0, pcie_out=0.0)
    return still.but(nvlink=0.0, fabric=0.0, power=draw.uniform(0.15, 0.22), limited_by_power=0.0, limited_by_heat=0.0)


def seconds_of_start(draw: Draw) -> float:
    """Return how long a start takes: one to eight minutes, as Meta's and Google's goodput reports tell."""
    return draw.log_uniform(60, 480)


def start(draw: Draw, work: Kind, *, beside: Kind | None = None) -> None:
    """Play a start: read the weights, compile, first steps; `beside` is what another run of the same GPU does then."""
    seconds = seconds_of_start(draw)
    size = draw.log_uniform(1e9, 4e10)
    reading = {"disk_read": size / seconds, "disk_busy": draw.uniform(0.05, 0.6), "disk_waited": draw.uniform(0.1, 2)}
    idle_workers = {"busiest_worker": draw.uniform(0.0, 0.1), "cores": draw.uniform(0.8, 2.5) * draw.ranks_per_node}
    still = blocked(draw, work).but(
        **_off_host(work), **idle_workers, host_memory=work.values.get("host_memory", 8 * GIB)
    )
    loading = still.but(memory=0.4 * work.values["memory"], **reading, io_pressure=draw.uniform(0.0, 0.5))
    loading = loading.being("starting", "model_load")
    draw.tape.play(loading if beside is None else (loading, beside), seconds * 0.6)
    warm = still.but(utilization=0.2, sm=0.08, tensor=0.02, dram=0.05, power=0.3, memory=0.7 * work.values["memory"])
    warm = warm.being("starting", "warm_up")
    draw.tape.play(warm if beside is None else (warm, beside), seconds * 0.4)


def save(draw: Draw, work: Kind, size: float, seconds: float, *, remote: bool) -> None:
    """Play a checkpoint of `size` bytes a rank: device to host in a burst, then host to storage."""
    burst = min(seconds * 0.3, max(0.5, size / (0.5 * draw.machine.pcie_bytes)))
    still = blocked(draw, work).but(**_off_host(work), busiest_worker=0.02, cores=1.2 * draw.ranks_per_node)
    still = still.being("checkpointing", "network" if remote else "storage")
    draw.tape.play(still.but(pcie_out=size / burst), burst)
    written = size * draw.ranks_per_node / max(0.1, seconds - burst)
    if remote:
        writing = still.but(mount_written=written, io_pressure=draw.uniform(0.1, 0.6))
    else:
        writing = still.but(disk_written=written, disk_busy=draw.uniform(0.2, 0.9), io_pressure=draw.uniform(0.1, 0.7))
    draw.tape.play(writing, seconds - burst)


def _off_host(work: Kind) -> dict[str, float]:
    """Return the host's signals at rest: a loader whose queue is full does nothing while the GPUs stand still."""
    resting = ("disk_read", "mount_read", "ethernet_in", "ethernet_out", "waiting_workers", "refused_cores")
    also = ("cpu_pressure", "io_pressure", "disk_busy", "disk_waited", "mount_waited", "iowait_cores")
    return {name: 0.0 for name in (*resting, *also) if name in work.values}
