"""A V100 that waits for its loader, and one that does not: PyTorch's own sample traces through the ledger.

Each recording is some six steps of ResNet-50, a second in windows of 10 ms, repeated in its own sequence for forty
minutes. What is known of the host: without loader workers (num_workers = 0) the trainer itself loads, on one core;
with four there are four, of whose use of a core the trace says nothing. The profiler's "waiting for the loader" is
the truth and goes into no row.
"""

from dataclasses import asdict, dataclass

import numpy as np

from bench.truth.real.booking import Booked, book
from bench.truth.real.checks import Check, at_most, within
from bench.truth.real.files import SECOND, kineto
from bench.truth.real.held import held
from bench.truth.real.sensors import SENSORS, Activity, Row, Times, beats

START = 1_794_225_600 * SECOND  # the traces carry no date; any whole hour would do
MINUTES = 40
WINDOW_US = 10_000
PROCESSES_EVERY = 10 * SECOND  # as the agent reads them by default
STARVED, FED = "num_workers_0_a", "num_workers_4_a"
WORKERS = {STARVED: 0, FED: 4}
NODE, GPU = "v100", "GPU-v100"
SETTINGS = (("averaged", 0.1), ("averaged", 1.0), ("ring", 0.1), ("ring", 1.0))
FED_MOST = 0.05  # input-bound from 5% of the step (TF Profiler)
CLOSE = 0.10  # points: other pauses of the GPU than waiting for the loader are in no word of the profiler's


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the ledger says of one recording through one kind of sensor, beside the profiler; shares of the time."""

    recording: str
    sensor: str
    every_seconds: float
    profiler_waiting: float
    profiler_busy: float
    starved: float
    suspected: float  # unexplained, with input as the named suspicion
    unexplained: float
    confidence: str | None  # of what is starved
    findings: tuple[str, ...]

    @property
    def waiting(self) -> float:
        """Starved, or low without a cause that may be named."""
        return self.starved + self.unexplained


def tables(recording: str, sensor: str, every_seconds: float) -> dict[str, list[Row]]:
    """Return the rows of forty minutes of a recording, as a host with this kind of sensor would have sent them."""
    end = START + MINUTES * 60 * SECOND
    edges = beats(START, end, round(every_seconds * SECOND))
    place: Row = {"node": NODE, "gpu_uuid": GPU}
    activity, copied = _repeated(recording, end)
    rows = SENSORS[sensor](activity, edges)
    bytes_in = np.diff(np.concatenate([[0], np.cumsum(copied)])[(edges - START) // WINDOW_US])
    run_id = f"declared/v100/{recording}"
    return {
        **held(NODE, (GPU,), run_id, "V100-16GB", START, end),
        "gpu_samples": [
            {**place, **row, "pcie_receive_bytes": int(moved)} for row, moved in zip(rows, bytes_in, strict=True)
        ],
        "inventory": [{**place, "started_at": START, "ended_at": end, "sku": "V100-16GB", "memory_bytes": 16 * 2**30}],
        "process_samples": [
            {
                **place,
                "run_id": run_id,
                "pid": 4711,
                "started_at": at,
                "ended_at": at + PROCESSES_EVERY,
                **_known(recording),
            }
            for at in range(START, end, PROCESSES_EVERY)
        ],
    }


def judge(recording: str, sensor: str, every_seconds: float) -> Verdict:
    """Return what the ledger makes of a recording."""
    windows = kineto(recording)
    booked = book([tables(recording, sensor, every_seconds)], bucket_us=600 * SECOND)
    lines = booked.lines
    whole = sum(line.milliseconds for line in lines)
    starved = [line for line in lines if line.state == "starved"]
    return Verdict(
        recording,
        sensor,
        every_seconds,
        sum(window.waiting for window in windows) / len(windows),
        sum(window.busy for window in windows) / len(windows),
        sum(line.milliseconds for line in starved) / whole,
        sum(line.milliseconds for line in lines if line.state == "unexplained" and line.suspicion) / whole,
        sum(line.milliseconds for line in lines if line.state == "unexplained") / whole,
        max((line.confidence for line in starved if line.confidence), default=None),
        _sentences(booked),
    )


def score() -> tuple[list[dict[str, object]], list[Check]]:
    """Return the verdicts of both recordings through every kind of sensor, and the checks."""
    verdicts: list[dict[str, object]] = []
    checks: list[Check] = []
    for sensor, every in SETTINGS:
        poor, good = judge(STARVED, sensor, every), judge(FED, sensor, every)
        verdicts += [asdict(poor), asdict(good)]
        checks += verdict_checks(poor, good)
    return verdicts, checks


def verdict_checks(poor: Verdict, good: Verdict) -> list[Check]:
    """Return what is asked of the two verdicts of one kind of sensor."""
    how = f"kineto, {poor.sensor}, every {poor.every_seconds:g} s"
    named = poor.starved + poor.suspected
    truth = round(poor.profiler_waiting, 3)
    return [
        Check(
            f"{how}: no workers: starved, or input suspected",
            round(named, 4),
            "over 0.05",
            named > FED_MOST,
            asked=True,
        ),
        within(f"{how}: no workers: starved or low, beside the profiler's wait", poor.waiting, truth, CLOSE),
        at_most(
            f"{how}: four workers: starved, or input suspected", good.starved + good.suspected, FED_MOST, asked=True
        ),
        within(
            f"{how}: four workers: starved or low, beside the profiler's wait",
            good.waiting,
            round(good.profiler_waiting, 3),
            CLOSE,
        ),
    ]


def _repeated(recording: str, end: int) -> tuple[Activity, Times]:
    """Return the recording's windows in their own sequence, again and again until the end, and bytes by window."""
    windows = kineto(recording)
    count = (end - START) // WINDOW_US
    order = np.arange(count) % len(windows)
    busy = np.array([window.busy for window in windows])[order]
    copied = np.array([window.copied_bytes for window in windows], dtype=np.int64)[order]
    return Activity(START + np.arange(count + 1, dtype=np.int64) * WINDOW_US, busy), copied


def _known(recording: str) -> Row:
    workers = WORKERS[recording]
    return {"workers": workers, "cpu_seconds": None if workers else PROCESSES_EVERY / SECOND}


def _sentences(booked: Booked) -> tuple[str, ...]:
    return tuple(f"{finding.confidence}: {finding.claim}" for finding in booked.findings)
