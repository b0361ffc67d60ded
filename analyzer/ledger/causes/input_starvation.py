"""Waiting for input: whether, from the GPUs' stand-still; why, from the host alone; else it stays unexplained.

Order of causes and their signs: reference, algorithms 1.2 and 1.4 (DS-Analyzer, tf.data, Plumber).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from analyzer.ledger.causes.exchange import at_least, per_gpu_rate
from analyzer.ledger.thresholds import Thresholds
from analyzer.ledger.windows import RunWindow
from analyzer.states import Confidence


@dataclass(frozen=True, slots=True)
class InputJudgement:
    """Whether one window is low for want of input, and how sure that is. `cause` is None where nothing fits."""

    is_low: bool
    cause: str | None
    confidence: Confidence

    @property
    def is_booked(self) -> bool:
        """True where the loss may be booked to its cause: from medium confidence up."""
        return self.cause is not None and self.confidence != "low"


@dataclass(frozen=True, slots=True)
class Sign:
    """What one window shows by itself: whether it is low, and which part of the host is full."""

    window: RunWindow
    is_low: bool
    full: str | None


NOT_LOW = InputJudgement(False, None, "low")


def saturated(window: RunWindow, limits: Thresholds) -> str | None:
    """Return the cause whose part of the host is full, furthest upstream first, or None where nothing is."""
    if _storage_waits(window, limits):
        return _which_storage(window, limits)
    if _copies_fill_the_stall(window, limits):
        return "host_to_device"
    if (
        at_least(window.busiest, limits.worker_full_permille)
        or at_least(window.cpu_throttled, limits.cpu_throttled_permille)
        or at_least(_own(window.pressure_cpu, window.host_pressure_cpu), limits.pressure_cpu_permille)
        or _cores_fill_the_stall(window, limits)
    ):
        return "preprocessing"
    return None


def _own(of_run: int | None, of_host: int | None) -> int | None:
    """Return the run's own figure; the host's, which others share, only where the run has none."""
    return of_host if of_run is None else of_run


def _storage_waits(window: RunWindow, limits: Thresholds) -> bool:
    if at_least(_own(window.pressure_io, window.host_pressure_io), limits.pressure_io_permille):
        return True
    if at_least(window.waiting, limits.waiting_permille):
        return True
    is_busy = at_least(window.disk_busy, limits.disk_busy_permille)
    return is_busy and window.pressure_io is None and window.waiting is None


def _which_storage(window: RunWindow, limits: Thresholds) -> str | None:
    """Return the storage that is read from; where less is read than written, the pressure is of writing."""
    read = (window.block_read or 0) + (window.mount_read or 0)
    if read <= (window.written or 0):
        return None
    if (window.block_read or 0) >= (window.mount_read or 0) or at_least(window.disk_busy, limits.disk_busy_permille):
        return "storage"
    return "network_storage"


def _copies_fill_the_stall(window: RunWindow, limits: Thresholds) -> bool:
    """True where the bytes to the GPU, spread over the stand-still alone, come at the rate of a pageable copy."""
    rate = per_gpu_rate(window, window.pcie_in_kb)
    if rate is None or window.still <= 0 or rate < limits.copied_kb_per_ms:
        return False
    return rate * 1000 // window.still >= limits.copy_kb_per_ms


def _cores_fill_the_stall(window: RunWindow, limits: Thresholds) -> bool:
    """True where all cores that the run may use are full as long as its GPUs stand still, which is most of the time.

    A stage for processors and one for GPUs by turns: over ten minutes neither looks full.
    """
    if window.cores_used_milli is None or not window.cores_milli or window.still < limits.packed_still_permille:
        return False
    used = window.cores_used_milli * 1000 // window.cores_milli
    return used * 1000 // window.still >= limits.worker_full_permille


def _comes_by_network(window: RunWindow, limits: Thresholds) -> bool:
    """True where input arrives over the network, past disks and mounts: from FUSE, an S3 client, or other hosts.

    Readers of object stores sleep, and do not wait in the kernel, so that no pressure tells of them (algorithms 1.2).
    """
    if window.network_in is None:
        return False
    from_here = (window.block_read or 0) + (window.mount_read or 0)
    is_input = window.network_in >= limits.network_in_kb_per_ms * window.gpus * 1_000_000
    return is_input and window.network_in >= limits.network_of_local * from_here


def sign(window: RunWindow, limits: Thresholds) -> Sign:
    """Look at one window by itself."""
    is_low = _is_low(window, limits)
    return Sign(window, is_low, saturated(window, limits) if is_low else None)


def detect(signs: Sequence[Sign], limits: Thresholds) -> list[InputJudgement]:
    """Judge windows of one run, in order of time, each in the light of all; one judgement a window."""
    windows = [each.window for each in signs]
    full, low = [each.full for each in signs], [each.is_low for each in signs]
    usual = _prevailing(full, sum(low))
    if usual is not None and full.count(usual) * 5 >= sum(cause is not None for cause in full) * 4:
        full = [cause and usual for cause in full]  # what a tenth of an hour says against the run's habit is noise
    lasts = sum(low) * 2 >= len(windows) and not _workers_rest(windows, limits)
    return [
        _judgement(window, is_low, cause or usual, lasts, _persists(full, index, limits), limits)
        for index, (window, is_low, cause) in enumerate(zip(windows, low, full, strict=True))
    ]


def _is_low(window: RunWindow, limits: Thresholds) -> bool:
    """True where the GPUs stand still for more than noise; fine samples must show it again and again."""
    if window.still < limits.low_permille:
        return False
    if window.dips is None:
        return True
    # Stand-still that ends with a copy to the GPU, at least three times, is input; once is nothing.
    return window.dips >= limits.dips_needed and (window.refills or 0) * 3 >= window.dips * 2


def _prevailing(causes: Sequence[str | None], low: int) -> str | None:
    """Return the cause that most low windows of the run have: the others then have it too."""
    counts = Counter(cause for cause in causes if cause is not None)
    if not counts:
        return None
    cause, count = max(counts.items(), key=lambda item: (item[1], item[0]))
    return cause if count * 2 >= low else None


def _judgement(
    window: RunWindow, is_low: bool, cause: str | None, lasts: bool, persists: bool, limits: Thresholds
) -> InputJudgement:
    if not is_low:
        return NOT_LOW
    if cause is not None:
        is_measured = window.sm_ms * 2 >= window.ms and window.shares_ms * 2 >= window.ms
        return InputJudgement(True, cause, "high" if persists and is_measured else "medium")
    # Nothing here is full, and what comes is fetched from afar: that is what is waited for.
    if _comes_by_network(window, limits):
        return InputJudgement(True, "network_storage", "medium" if lasts else "low")
    # Nothing is full: the loader itself, where it was seen at work and the loss is the run's habit, not an episode.
    if window.workers == 0:
        return _of_the_process_itself(window, lasts, limits)
    if at_least(window.workers, 1) and at_least(window.busiest, limits.worker_seen_permille):
        return InputJudgement(True, "loader_software", "medium" if lasts else "low")
    return InputJudgement(True, "loader_software" if window.dips is not None else None, "low")


def _of_the_process_itself(window: RunWindow, lasts: bool, limits: Thresholds) -> InputJudgement:
    """Judge a run that loads in its own process (num_workers=0).

    Its thread spins while it waits for the GPU, so that a full core says nothing; but one that is full although the
    GPU stands still for much of the time computes then.
    """
    is_full = at_least(window.cores_used_milli, limits.worker_full_permille * window.gpus)
    if is_full and window.still >= limits.much_permille:
        return InputJudgement(True, "preprocessing", "medium" if lasts else "low")
    return InputJudgement(True, "loader_software", "low")


def _workers_rest(windows: Sequence[RunWindow], limits: Thresholds) -> bool:
    """True where the loaders rest while the GPUs stand still: then they wait for the run, and not the run for them.

    A loader that is the limit works on through the stall; one that is not fills its queue and blocks, so that its use
    of a core falls with the GPUs' work. Compared are the stiller and the busier half of the windows, where they differ.
    """
    seen = sorted((window for window in windows if window.busiest is not None), key=lambda window: window.still)
    busier, stiller = seen[: len(seen) // 2], seen[(len(seen) + 1) // 2 :]
    if len(busier) < 2:
        return False
    worked, rested = _mean_busiest(busier), _mean_busiest(stiller)
    expected = 1000 * (1000 - _mean_still(stiller)) // max(1, 1000 - _mean_still(busier))
    return expected <= limits.resting_permille and worked > 0 and rested * 1000 // worked < (1000 + expected) // 2


def _mean_busiest(windows: Sequence[RunWindow]) -> int:
    return sum(window.busiest or 0 for window in windows) // len(windows)


def _mean_still(windows: Sequence[RunWindow]) -> int:
    return sum(window.still for window in windows) // len(windows)


def _persists(causes: Sequence[str | None], index: int, limits: Thresholds) -> bool:
    """True where the same part of the host was full for half an hour around this window."""
    here = causes[index]
    if here is None:
        return False
    first = last = index
    while first > 0 and causes[first - 1] == here:
        first -= 1
    while last + 1 < len(causes) and causes[last + 1] == here:
        last += 1
    return last - first + 1 >= limits.persistence_windows
