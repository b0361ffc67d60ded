"""Turn real recordings of other people into rows of the contract: what they say, and null for the rest."""

import csv
import gzip
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa

from collector.store.session import Session

Row = dict[str, object]
Tables = dict[str, list[Row]]

DATA = Path(__file__).parents[1] / "data"
MINUTE = timedelta(minutes=1)
GPUS_PER_NODE = 8
WINDOW_US = 10_000  # of the kineto recordings
KINETO_EPOCH = datetime(2026, 11, 9, 12, tzinfo=UTC)  # the traces carry no date; any whole hour would do


def microseconds(moment: datetime) -> int:
    """Return a moment in microseconds UTC."""
    return int(moment.timestamp()) * 1_000_000


def load(session: Session, tables: Tables, batch: int = 1) -> None:
    """Insert rows into a store, as one batch."""
    for name, rows in tables.items():
        session.insert(name, pa.Table.from_pylist([{**row, "batch": batch} for row in rows]))


def helios(cluster: str, gpus: int) -> Tables:
    """Return a month of a virtual cluster: what it owned, and allocations that hold as many GPUs as ran each minute.

    Which GPU a job held is not recorded: a GPU that is taken stays taken for as long as the count allows, the lowest
    number first, and each such stretch is one run. Nothing was measured on the GPUs, so there are no samples.
    """
    counts = list(_running_by_minute(DATA / "helios" / f"{cluster}_per_minute.csv.gz"))
    first, last = counts[0][0], counts[-1][0] + MINUTE
    holdings = sorted(_holdings(counts, last))
    nodes = sorted({_node(cluster, gpu) for gpu in range(gpus)})
    return {
        "ownership": [
            {
                **_gpu(cluster, gpu),
                "owned_from": microseconds(first),
                "owned_until": microseconds(last),
                "source": "trace",
            }
            for gpu in range(gpus)
        ],
        "allocations": [
            {
                **_gpu(cluster, gpu),
                "run_id": f"slurm/{cluster}/{number}",
                "started_at": microseconds(start),
                "ended_at": microseconds(end),
                "scheduler": "slurm",
                "exit_status": "completed",
            }
            for number, (start, gpu, end) in enumerate(holdings)
        ],
        "node_states": [
            {"node": node, "started_at": microseconds(first), "ended_at": microseconds(last), "state": "up"}
            for node in nodes
        ],
    }


def idle_gpu_hours(cluster: str) -> float:
    """Return the trace's own sum of idle GPUs over minutes, in GPU-hours."""
    with gzip.open(DATA / "helios" / f"{cluster}_per_minute.csv.gz", "rt", newline="") as file:
        return sum(int(row["idle_gpu_num"]) for row in csv.DictReader(file)) / 60


def _running_by_minute(path: Path) -> Iterator[tuple[datetime, int]]:
    with gzip.open(path, "rt", newline="") as file:
        for row in csv.DictReader(file):
            yield datetime.fromisoformat(row["time"]).replace(tzinfo=UTC), int(row["running_gpu_num"])


def _holdings(counts: list[tuple[datetime, int]], end: datetime) -> Iterator[tuple[datetime, int, datetime]]:
    """Yield (taken, GPU, given back): GPUs 0 to n - 1 are held in a minute in which n ran."""
    taken: list[datetime] = []
    for minute, running in counts:
        while len(taken) > running:
            yield taken.pop(), len(taken), minute
        while len(taken) < running:
            taken.append(minute)
    while taken:
        yield taken.pop(), len(taken), end


def _node(cluster: str, gpu: int) -> str:
    return f"{cluster}-{gpu // GPUS_PER_NODE}"


def _gpu(cluster: str, gpu: int) -> Row:
    return {"node": _node(cluster, gpu), "gpu_uuid": f"GPU-{cluster}-{gpu:02}"}


def kineto(recording: str) -> Tables:
    """Return a recording of 10 ms windows of one V100: its samples, the run that held it, and that it was owned.

    The share of time that the trainer waited for its loader is the truth of the matter and is left out.
    """
    with (DATA / "kineto" / f"{recording}_10ms.csv").open(newline="") as file:
        windows = list(csv.DictReader(file))
    start = microseconds(KINETO_EPOCH)
    end = start + len(windows) * WINDOW_US
    gpu: Row = {"node": "v100", "gpu_uuid": "GPU-v100"}
    held = {"started_at": start, "ended_at": end}
    # The profiler was switched on in mid-run, so the run did not begin with the recording.
    since = {"started_at": start - 3_600_000_000, "ended_at": end}
    return {
        "gpu_samples": [{**gpu, **_window(start, row)} for row in windows],
        "allocations": [{**gpu, **since, "run_id": f"declared/v100/{recording}", "scheduler": "declared", "rank": 0}],
        "ownership": [{**gpu, "owned_from": start, "owned_until": end, "sku": "V100-16GB", "source": "trace"}],
        "inventory": [{**gpu, **held, "sku": "V100-16GB", "memory_bytes": 16 * 2**30}],
        "node_states": [{"node": "v100", **held, "state": "up"}],
    }


def _window(start: int, row: dict[str, str]) -> Row:
    started_at = start + int(row["t_ms"]) * 1_000
    return {
        "started_at": started_at,
        "ended_at": started_at + WINDOW_US,
        "up": True,
        "utilization_ratio": float(row["gpu_kernel_busy_pct"]) / 100,
        "pcie_receive_bytes": int(row["h2d_bytes_started"]),
    }
