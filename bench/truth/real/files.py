"""The recordings as they lie in tests/data: what was measured apart from what was published of it."""

import csv
import gzip
import json
import lzma
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

DATA = Path(__file__).parents[3] / "tests" / "data"
STORAGE = DATA / "mlperf_storage"
HPE = "hpe_unet3d_h100_run1"
SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class KinetoWindow:
    """Ten milliseconds of a profiled V100. `waiting` is the profiler's word, which no sensor has."""

    busy: float
    copied_bytes: int
    waiting: float


@cache
def kineto(recording: str) -> tuple[KinetoWindow, ...]:
    """Return the windows of a recording, in order: "num_workers_0_a" or "num_workers_4_a"."""
    with (DATA / "kineto" / f"{recording}_10ms.csv").open(newline="") as file:
        return tuple(
            KinetoWindow(
                float(row["gpu_kernel_busy_pct"]) / 100,
                int(row["h2d_bytes_started"]),
                float(row["dataloader_wait_pct"]) / 100,
            )
            for row in csv.DictReader(file)
        )


@dataclass(frozen=True, slots=True)
class RankEpoch:
    """One rank's steps in one epoch, microseconds: the wait for input, and the rest of the step's wall time."""

    rank: int
    host: str
    epoch: int
    load: tuple[int, ...]
    rest: tuple[int, ...]


@cache
def hpe_steps() -> tuple[RankEpoch, ...]:
    """Return the 42,825 steps of the run, by rank and epoch."""
    return steps_in(STORAGE / f"{HPE}_steps.csv.xz")


def steps_in(path: Path) -> tuple[RankEpoch, ...]:
    """Return the steps of a file that tests/data/mlperf_storage/make.py wrote."""
    with lzma.open(path, "rt", newline="") as file:
        return tuple(
            RankEpoch(
                int(row["rank"]),
                row["host"],
                int(row["epoch"]),
                tuple(map(int, row["load_us"].split())),
                tuple(map(int, row["rest_us"].split())),
            )
            for row in csv.DictReader(file)
        )


@dataclass(frozen=True, slots=True)
class HpeRun:
    """What the submitter's own files say of the run. Times are microseconds; blocks are (start, end) by epoch."""

    started_at: int
    ended_at: int
    blocks: tuple[tuple[int, int], ...]
    accelerator_use: tuple[float, ...]  # published, percent, by epoch


@cache
def hpe_run() -> HpeRun:
    """Return the times of the run and of its epochs, and the published accelerator utilization."""
    summary = json.loads((STORAGE / f"{HPE}_summary.json").read_text())
    epochs = json.loads((STORAGE / f"{HPE}_per_epoch_stats.json").read_text())
    blocks = [epochs[number]["block1"] for number in sorted(epochs, key=int)]
    return HpeRun(
        _microseconds(summary["start"]),
        _microseconds(epochs[max(epochs, key=int)]["end"]),
        tuple((_microseconds(block["start"]), _microseconds(block["end"])) for block in blocks),
        tuple(summary["metric"]["train_au_percentage"]),
    )


@dataclass(frozen=True, slots=True)
class Submission:
    """One run of a submitter: its published accelerator utilization in percent, by epoch, and what it read."""

    name: str
    workload: str
    accelerator: str
    hosts: int
    bytes_per_second: float
    accelerator_use: tuple[float, ...]


@cache
def submissions() -> tuple[Submission, ...]:
    """Return the runs of the six submitters, in the file's order."""
    with gzip.open(STORAGE / "au_by_epoch.csv.gz", "rt", newline="") as file:
        rows: dict[str, list[dict[str, str]]] = {}
        for row in csv.DictReader(file):
            rows.setdefault(row["source_path"], []).append(row)
    return tuple(_submission(path, sorted(epochs, key=lambda row: int(row["epoch"]))) for path, epochs in rows.items())


@dataclass(frozen=True, slots=True)
class SerenCurve:
    """A published distribution: ascending values, and the percent of samples at or below each."""

    values: tuple[float, ...]
    percents: tuple[float, ...]


@cache
def seren() -> dict[str, SerenCurve]:
    """Return the curves of cluster Seren, by the metric's name in the files."""
    found: dict[str, list[tuple[float, float]]] = {}
    for name in ("gpu_util_mem_sm", "gpu_power", "cpu_mem", "ib_send_recv"):
        with gzip.open(DATA / "acme_seren" / f"{name}.csv.gz", "rt", newline="") as file:
            for row in csv.DictReader(file):
                found.setdefault(row["metric"], []).append((float(row["value"]), float(row["cdf_pct"])))
    return {
        name: SerenCurve(tuple(value for value, _ in points), tuple(percent for _, percent in points))
        for name, points in found.items()
    }


def _submission(path: str, epochs: list[dict[str, str]]) -> Submission:
    first = epochs[0]
    return Submission(
        path.removeprefix("Closed/").removesuffix("/summary.json"),
        first["workload"],
        first["accelerator"],
        int(first["num_hosts"]),
        float(first["run_mean_io_MB_s"]) * 1e6,
        tuple(float(row["au_pct"]) for row in epochs),
    )


def _microseconds(text: str) -> int:
    """Return a time that carries no zone, read as UTC."""
    moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
    return int(moment.timestamp()) * SECOND + moment.microsecond
