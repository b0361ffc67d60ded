"""What tells the causes of a stand-still apart: one table of causes x witnesses, and how it is scored.

A witness is a figure of a window, in a physical unit. A cell says what a value speaks for, in decibans (tenths of a
power of ten of odds): as points (value, decibans), straight between them and level beyond. A witness that was not
reported speaks for nothing. What each cause must show, and what it would show if it were not true: reference,
algorithms 1.1 to 1.4 (DS-Analyzer, tf.data, Plumber); "some" pressure of the kernel is full when any one of many tasks
waits (Documentation/accounting/psi.rst), and decides nothing by itself. Weights are ours, and are held to runs whose
causes are known (bench/).

The scorer says how probable each cause is, in whole decibans, so that every run agrees.
One answer a window: the odds of all causes and of none of them sum to one. Windows near each other are one piece of
evidence, so that noise names nothing, and an hour of another cause is seen.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from analyzer.ledger.windows import RunWindow, per_gpu_rate, share_behind

_Read = Callable[[RunWindow], int | None]
Points = tuple[tuple[int, int], ...]

PRIOR_DECIBANS, RARE_DECIBANS = -7, -13  # one to five, one to twenty, before anything was seen
BOOKED_PERMILLE, SURE_PERMILLE, SUSPECTED_PERMILLE = 600, 950, 450  # of the posterior: booked, high, named at all
SECOND_PERMILLE = 200  # of another cause: from here on it cannot be left out, and is named beside the first
TOGETHER_PERMILLE = 750  # of all causes of input together: booked, where none of them is likely enough to be named
WIDTH = 3  # windows on either side whose evidence is one with a window's own: half an hour


@dataclass(frozen=True, slots=True)
class Witness:
    """One figure: what people call it, its unit, how a window tells it. None is not reported."""

    what: str
    unit: str  # %, cores, tasks, MB/s, GPUs
    read: _Read


def _own(of_run: int | None, of_host: int | None) -> int | None:
    """Return the run's own figure; the host's, which others share, only where the run has none."""
    return of_host if of_run is None else of_run


def _while_still(window: RunWindow, value: int | None) -> int | None:
    """Return what happened in the stand-still alone, if all of it did: a value per thousand of the stand-still."""
    return None if value is None or window.still <= 0 else value * 1000 // window.still


def _read(window: RunWindow) -> int | None:
    if window.block_read is None and window.mount_read is None:
        return None
    return (window.block_read or 0) + (window.mount_read or 0)


def _read_rate(window: RunWindow) -> int | None:
    """Return what is read from disks and mounts for each GPU, in kB/s; of it what comes past them, over the network."""
    read = _read(window)
    if read is None:
        return None
    return max(read, window.network_in or 0) // 1000 // window.gpus


def _of_reads(window: RunWindow) -> int | None:
    """Return the share of reads in what storage moves: of a burst of writing hardly anything."""
    read = _read(window)
    if read is None or window.written is None or _may_read_elsewhere(window):
        return None
    return read * 1000 // max(1, read + window.written)


def _from_mounts(window: RunWindow) -> int | None:
    read = _read(window)
    return None if not read or _may_read_elsewhere(window) else (window.mount_read or 0) * 1000 // read


def _may_read_elsewhere(window: RunWindow) -> bool:
    """True where mounts tell nothing, and more arrives over the network than disks read: else there are none."""
    return window.mount_read is None and (window.network_in or 0) > 2 * (window.block_read or 0)


def _past_mounts(window: RunWindow) -> int | None:
    """Return what arrives over the network as a multiple of what disks and mounts read; 0 where it is a trickle."""
    if window.network_in is None:
        return None
    if window.network_in < 20_000_000 * window.gpus:  # 20 MB/s for each GPU: more than logs and heartbeats
        return 0
    return window.network_in * 1000 // max(1, _read(window) or 0)


def _copies(window: RunWindow) -> int | None:
    """Return the rate of copies to each GPU, spread over its stand-still alone, in kB/ms; 0 of hardly any."""
    rate = per_gpu_rate(window, window.pcie_in_kb)
    return 0 if rate is not None and rate < 500 else _while_still(window, rate)


def _cores_of_have(window: RunWindow) -> int | None:
    if window.cores_used_milli is None or not window.cores_milli:
        return window.cpu_busy
    return window.cores_used_milli * 1000 // window.cores_milli


def _packed(window: RunWindow) -> int | None:
    """Return how full all cores are while the GPUs stand still, which is most of the time: stages by turns."""
    return _while_still(window, _cores_of_have(window)) if window.still >= 650 else None


def _cores_a_rank(window: RunWindow) -> int | None:
    return None if window.cores_used_milli is None else window.cores_used_milli // window.gpus


def _loader_use(window: RunWindow) -> int | None:
    """Return the busiest loader worker's use of a core; 0 where the run has none."""
    return 0 if window.workers == 0 else window.busiest


