"""Ten minutes of one run: what was counted of it, and what is judged of it. Whole numbers, so that sums are exact."""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, fields
from functools import cache
from operator import attrgetter
from typing import Any, cast

import orjson

from analyzer.states import Confidence

# Fields of RunWindow that are not counted: what its service's policy asks for, set beside the verdict.
POLICY_FIELDS = ("replicas", "needed", "policy")


@dataclass(slots=True)  # not frozen, which takes twice as long to make: a week of a large fleet has a million of them
class RunWindow:
    """What is known of one run in one window. Shares are permille; None is not reported, and never 0.

    GPU figures cover the time that the run's GPUs were held, measured, started, not long quiet and not in a
    checkpoint; `still` is the share of it without any kernel, `short` the share in which the chip was busy in the
    driver's sense and yet below the run's own yardstick `best`, as a collective spinning for its peers is.
    """

    run_id: str
    window_ms: int  # its first millisecond
    gpus: int
    ms: int  # GPU-milliseconds
    sm_ms: int  # of them with SM activity
    shares_ms: int  # of them with sub-second shares
    activity: int
    still: int
    short: int
    spinning: int = 0  # share in which a GPU was busy, did next to nothing and sent nothing
    spinning_gpus: int = 0  # GPUs that did so throughout
    stuck_gpus: int | None = None  # the most GPUs that did so at once for whole minutes, and for how long together
    stuck_ms: int | None = None
    stuck_on_ms: int | None = None  # beyond the end of the hour, and how many of the run's GPUs are gone then
    gone_on: int | None = None
    busy_gpus: int = 0  # GPUs that were busy throughout, as the driver reports it
    stopped_gpus: int | None = None  # of `gpus`, those that stood still throughout
    resting_gpus: int | None = None  # GPUs that stood still for long, and have memory in use
    resting_cores_milli: int | None = None  # of the busiest process on those
    gpus_alive: int | None = None  # GPUs with a process of the run
    utilization: int | None = None
    tensor: int | None = None
    dram: int | None = None
    power: int | None = None  # of the board's limit
    slowed_most: int = 0  # the GPU that lost most of its clock
    slowed_least: int = 0
    slowest_gpu: str | None = None
    best: int | None = None
    pcie_in_kb: int | None = None
    pcie_out_kb: int | None = None
    nvlink_kb: int | None = None
    nodes: int = 1
    cpu_busy: int | None = None
    host_pressure_io: int | None = None
    host_pressure_cpu: int | None = None
    host_pressure_memory: int | None = None  # of the host that waits most
    host_memory_spare: int | None = None  # available without swapping, on the host that has least
    disk_busy: int | None = None
    block_read: int | None = None  # bytes a second, all nodes of the run
    mount_read: int | None = None
    disk_waited: int | None = None  # reads under way at a time, in thousandths: block devices, the fullest node
    mount_waited: int | None = None  # and of network mounts
    written: int | None = None  # bytes a second to disks and mounts, all nodes of the run
    rdma_out: int | None = None  # bytes in the window, all nodes of the run
    ports_gb: int | None = None  # what the RDMA ports of a node carry together, GB/s; the slowest node
    network_in: int | None = None  # bytes a second over ethernet, all nodes of the run
    workers: int | None = None
    busiest: int | None = None
    waiting: int | None = None
    cores_used_milli: int | None = None
    cores_milli: int | None = None
    cpu_throttled: int | None = None
    pressure_io: int | None = None
    pressure_cpu: int | None = None
    pressure_memory: int | None = None
    decoder: int | None = None  # video decoder, the busiest GPU
    dips: int | None = None  # stretches of stand-still, where samples are finer than a second
    refills: int | None = None  # of them ended by a copy to the GPU
    steps: int | None = None  # as the run tells them
    data_wait: int | None = None  # share of the time in which its steps waited for data, by the run's own clock
    # How its ranks stand to one another, of three and more: in the middle, the outermost, and how far most stand off.
    activity_median: int | None = None
    activity_most: int | None = None
    activity_spread: int | None = None
    active_gpu: str | None = None
    still_median: int | None = None
    still_most: int | None = None
    still_spread: int | None = None
    still_gpu: str | None = None
    power_median: int | None = None
    power_most: int | None = None
    power_spread: int | None = None
    power_gpu: str | None = None
    uneven: int | None = None  # share that ranks wait for whichever has most to do, and how much of it for one of them
    uneven_most: int | None = None
    members: int | None = None  # pods, tasks or replicas within the run, where its scheduler tells them apart
    # What serving stacks say of themselves; shares are of the time in which they said it.
    requests: int | None = None  # answered in the window
    requests_ms: int | None = None  # milliseconds of replicas whose count was read
    running_milli: int | None = None  # requests at once, in thousandths
    answering: int | None = None  # share with any request running
    waiting_milli: int | None = None
    queued: int | None = None  # share with any request waiting
    kv_cache: int | None = None
    kv_full: int | None = None  # share with a full cache and a queue
    slow: int | None = None  # share of the intervals with answers whose first token came later than promised
    replicas: int | None = None  # of the whole service; None where its policy was not evaluated
    needed: int | None = None
    policy: str | None = None

    @property
    def waited(self) -> int:
        """Share in which the GPUs stood still for want of input, if for that: as the run says, else all of it.

        The stand-still bounds the run's word: what GPUs worked through while it waited was no loss.
        """
        return self.still if self.data_wait is None else min(self.data_wait, self.still)

    def as_json(self) -> str:
        """Return the window as JSON, for the store."""
        told = {key: value for key, value in _items(self) if value is not None}
        return orjson.dumps(told, option=orjson.OPT_SORT_KEYS).decode()

    @classmethod
    def from_json(cls, text: str) -> "RunWindow":
        """Read back what as_json wrote; fields that this release does not know are left out."""
        told = orjson.loads(text)
        try:
            return cls(**told)
        except TypeError:
            return cls(**_of_known(cls, told))


