"""What a capacity profile says: facts alone, each with its unit; no verdict, no sentence, no policy.

Money is in millionths of the currency, GPU time in milliseconds, moments in microseconds UTC. None is unknown: a price
that nobody said, a figure that was not measured. Gates read this, pages draw it, and a signature covers all of it.
"""

from dataclasses import dataclass
from typing import Literal

SCHEMA = "gpuledger-profile-1"

MeasuredBy = Literal["collector", "run"]  # agents of a site and its ledger, or `gpuledger run` on one host


@dataclass(frozen=True, slots=True)
class Provenance:
    """Who measured and wrote it, with which versions; `site` is the cluster or the host."""

    at_us: int
    by: MeasuredBy
    site: str
    tool_version: str
    rules_version: str
    prices_version: str | None


@dataclass(frozen=True, slots=True)
class StateHours:
    """GPU time of one state and cause of the ledger; `klass` is one of the five classes."""

    klass: str
    state: str
    cause: str | None
    milliseconds: int
    micros: int | None


@dataclass(frozen=True, slots=True)
class Represented:
    """One run that stands for the work that more GPUs are asked for.

    `team` is None where nobody's rule fits it; `booked` is its own part of the profile's GPU time.
    """

    run_id: str
    name: str | None
    stage: str | None
    sku: str | None
    gpus: int
    started_at: int
    ended_at: int | None
    milliseconds: int
    micros: int | None
    team: str | None = None
    booked: tuple[StateHours, ...] = ()


@dataclass(frozen=True, slots=True)
class Distribution:
    """How one signal of the runs' GPUs of one kind is spread over their intervals, weighed by time."""

    signal: str  # a column of the contract: sm_active_ratio, power_watts
    sku: str | None
    p10: float
    p50: float
    p90: float
    highest: float


@dataclass(frozen=True, slots=True)
class Memory:
    """The highest memory use of a GPU of one kind, and what such a GPU has."""

    sku: str | None
    peak_bytes: int
    total_bytes: int | None


@dataclass(frozen=True, slots=True)
class Scale:
    """What the work came to at one size. `efficiency_ratio` is against the smallest size, which has 1."""

    gpus: int
    runs: int
    work_per_second: float
    unit: str  # tokens, steps, samples, requests
    efficiency_ratio: float


@dataclass(frozen=True, slots=True)
class DataPath:
    """How input came. Workers, disk and reads are those of the run that waits for input most. None is not measured."""

    waiting_ratio: float
    limit: str | None  # the cause of the largest wait for input
    loader_workers: int | None
    busiest_worker_ratio: float | None
    disk_busy_ratio: float | None
    input_bytes_per_second: float | None
    pcie_bytes_per_second: float | None


@dataclass(frozen=True, slots=True)
class Communication:
    """What ranks said to each other, in bytes of the whole, and over how many racks the runs lay."""

    racks_max: int | None
    nvlink_bytes: int | None
    network_bytes: int | None
    cross_rack_bytes: int | None
    waiting_ratio: float


@dataclass(frozen=True, slots=True)
class Alternative:
    """A smaller or cheaper GPU, a slice or packing; `tried` by a run of this work, or only by facts."""

    sku: str
    what: str
    tried: bool
    fits: bool | None
    micros_per_gpu_hour: int | None
    why: str


@dataclass(frozen=True, slots=True)
class Spread:
    """A prediction: one in five comes out below P20, one in five above P80."""

    p20: int
    p50: int
    p80: int


@dataclass(frozen=True, slots=True)
class OpenAdvice:
    """A recommendation for these runs that nobody has followed yet.

    `frees` is GPU milliseconds of the profile's period; `speedup_permille` what the same GPUs then do (1530: 1.53x).
    """

    id: str
    title: str
    kind: str
    run_names: tuple[str, ...]
    frees: Spread
    speedup_permille: Spread
    micros_a_week: Spread | None
    paste: str | None  # the one line that matters most


@dataclass(frozen=True, slots=True)
class CheckedChange:
    """A change that was made, what it was predicted to save a week, and what came of it."""

    id: str
    title: str
    predicted_micros: int | None
    realised_micros: int | None
    inside: bool | None  # between P20 and P80


@dataclass(frozen=True, slots=True)
class Holding:
    """What the team has of one kind: held on average over the period, and how much of it idle allocation."""

    sku: str | None
    gpus: float
    idle_gpus: float
    for_this_gpus: float  # of them, for the runs of this profile


@dataclass(frozen=True, slots=True)
class Free:
    """What the fleet has free of one kind: on average, on the lowest day, and drained."""

    sku: str | None
    owned_gpus: int
    mean_gpus: float
    lowest_gpus: int
    lowest_day: str  # ISO date
    drained_gpus: int


@dataclass(frozen=True, slots=True)
class UnitCost:
    """What a unit of work cost in one run."""

    run_id: str
    unit: str
    units: int
    micros: int | None


@dataclass(frozen=True, slots=True)
class Energy:
    """Joules at the GPUs, and with cooling; carbon in grams. Shown beside the price, never added to it."""

    gpu_joules: int
    facility_joules: int | None
    carbon_grams: int | None
    told: str  # "PUE 1.30; 381 g/kWh (Germany, 2023)"


@dataclass(frozen=True, slots=True)
class Record:
    """How good such predictions were so far: checked ones, and those that came out between P20 and P80."""

    checked: int
    inside: int


@dataclass(frozen=True, slots=True)
class CapacityProfile:
    """Everything a request for more GPUs is judged by, of one team over one period."""

    schema: str
    made: Provenance
    currency: str
    timezone: str
    team: str | None
    project: str | None
    since_us: int
    until_us: int
    runs: tuple[Represented, ...]
    booked: tuple[StateHours, ...]
    milliseconds: int
    micros: int | None
    measured_ratio: float
    at_zero_ratio: float | None  # share of measured GPU time in which no kernel ran at all
    distributions: tuple[Distribution, ...]
    memory: tuple[Memory, ...]
    scaling: tuple[Scale, ...]
    scaling_of: str | None  # the name of the runs that the table is of
    knee_gpus: int | None
    data_path: DataPath | None
    communication: Communication | None
    alternatives: tuple[Alternative, ...]
    advice: tuple[OpenAdvice, ...]
    checked: tuple[CheckedChange, ...]
    record: Record
    holdings: tuple[Holding, ...]
    free: tuple[Free, ...]
    unit_costs: tuple[UnitCost, ...]
    energy: Energy | None
    caveats: tuple[str, ...]
    chosen: str = ""  # how the runs were chosen, in words
