"""Which stage a run looks like by what it did, judged from sums over its days. It abstains where two stages fit.

Sources: the signatures of algorithms 1.6 and 1.2 (training works the tensor cores, T > 0.3; decoding reads memory,
D > 0.5 with T low; data preparation leaves SM activity under 5% and waits for I/O, PSI over 10%). Durations and
hosts are those of 1.6 as well. Numbers marked "ours" are published nowhere; none was taken from a simulator.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from agent.wire.units import DAY_MS, HOUR_MS
from analyzer.ledger.causes.stages import Stage
from analyzer.states import Confidence
from analyzer.text.words import percent

COMPUTING_TENSOR_PERMILLE = 300  # a healthy training (1.2)
GENERATING_DRAM_PERMILLE = 500  # inference decodes (1.2)
GENERATING_TENSOR_PERMILLE = 100  # "T low": what underused.py calls low too
_PREPARING_ACTIVITY_PERMILLE = 50  # 1.6
_PREPARING_CORES_PERMILLE = 500  # "CPU high": over half of the cores it may use (ours)
_PREPARING_PRESSURE_PERMILLE = 100  # "disk high": PSI io.some over 10% (1.2)
_LEAST_MINUTES = 60  # of measured work, before anything is said of phases (ours)
_MOSTLY_PERMILLE = 800  # ours
_SUSTAINED_PERMILLE = 500  # "sustained" links: in most of its windows (ours)
_LEAST_TURNS = 12  # six generations with their updates (ours)
_EITHER_PHASE_PERMILLE = 200  # of the minutes, each of two phases that alternate (ours)
_LONG_MS = DAY_MS  # pretraining, and what is "hours" below it (1.6)
_SHORT_MS = 4 * HOUR_MS  # "short" (ours)
_FEW_NODES = 2  # fine-tuning (1.6)
_START_MS = 900_000  # how long start_read_bytes was read
_BURST = 3  # times what it read afterwards: as of a checkpoint's burst to storage (checkpoints.sql)
_LEAST_CHECKPOINTS = 3  # "periodic": two intervals (ours)
_WEIGHTS_BYTES = 2_000_000_000  # a model of a billion parameters at 2 bytes each (1.2)
_PAUSES_A_DAY = 3  # and working day, of ten minutes and more (ours)
_OFFICE_PERMILLE = 800  # of its work in working hours (ours)
_OFFICE_HOURS = range(8, 19)  # hours that begin within 8:00 to 19:00, local, Monday to Friday (ours)
_FRIDAY = 4


@dataclass(frozen=True, slots=True)
class Doings:
    """What a run did so far: sums over its hours as in the table `run_doings`, and its size. None is not reported."""

    gpus: int
    nodes: int
    lasted_ms: int
    has_completed: bool  # ended, and by itself
    is_over: bool
    checkpoints: int
    days: int
    measured_ms: int
    busy_ms: int
    office_busy_ms: int
    activity_ms: int
    pauses: int
    phase_minutes: int
    memory_minutes: int
    tensor_minutes: int
    turns: int
    windows: int
    exchange_windows: int
    fabric_windows: int | None = None
    cores_used_ms: int | None = None
    cores_allotted_ms: int | None = None
    told_ms: int | None = None
    pressure_io_ms: int | None = None
    start_read_bytes: int | None = None
    read_bytes: int | None = None


def looks_like(run: Doings) -> Stage | None:
    """Return the stage that a run's telemetry fits, or None where it fits none, or too little was measured."""
    for judge in _JUDGES:
        found = judge(run)
        if found is not None:
            return found
    return None