def _work_at_once(window: RunWindow) -> int | None:
    """Return how many GPUs of several work at a time, in thousandths."""
    return None if window.gpus < 2 else (1000 - window.still) * window.gpus


def _ranks_apart(window: RunWindow) -> int | None:
    """Return the share of a host's ranks that stand still for a tenth of the time longer than the middle one."""
    if window.nodes > 1 or window.still_most is None or window.still_median is None:
        return None
    if window.still_most - window.still_median < 100:
        return 0
    return max(0, share_behind(window.still, window.still_median, window.still_most) or 0)


def _refilled(window: RunWindow) -> int | None:
    """Return how many stand-stills end with a copy to the GPU, of three at least: once is nothing."""
    return None if window.dips is None or window.dips < 3 else (window.refills or 0) * 1000 // window.dips


WITNESSES: Mapping[str, Witness] = {
    "disk_busy": Witness("disk busy", "%", lambda w: w.disk_busy),
    "disk_reads": Witness("disk reads while stalled", "reads", lambda w: _while_still(w, w.disk_waited)),
    "mount_reads": Witness("mount reads, stalled", "reads", lambda w: _while_still(w, w.mount_waited)),
    "waiting": Witness("loader workers waiting", "%", lambda w: w.waiting),
    "pressure_io": Witness("storage pressure", "%", lambda w: _own(w.pressure_io, w.host_pressure_io)),
    "read_rate": Witness("read per GPU", "kB/s", _read_rate),
    "of_reads": Witness("reads, of storage bytes", "%", _of_reads),
    "from_mounts": Witness("reads from mounts", "%", _from_mounts),
    "past_mounts": Witness("network in, of reads", "%", _past_mounts),
    "busiest": Witness("busiest loader worker", "% of a core", lambda w: w.busiest),
    "loader": Witness("loader at work", "% of a core", _loader_use),
    "quota": Witness("throttled by its cgroup", "%", lambda w: w.cpu_throttled),
    "pressure_cpu": Witness("CPU pressure", "%", lambda w: _own(w.pressure_cpu, w.host_pressure_cpu)),
    "cores": Witness("cores in use, of its own", "%", _cores_of_have),
    "packed": Witness("cores in use, stalled", "%", _packed),
    "cores_a_rank": Witness("cores in use per GPU", "cores", _cores_a_rank),
    "all_cores": Witness("cores in use", "cores", lambda w: w.cores_used_milli),
    "copies": Witness("copies while stalled", "MB/s", _copies),
    "decoder": Witness("video decoder", "%", lambda w: w.decoder),
    "at_once": Witness("GPUs at work at a time", "GPUs", _work_at_once),
    "pressure_memory": Witness("memory pressure", "%", lambda w: _own(w.pressure_memory, w.host_pressure_memory)),
    "memory_left": Witness("host memory available", "%", lambda w: w.host_memory_spare),
    "ranks_apart": Witness("ranks that stand still", "%", _ranks_apart),
    "refilled": Witness("stalls ended by a copy", "%", _refilled),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One way in which a cause shows itself.

    `own` names the witnesses that this cause has and others lack: without one of them in its favour nothing is said.
    `unseen` is what the silence of a witness costs that would else have spoken against it.
    `needs_habit` is true of what is told by nothing being full: the loss must be the run's habit, and its loader must
    not rest while the GPUs stand still.
    """

    cause: str
    own: frozenset[str]
    cells: Mapping[str, Points]
    needs_habit: bool = False
    unseen: tuple[tuple[str, int], ...] = ()
    prior: int = PRIOR_DECIBANS


# Against a cause of the host: another part of it that is full. Shared by several rows.
_UNLESS_WAITING: Points = ((200, 0), (500, -8))
_UNLESS_COPIES: Points = ((2_000, 0), (3_000, -12))
_UNLESS_DECODER: Points = ((600, 0), (900, -15))
_UNLESS_MEMORY: Points = ((50, 0), (200, -15))
_SOMETHING_IS_READ: Points = ((200, -12), (2_000, 0))
_UNLESS_WRITTEN: Points = ((400, -30), (550, 0))

TABLE: tuple[Row, ...] = (
    Row(
        "storage",
        frozenset({"disk_busy", "waiting"}),
        {
            "disk_busy": ((500, -8), (850, 14)),
            "waiting": ((50, -6), (300, 10)),
            "disk_reads": ((300, -12), (1_000, 1)),
            "pressure_io": ((20, -8), (150, 3)),
            "read_rate": _SOMETHING_IS_READ,
            "of_reads": _UNLESS_WRITTEN,
            "from_mounts": ((500, 0), (900, -15)),
            "quota": ((10, 0), (60, -6)),
            "busiest": ((800, 0), (950, -6)),
            "decoder": _UNLESS_DECODER,
            "pressure_memory": _UNLESS_MEMORY,
        },
    ),
    Row(
        "network_storage",
        frozenset({"waiting", "mount_reads"}),
        {
            "waiting": ((100, -8), (300, 12)),
            "mount_reads": ((300, -12), (1_000, 3), (4_000, 6)),
            "pressure_io": ((20, -8), (150, 4)),
            "read_rate": _SOMETHING_IS_READ,
            "of_reads": _UNLESS_WRITTEN,
            "from_mounts": ((300, -15), (600, 3)),
            "disk_busy": ((700, 0), (900, -5)),
            "quota": ((10, 0), (60, -6)),
            "busiest": ((800, 0), (950, -6)),
            "decoder": _UNLESS_DECODER,
            "pressure_memory": _UNLESS_MEMORY,
        },
    ),
    Row(  # a client in user space (FUSE, S3) or other hosts: its readers sleep, and the kernel tells of no pressure
        "network_storage",
        frozenset({"past_mounts"}),
        {
            "past_mounts": ((2_000, -15), (4_000, 17)),
            "quota": ((10, 0), (60, -10)),
            "busiest": ((700, 0), (850, -12)),
            "copies": _UNLESS_COPIES,
            "packed": ((800, 0), (900, -10)),
            "decoder": _UNLESS_DECODER,
        },
        needs_habit=True,
    ),
    Row(
        "preprocessing",
        frozenset({"busiest"}),
        {
            "busiest": ((600, -12), (800, 22)),
            "waiting": _UNLESS_WAITING,
            "disk_busy": ((750, 0), (900, -4)),
            "decoder": _UNLESS_DECODER,
        },
    ),
    Row(  # a quota that stops the loader in every period
        "preprocessing",
        frozenset({"quota"}),
        {
            "quota": ((10, -12), (60, 22)),
            "waiting": _UNLESS_WAITING,
            "disk_busy": ((750, 0), (900, -4)),
            "decoder": _UNLESS_DECODER,
        },
    ),
    Row(  # processors first, GPUs then, by turns
        "preprocessing",
        frozenset({"packed"}),
        {"packed": ((750, -12), (900, 17)), "waiting": _UNLESS_WAITING, "copies": _UNLESS_COPIES},
    ),
    Row(  # more to run than there are cores
        "preprocessing",
        frozenset({"pressure_cpu", "cores"}),
        {
            "pressure_cpu": ((100, -10), (250, 10)),
            "cores": ((600, -14), (850, 4), (950, 12)),
            "loader": ((150, -12), (300, 2)),
            "waiting": _UNLESS_WAITING,
        },
    ),
    Row(  # its own process loads (num_workers=0): one full thread, and something to read
        "preprocessing",
        frozenset({"cores_a_rank"}),
        {
            "cores_a_rank": ((550, -15), (750, 7)),
            "loader": ((0, 5), (100, -15)),
            "read_rate": ((1_000, -15), (5_000, 6)),
            "disk_busy": ((600, 0), (850, -12)),
            "pressure_io": ((100, 0), (300, -6)),
            "copies": _UNLESS_COPIES,
            "decoder": _UNLESS_DECODER,
            "ranks_apart": ((300, 0), (400, -12)),
        },
        needs_habit=True,
        unseen=(("read_rate", -6),),
    ),
    Row(  # nothing is full, and the loader works: too few workers, locks, no prefetching
        "loader_software",
        frozenset({"loader"}),
        {
            "loader": ((120, -15), (220, 12), (700, 12), (850, -15)),
            "disk_busy": ((500, 1), (850, -8)),
            "waiting": ((100, 1), (300, -12)),
            "quota": ((10, 1), (60, -15)),
            "past_mounts": ((2_000, 0), (4_000, -12)),
            "copies": _UNLESS_COPIES,
            "packed": ((800, 0), (900, -10)),
            "pressure_cpu": ((150, 0), (400, -4)),
            "ranks_apart": ((300, 0), (400, -12)),  # ranks of several roles wait for each other
            "decoder": _UNLESS_DECODER,
            "pressure_memory": _UNLESS_MEMORY,
        },
        needs_habit=True,
        unseen=(("copies", -4),),
    ),
    Row(  # of recordings that know GPUs alone: each stand-still ends with a copy to the GPU
        "loader_software",
        frozenset({"refilled"}),
        {"refilled": ((550, -12), (660, 11)), "loader": ((0, 0), (120, 0))},
        needs_habit=True,
    ),
    Row(
        "host_to_device",
        frozenset({"copies"}),
        {
            "copies": ((1_500, -15), (3_000, 17), (14_000, 17), (22_000, -15)),  # more is faster than pageable
            "waiting": _UNLESS_WAITING,
            "busiest": ((850, 0), (950, -8)),
            "quota": ((10, 0), (60, -8)),
            "disk_busy": ((750, 0), (900, -6)),
        },
    ),
    Row(  # a thread of the run computes: an optimizer on the CPU, an evaluation in Python, what comes before work
        "own_process",
        frozenset({"cores_a_rank"}),
        {
            "cores_a_rank": ((600, -12), (900, 8)),
            "loader": ((80, 4), (250, -12)),
            "read_rate": ((1_000, 2), (5_000, -6)),
            "disk_busy": ((400, 1), (800, -12)),
            "pressure_io": ((50, 1), (200, -6)),
            "copies": _UNLESS_COPIES,
            "decoder": _UNLESS_DECODER,
        },
    ),
    Row("decoder", frozenset({"decoder"}), {"decoder": ((600, -10), (900, 22))}, prior=RARE_DECIBANS),
    Row(  # layers spread over GPUs of one process: one works at a time, driven by one thread
        "turns",
        frozenset({"at_once"}),
        {
            "at_once": ((800, -15), (920, 10), (1_050, 10), (1_200, -15)),
            "all_cores": ((1_800, 8), (2_500, -12)),
            "loader": ((0, 2), (150, -12)),
            "read_rate": ((1_000, 1), (10_000, -8)),
        },
        prior=RARE_DECIBANS,
    ),
    Row(
        "memory",
        frozenset({"pressure_memory"}),
        {"pressure_memory": ((50, -15), (200, 20)), "memory_left": ((50, 4), (150, -10))},
        prior=RARE_DECIBANS,
    ),
)
# What a stand-still may be booked to as input; the others are named beside unexplained time, and claim none.
INPUTS = frozenset({"storage", "network_storage", "preprocessing", "loader_software", "host_to_device"})
CAUSES = tuple(dict.fromkeys(row.cause for row in TABLE))
NOT_A_HABIT_DECIBANS = -10  # of what needs one, where the loss is no habit or the loader rests meanwhile
# Changes with any number of this page: part of the version of the rules.
DIGEST = zlib.crc32(
    repr(
        (
            (BOOKED_PERMILLE, SURE_PERMILLE, SUSPECTED_PERMILLE, TOGETHER_PERMILLE, WIDTH, NOT_A_HABIT_DECIBANS),
            [
                (row.cause, sorted(row.own), sorted(row.cells.items()), row.needs_habit, row.unseen, row.prior)
                for row in TABLE
            ],
        )
    ).encode()
)


_MILLI = 1000  # decibans are kept in thousandths
_LEAST, _MOST = -60, 60  # a millionth and a million: beyond that nothing changes


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one window says of each row of the table: thousandths of decibans, and whether a witness of its own does."""

    scores: tuple[int, ...]
    witnessed: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Posterior:
    """The causes with their shares, permille, the likeliest first; only those that a witness of their own speaks for.

    What is left to a thousand is none of them.
    """

    shares: tuple[tuple[str, int], ...]

    @property
    def cause(self) -> str | None:
        """The likeliest cause; None where none has a witness."""
        return self.shares[0][0] if self.shares else None

    @property
    def share(self) -> int:
        """Its share."""
        return self.shares[0][1] if self.shares else 0


def speaks(points: Points, value: int) -> int:
    """Return what a value says, in thousandths of decibans: straight between the points, level beyond them."""
    first, last = points[0], points[-1]
    if value <= first[0]:
        return first[1] * _MILLI
    if value >= last[0]:
        return last[1] * _MILLI
    for (low, below), (high, above) in pairwise(points):
        if value < high:
            return below * _MILLI + (above - below) * _MILLI * (value - low) // (high - low)
    return last[1] * _MILLI


def read(window: RunWindow) -> dict[str, int]:
    """Return what each witness tells of a window; those that were not reported are left out."""
    told = ((name, witness.read(window)) for name, witness in WITNESSES.items())
    return {name: value for name, value in told if value is not None}


def weigh(window: RunWindow) -> Evidence:
    """Hold one window to every row: one of which no witness was reported can be contradicted, and not confirmed."""
    told = read(window)
    scores: list[int] = []
    witnessed = []
    for row in TABLE:
        says = {name: speaks(points, told[name]) for name, points in row.cells.items() if name in told}
        score = sum(says.values()) + sum(cost * _MILLI for name, cost in row.unseen if name not in told)
        scores.append(row.prior * _MILLI + (score if row.own & says.keys() else min(0, score)))
        witnessed.append(any(says.get(name, 0) > 0 for name in row.own))
    return Evidence(tuple(scores), tuple(witnessed))


def posteriors(evidence: Sequence[Evidence | None], first: int = 0, *, is_habit: bool) -> list[Posterior | None]:
    """Judge windows in order of time from the `first` on, each by the middle of what those about it say.

    None is not looked at.
    """
    return [
        None
        if place < first or own is None
        else _posterior([each for each in _near(evidence, place) if each], is_habit=is_habit)
        for place, own in enumerate(evidence)
    ]


def _near(evidence: Sequence[Evidence | None], place: int) -> Sequence[Evidence | None]:
    return evidence[max(0, place - WIDTH) : place + WIDTH + 1]


def _posterior(near: Sequence[Evidence], *, is_habit: bool) -> Posterior:
    """Return the shares of all causes, each by that of its rows which fits best."""
    best: dict[str, int] = {}
    seen: set[str] = set()
    for number, row in enumerate(TABLE):
        score = sorted([each.scores[number] for each in near])[(len(near) - 1) // 2]
        if row.needs_habit and not is_habit:
            score += NOT_A_HABIT_DECIBANS * _MILLI
        best[row.cause] = max(score, best.get(row.cause, score))
        if 2 * sum([each.witnessed[number] for each in near]) >= len(near):
            seen.add(row.cause)
    odds = {cause: _odds(best[cause] // _MILLI) for cause in CAUSES}
    whole = sum(odds.values()) + _odds(0)
    shares = ((cause, odds[cause] * 1000 // whole) for cause in CAUSES if cause in seen)
    return Posterior(tuple(sorted(shares, key=lambda item: (-item[1], item[0]))))


@lru_cache(maxsize=_MOST - _LEAST + 1)
def _odds(decibans: int) -> int:
    """Return the odds of so many decibans in millionths, a whole number."""
    return round(10 ** (6 + max(_LEAST, min(_MOST, decibans)) / 10))
