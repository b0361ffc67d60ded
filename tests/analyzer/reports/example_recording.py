"""Recordings as `gpuledger run` leaves them: four H100 whose loader workers are, or are not, the limit."""

from pathlib import Path
from typing import Any

from agent.source import Row
from agent.wire.envelope import encode
from agent.wire.recording import VERSION, RecordingEnd, RecordingHeader, RecordingWriter

RUN = "declared/box/7c9e"
START = 1_794_400_000_000_000
SECOND = 1_000_000
BEAT = 5 * SECOND
GPUS = 4


def write_recording(
    path: Path,
    minutes: int,
    waiting: bool,
    *,
    ended: bool = True,
    gpus: int = GPUS,
    unused: int = 0,
    says: Row | None = None,
    command: str = "python train.py",
    **told: Any,
) -> Path:
    """Write a recording of so many minutes; a waiting run stands still for two of every five beats.

    The last `unused` of its GPUs are never touched. `says` is what the run tells of itself,
    `told` what its watcher does at the end.
    """
    end = START + minutes * 60 * SECOND
    no_gpu = "" if gpus else "libnvidia-ml.so.1 is not installed"
    header = RecordingHeader(VERSION, RUN, "box", command, START, gpus, no_gpu, 5.0, 5.0)
    with path.open("w", encoding="utf-8") as file:
        writer = RecordingWriter(file, header)
        writer.batch(_batch(1, end, {"inventory": _inventory(gpus), "allocations": _allocations(gpus, None)}))
        writer.batch(_batch(2, end, _samples(minutes, waiting, gpus, unused)))
        if says is not None:
            writer.batch(_batch(4, end, {"progress": [{**_interval(START, SECOND), "run_id": RUN, **says}]}))
        if ended:
            writer.batch(_batch(3, end, {"allocations": _allocations(gpus, end)}))
            writer.end(RecordingEnd(end, 0, 900.0, 2**30, 0.012 * minutes * 60, 46_000_000, **told))
    return path


def _batch(sequence: int, sent_at: int, tables: dict[str, list[Row]]) -> bytes:
    stream = "5e9f8f8e-0000-4000-8000-000000000001"
    return encode(agent="box", stream=stream, sequence=sequence, sent_at=sent_at, tables=tables)


def _interval(start: int, length: int) -> Row:
    return {"node": "box", "started_at": start, "ended_at": start + length}


def _inventory(gpus: int) -> list[Row]:
    host: Row = {**_interval(START, SECOND), "cpu_cores": 64}
    boards: list[Row] = [
        {**_interval(START, SECOND), "gpu_uuid": f"GPU-{n}", "gpu_index": n, "sku": "H100-80GB"} for n in range(gpus)
    ]
    return [host, *boards]


def _allocations(gpus: int, ended_at: int | None) -> list[Row]:
    return [
        {
            "node": "box",
            "submitted_at": START,
            "started_at": START,
            "ended_at": ended_at,
            "run_id": RUN,
            "gpu_uuid": f"GPU-{n}" if gpus else None,
            "rank": n,
            "scheduler": "declared",
            "name": "python train.py",
            "exit_status": "completed" if ended_at else None,
        }
        for n in range(max(1, gpus))
    ]


def _samples(minutes: int, waiting: bool, gpus: int, unused: int) -> dict[str, list[Row]]:
    boards: list[Row] = []
    hosts: list[Row] = []
    disks: list[Row] = []
    processes: list[Row] = []
    for beat in range(minutes * 60 * SECOND // BEAT):
        when = _interval(START + beat * BEAT, BEAT)
        stalled = waiting and beat % 5 >= 3
        working = gpus - unused
        boards += [{**when, "gpu_uuid": f"GPU-{n}", **_board(stalled)} for n in range(working)]
        boards += [{**when, "gpu_uuid": f"GPU-{n}", **_UNUSED} for n in range(working, gpus)]
        hosts.append({**when, "cpu_busy_ratio": 0.19, "cpu_iowait_ratio": 0.0, "pressure_io_some_ratio": 0.0})
        moved = 4_150_000_000 if not stalled else 400_000_000
        disks.append({**when, "device": "nvme0n1", "mount_kind": "block", "read_bytes": moved, "busy_ratio": 0.04})
        for n in range(working):
            busiest = 0.99 if waiting else 0.35
            processes.append(
                {
                    **when,
                    "run_id": RUN,
                    "gpu_uuid": f"GPU-{n}",
                    "pid": 100 + n,
                    "workers": 2,
                    "workers_busiest_cpu_ratio": busiest,
                    "workers_waiting_ratio": 0.0,
                    "cpu_seconds": 2 * busiest * 5,
                    "memory_used_bytes": 60 * 2**30,
                }
            )
    return {"gpu_samples": boards, "host_samples": hosts, "disk_samples": disks, "process_samples": processes}


_UNUSED: Row = {
    "up": True,
    "utilization_ratio": 0.0,
    "utilization_zero_ratio": 1.0,
    "sm_active_ratio": 0.0,
    "memory_used_bytes": 3 * 2**20,
    "power_watts": 70.0,
}


def _board(stalled: bool) -> Row:
    return {
        "up": True,
        "utilization_ratio": 0.0 if stalled else 0.97,
        "utilization_zero_ratio": 1.0 if stalled else 0.02,
        "sm_active_ratio": 0.0 if stalled else 0.9,
        "tensor_active_ratio": 0.0 if stalled else 0.45,
        "dram_active_ratio": 0.0 if stalled else 0.5,
        "memory_used_bytes": 60 * 2**30,
        "pcie_receive_bytes": 20_000_000 if stalled else 1_500_000_000,
        "power_watts": 130.0 if stalled else 620.0,
        "sm_clock_hertz": 1.98e9,
        "sm_clock_reference_hertz": 1.98e9,
    }
