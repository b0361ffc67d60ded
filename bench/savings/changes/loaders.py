"""More loader workers and cores, and copies from pinned memory.

A step takes as long as its computation or as the loading of its data, whichever is longer; loading goes on beside the
computation (prefetch), so that what a run waits for is the rest.

- k times the workers load 1 / (s + (1 - s) / k) times as fast (Amdahl): s is what stays in one process (collating, the
  queue, the copy out of shared memory). No measurement of s is published that we know of; 0.02 to 0.20 is ours.
- Never faster than the cores allow: 3 to 24 a GPU are needed (DS-Analyzer, VLDB'21), and a quota is a quota.
- Steps that wait in between for a loader that saturates nothing: with four workers a ResNet-50 waited 1.0% of its
  time, without any 39.6% (PyTorch Kineto's sample traces); TF Profiler calls a step bound by its input from 5% on.
  What is left is drawn between the two.
- A single process that prepares the next stretch of work while nothing computes (between benchmarks) is not hidden by
  prefetch, which does not reach over the end of a data set: it becomes faster, and no more.
- Pageable copies are staged by one host thread; from pinned memory a Gen5 link gives about 50 GB/s. Tables can be
  pinned once; what is made anew for each batch is still staged, beside the kernels now. Half at most: ours.
"""

import numpy as np

from bench.savings.changes.change import Change
from bench.savings.changes.mixing import rarer
from bench.savings.changes.pace import later, lengths_of, retimed, share_of, where, work_before
from simulator import labels
from simulator.activity import Activity, FloatArray, IntArray
from simulator.fed_runs import PAGEABLE_BYTES_PER_SECOND
from simulator.plan import Run
from simulator.timeline import Timeline

IN_ONE_PROCESS = (0.02, 0.20)
STILL_WAITING = (0.01, 0.05)
FIRST_BATCH = (0.05, 0.20)  # of the time in which workers started anew: they stay now, the first batch does not (ours)
PINNED_BYTES_PER_SECOND = 5.0e10
STAGED = (0.0, 0.5)


def more_workers(run: Run, rng: np.random.Generator, change: Change) -> Run:
    """Return the run with more workers and the cores for them, on the hosts where it is."""
    serial, left = rng.uniform(*IN_ONE_PROCESS), rng.uniform(*STILL_WAITING)
    first = rng.uniform(*FIRST_BATCH)
    reference = run.timelines[0]
    gain = min(1 / (serial + (1 - serial) / change.workers), _cores_allow(run, change))
    lengths = lengths_of(reference).astype(np.float64)
    changed = later(reference, change.since)

    alone = where(reference, lambda phase: share_of(phase, labels.PREPROCESSING) > 0.99)
    beside = work_before(reference)
    lengths = np.where(alone & changed, np.maximum(0.0, (beside + lengths) / gain - beside), lengths)

    lengths = _software(reference, lengths, gain, first, left, since=change.since)

    def rewrite(phase: Activity, _: float) -> Activity:
        told = share_of(phase, labels.LOADER_SOFTWARE)
        made = rarer(phase, labels.LOADER_SOFTWARE, left) if left < told < 0.99 else phase
        return made.but(workers=made.workers * change.workers, cores=made.cores * gain, refused_cores=0.0)

    return retimed(run, _whole(lengths), rewrite, change.since)


def _cores_allow(run: Run, change: Change) -> float:
    """Return how many times as fast the loader may be, by the cores that it will have for each that it uses now."""
    used = max(activity.cores for activity in run.timelines[0].activities if activity.utilization > 0) or 1.0
    return max(1.0, run.plan.cores_per_gpu * change.cores / used)


def _software(
    reference: Timeline, lengths: FloatArray, gain: float, first: float, left: float, *, since: int
) -> FloatArray:
    told = np.array([share_of(phase, labels.LOADER_SOFTWARE) for phase in reference.activities])[reference.index]
    changed = later(reference, since)
    mixed = (told > left) & (told < 0.99)
    after_mixed = np.concatenate([[False], mixed[:-1]])
    pure = told > 0.99
    lengths = np.where(pure & after_mixed & changed, lengths * first, lengths)
    lengths = np.where(pure & ~after_mixed & changed, lengths / gain, lengths)
    result: FloatArray = np.where(mixed & changed, lengths * (1 - told) / (1 - left), lengths)
    return result


def pin_memory(run: Run, rng: np.random.Generator, change: Change) -> Run:
    """Return the run with copies from pinned memory, beside its kernels."""
    staged = rng.uniform(*STAGED)
    link = PAGEABLE_BYTES_PER_SECOND / PINNED_BYTES_PER_SECOND
    reference = run.timelines[0]
    copied = np.array([share_of(phase, labels.HOST_TO_DEVICE) for phase in reference.activities])[reference.index]
    step = np.maximum(1 - copied, copied * max(staged, link))
    times = np.where((copied > 0) & (copied < 1) & later(reference, change.since), step, 1.0)

    def rewrite(phase: Activity, _: float) -> Activity:
        share = share_of(phase, labels.HOST_TO_DEVICE)
        if not 0 < share < 1:
            return phase
        whole = max(1 - share, share * max(staged, link))
        made = rarer(phase, labels.HOST_TO_DEVICE, 1 - (1 - share) / whole)
        return made.but(pcie_in=phase.pcie_in / whole)

    return retimed(run, _whole(lengths_of(reference).astype(np.float64) * times), rewrite, change.since)


def _whole(lengths: FloatArray) -> IntArray:
    whole: IntArray = np.rint(lengths).astype(np.int64)
    return whole