def office_hours(from_ms: int, until_ms: int, timezone: str) -> list[int]:
    """Return the first milliseconds of those UTC hours in [from_ms, until_ms) that are working hours at the site."""
    zone = ZoneInfo(timezone)
    hours = range(from_ms // HOUR_MS * HOUR_MS, until_ms, HOUR_MS)
    local = [(hour_ms, datetime.fromtimestamp(hour_ms // 1000, UTC).astimezone(zone)) for hour_ms in hours]
    return [hour_ms for hour_ms, there in local if there.weekday() <= _FRIDAY and there.hour in _OFFICE_HOURS]


def _preparing(run: Doings) -> Stage | None:
    """No work on the GPU while cores and disks are."""
    cores, pressure = _permille(run.cores_used_ms, run.cores_allotted_ms), _permille(run.pressure_io_ms, run.told_ms)
    activity = run.activity_ms // max(1, run.measured_ms)
    if run.measured_ms < HOUR_MS or activity >= _PREPARING_ACTIVITY_PERMILLE or cores is None or pressure is None:
        return None
    if cores < _PREPARING_CORES_PERMILLE or pressure < _PREPARING_PRESSURE_PERMILLE:
        return None
    told = f"SM activity {_percent(activity)}, its cores {_percent(cores)} busy, waiting for I/O {_percent(pressure)}"
    return _seen("data preparation", "medium", told)


def _interactive(run: Doings) -> Stage | None:
    """One GPU in bursts with long pauses, in working hours."""
    office = _permille(run.office_busy_ms, run.busy_ms)
    if run.gpus != 1 or office is None or office < _OFFICE_PERMILLE or run.lasted_ms < _SHORT_MS:
        return None
    working_days = max(1, run.days * 5 // 7)
    if run.pauses < _PAUSES_A_DAY * working_days:
        return None
    told = f"one GPU, {run.pauses} pauses of ten minutes and more, {_percent(office)} of its work in working hours"
    return _seen("interactive", "medium" if run.days > 1 else "low", told)


def _aligning(run: Doings) -> Stage | None:
    """Generation and update in turn."""
    generating, updating = (
        _permille(run.memory_minutes, run.phase_minutes),
        _permille(run.tensor_minutes, run.phase_minutes),
    )
    if run.phase_minutes < _LEAST_MINUTES or generating is None or updating is None or run.turns < _LEAST_TURNS:
        return None
    if min(generating, updating) < _EITHER_PHASE_PERMILLE:
        return None
    told = f"generates in {_percent(generating)} of its minutes, updates in {_percent(updating)}, {run.turns} turns"
    return _seen("alignment", "medium", told)


def _serving(run: Doings) -> Stage | None:
    """Decodes, saves nothing, and has no end of its own."""
    generating = _permille(run.memory_minutes, run.phase_minutes)
    if run.phase_minutes < _LEAST_MINUTES or generating is None or generating < _MOSTLY_PERMILLE:
        return None
    if run.checkpoints >= _LEAST_CHECKPOINTS or _sustained(run.fabric_windows, run.windows):
        return None
    is_open = not run.is_over and run.lasted_ms > _LONG_MS
    told = f"decodes in {_percent(generating)} of its minutes, no gradients between hosts, no regular checkpoint"
    return _seen("serving", "medium" if is_open else "low", told)


def _pretraining(run: Doings) -> Stage | None:
    """Many hosts for days, links busy, state saved at intervals. Two hosts for days may as well fine-tune."""
    if run.nodes <= _FEW_NODES or run.lasted_ms <= _LONG_MS or not _sustained(run.exchange_windows, run.windows):
        return None
    busy = _percent(_permille(run.exchange_windows, run.windows) or 0)
    told = f"{run.nodes} hosts for {_days(run.lasted_ms)}, links busy in {busy} of its time"
    if run.checkpoints >= _LEAST_CHECKPOINTS:
        return _seen("pretraining", "medium", f"{told}, {run.checkpoints} checkpoints")
    return _seen("pretraining", "low", f"{told}, no regular checkpoint seen")


def _tuning(run: Doings) -> Stage | None:
    """Weights read first, some hours on few hosts, the tensor cores at work, state saved."""
    if run.nodes > _FEW_NODES or not HOUR_MS <= run.lasted_ms <= _LONG_MS or not run.checkpoints:
        return None
    if not _reads_weights(run) or not _sustained(run.tensor_minutes, run.phase_minutes):
        return None
    read = f"read {(run.start_read_bytes or 0) / 1e9:.0f} GB as it began"
    told = f"{read}, {_hours(run.lasted_ms)} on {_hosts(run.nodes)}, checkpoints"
    return _seen("fine-tuning", "low", told)


def _evaluating(run: Doings) -> Stage | None:
    """Weights read first, short, nothing exchanged or saved. The length of what was cut off says nothing."""
    if not run.has_completed or run.nodes > 1 or run.lasted_ms > _SHORT_MS or run.checkpoints or run.exchange_windows:
        return None
    if not _reads_weights(run) or run.windows == 0:
        return None
    told = f"{_hours(run.lasted_ms)} on one host, weights read, nothing exchanged or saved"
    return _seen("evaluation", "low", told)


# In order: what is hardest to mistake first.
_JUDGES: tuple[Callable[[Doings], Stage | None], ...] = (
    _preparing,
    _aligning,
    _serving,
    _pretraining,
    _interactive,
    _tuning,
    _evaluating,
)


def _reads_weights(run: Doings) -> bool:
    """Say whether it read a model as it began, and far less afterwards: a data set is read all the time."""
    if run.start_read_bytes is None or run.read_bytes is None or run.start_read_bytes < _WEIGHTS_BYTES:
        return False
    later_ms = max(1, run.lasted_ms - _START_MS)
    return run.start_read_bytes * later_ms >= _BURST * max(0, run.read_bytes - run.start_read_bytes) * _START_MS


def _seen(word: str, confidence: Confidence, told: str) -> Stage:
    return Stage(word, confidence, f"by what it did: {told}")


def _sustained(part: int | None, whole: int) -> bool:
    share = _permille(part, whole)
    return share is not None and share >= _SUSTAINED_PERMILLE


def _permille(part: int | None, whole: int | None) -> int | None:
    return None if part is None or not whole else part * 1000 // whole


def _percent(permille: int) -> str:
    return percent(permille // 10, 100, 0)  # rounded down: 100 means all


def _days(milliseconds: int) -> str:
    return f"{milliseconds / DAY_MS:.1f} days"


def _hours(milliseconds: int) -> str:
    return f"{milliseconds / HOUR_MS:.1f} h"


def _hosts(nodes: int) -> str:
    return "one host" if nodes == 1 else f"{nodes} hosts"
