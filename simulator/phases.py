"""Phases that many kinds of work share, and the published numbers they stand on.

- Dense training: SM activity 0.88-0.92 and tensor activity 0.35-0.55 at 0.85-0.95 of the power limit; NVIDIA's DCGM
  guide takes SM activity of 0.8 as necessary for effective use.
- Waiting in a collective: NCCL's kernels stay resident, so that NVML says 100%, while 24 blocks on the 132 SMs of an
  H100 make 0.18 of SM activity (NVIDIA developer forum), no tensor work, and about 0.35 of the power limit.
- Waiting on the host: no kernel at all; clocks stay up, so that the board draws 0.2 of the limit, not the idle power.
- A checkpoint writes 2 B a parameter (weights) to 16 B (with the optimizer): device to host first, then to storage.
- Start-up: pull the image, read the weights, compile: minutes, as in Google's goodput and Meta's time-to-start.
"""

import numpy as np

from agent.wire.units import GIB
from simulator import labels
from simulator.activity import Activity, blend
from simulator.timeline import Player

GIGABYTE = 1e9

DENSE = Activity(
    utilization=1.0,
    zero=0.0,
    low=0.0,
    high=1.0,
    sm=0.90,
    occupancy=0.32,
    tensor=0.45,
    dram=0.48,
    power=0.90,
    clock=1.0,
    cores=1.3,
    truth=((labels.COMPUTE, 1.0),),
)
SPINNING = Activity(
    utilization=1.0,
    zero=0.0,
    low=0.0,
    high=1.0,
    sm=0.18,
    occupancy=0.03,
    dram=0.03,
    power=0.35,
    clock=1.0,
    cores=1.1,
    truth=((labels.COLLECTIVE, 1.0),),
)
STALLED = Activity(power=0.20, clock=1.0, cores=0.2)
CONTEXT_ONLY = Activity(power=0.165, clock=1.0, cores=0.02)  # a process that sits: memory and a context, lower clocks


def gib(count: float) -> float:
    """Return bytes."""
    return count * GIB


def spread(rng: np.random.Generator, mean: float, sigma: float = 0.25) -> float:
    """Return a length around this mean, skewed as lengths are, and within a third and the triple of it."""
    return float(mean * np.clip(np.exp(rng.normal(-sigma * sigma / 2, sigma)), 1 / 3, 3.0))


def start_up(
    tape: Player, rng: np.random.Generator, *, memory: float, weights: float, image_seconds: float = 0.0, again: bool
) -> None:
    """Play a start: image, weights (bytes a GPU, read from the local drives), first compiled steps."""
    if image_seconds:
        pulling = Activity(cores=0.6, ethernet_in=6e7, nvme_written=1.5e8, nvme_busy=0.01)
        tape.play(pulling.being(labels.IMAGE_PULL), spread(rng, image_seconds))
    seconds = spread(rng, 90 + weights / 1.1e8)
    loading = Activity(
        memory=memory * 0.4, power=0.165, clock=1.0, cores=1.2, pcie_in=weights / seconds, io_pressure=0.25
    )
    loading = loading.reading_nvme(weights / seconds, weights / seconds / 5.8e9, 1.5)
    tape.play(loading.being(labels.RESTORE if again else labels.MODEL_LOAD), seconds)
    kernels = DENSE.but(memory=memory * 0.7, sm=0.3, tensor=0.1, dram=0.15, power=0.4)
    compiling = blend((kernels, 0.25), (STALLED.but(memory=memory * 0.7, cores=1.6), 0.75))
    tape.play(compiling.being(labels.WARM_UP), spread(rng, 110))


def save(tape: Player, like: Activity, size: float, seconds: float, *, remote: bool) -> None:
    """Play a checkpoint of `size` bytes a GPU: device to host in a burst, then host to storage."""
    burst = min(12.0, seconds / 3)
    waiting = STALLED.but(memory=like.memory, workers=like.workers, busiest_worker=0.05, host_memory=like.host_memory)
    waiting = waiting.being(labels.SAVING_REMOTELY if remote else labels.SAVING_LOCALLY)
    tape.play(waiting.but(pcie_out=size / burst, cores=1.1), burst)
    rate = size / (seconds - burst)
    if remote:
        writing = waiting.but(nfs_written=rate, io_pressure=0.4, cores=0.5)
    else:
        writing = waiting.but(nvme_written=rate, nvme_busy=min(0.12, rate / 3e9), io_pressure=0.3, cores=0.5)
    tape.play(writing, seconds - burst)


def pause(tape: Player, like: Activity, seconds: float) -> None:
    """Play a pause that leaves no trace on the host: a lock, a licence, a far-away service."""
    still = STALLED.but(memory=like.memory, workers=like.workers, host_memory=like.host_memory)
    tape.play(still.being(labels.UNEXPLAINED), seconds)