def per_gpu_rate(window: RunWindow, kilobytes: int | None) -> int | None:
    """Return kilobytes in a window as kB per GPU-millisecond (= MB/s), or None where unknown."""
    return None if kilobytes is None or window.ms == 0 else kilobytes // window.ms


def share_behind(mean: int, middle: int | None, most: int | None) -> int | None:
    """Return what share of the ranks, permille, is as far off the middle as the outermost, by the mean of all."""
    if middle is None or most is None or most <= middle:
        return None
    return (mean - middle) * 1000 // (most - middle)


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What is known of a run beside its samples."""

    run_id: str
    stage: str
    gpus: int
    nodes: int
    racks: int | None  # None where one of its nodes has no known rack
    sku: str | None = None  # None where it is not one

    @property
    def is_service(self) -> bool:
        """True for what waits for requests by design."""
        return self.stage == "serving"

    @property
    def is_interactive(self) -> bool:
        """True for what waits for a person."""
        return self.stage == "interactive"


@dataclass(slots=True)  # not frozen, as windows are not
class Verdict:
    """What is judged of one run in one window; the booking follows it.

    `input_cause` is None where no cause reached medium confidence; then `is_low` books the loss as unexplained, with
    `input_suspicion` beside it. `starved_permille` of the stand-still are booked to `input_cause`: all of it, or what
    the run itself says that it waited, and then `is_low` books the rest as unexplained. Permilles divide the time
    short of the yardstick; what is left is plain collectives.
    """

    run_id: str
    window_ms: int
    is_low: bool = False
    input_cause: str | None = None
    input_suspicion: str | None = None
    input_confidence: Confidence = "low"
    starved_permille: int = 1000
    is_exchanging: bool = False
    straggler_permille: int = 0
    cross_rack_permille: int = 0
    steady_permille: int = 0  # of the rest: exchanges that recur in every step
    crossing_permille: int = 0  # of the rest as well: what they take longer for lying across racks
    lagging_permille: int = 0  # and of it: waiting for one rank that is behind in every step
    exchange_confidence: Confidence = "medium"
    is_uneven: bool = False  # the rank that is waited for is another one each time
    caused_by: str | None = None
    is_hung: bool = False
    hang_confidence: Confidence = "high"
    spins_for: str | None = None  # of what spins: a collective, for the run's other GPUs, or a hang that lasts longer
    is_underused: bool = False
    underused_cause: str | None = None
    underused_confidence: Confidence = "medium"
    is_service: bool = False
    beyond_policy_permille: int = 0  # of a service's stand-still
    idle_permille: int = 0  # of it: beyond the policy, and without a request for as long as an abandoned GPU
    is_interactive: bool = False
    work: str = "compute"

    def as_told(self) -> dict[str, Any]:
        """Return the fields by name."""
        return dict(_items(self))

    def as_json(self) -> str:
        """Return the verdict as JSON, for the store."""
        return orjson.dumps(self.as_told(), option=orjson.OPT_SORT_KEYS).decode()

    @classmethod
    def from_json(cls, text: str) -> "Verdict":
        """Read back what as_json wrote."""
        return cls(**_of_known(cls, cls.told(text)))

    @staticmethod
    def told(text: str) -> dict[str, Any]:
        """Return the fields that as_json wrote, by name: what takes a fifth of the time of a verdict made of them."""
        fields_told: dict[str, Any] = orjson.loads(text)
        return fields_told


@cache
def _names(cls: Hashable) -> tuple[str, ...]:
    return tuple(field.name for field in fields(cast("type", cls)))


@cache
def _values(cls: Hashable) -> Callable[[object], tuple[Any, ...]]:
    return attrgetter(*_names(cls))


def _items(record: "RunWindow | Verdict") -> Iterable[tuple[str, Any]]:
    """Return names and values; dataclasses.asdict copies deeply, which a week's windows feel."""
    cls = cast("Hashable", type(record))
    return zip(_names(cls), _values(cls)(record), strict=True)


@cache
def _known(cls: Hashable) -> frozenset[str]:
    return frozenset(_names(cls))


def _of_known(cls: type, values: dict[str, Any]) -> dict[str, Any]:
    return {key: values[key] for key in values.keys() & _known(cast("Hashable", cls))}
