"""How many rows a second become durable over loopback, and how long a sender waits: python bench/bench_ingest.py.

A real collector process; one client process with keep-alive connections, each an agent's stream that sends its next
batch when the last was acknowledged. Client and server share this machine's cores, so the figures are a lower bound.
Afterwards the store is opened and counted: a rate of rows that are not there is no rate.
"""

import argparse
import asyncio
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from agent.wire.arrow import columns_of, message
from agent.wire.contract import MIN_READER, SCHEMA_VERSION
from agent.wire.envelope import CONTENT_TYPE, Header, TablePart, seal
from agent.wire.tables import TABLES
from collector.store.database import Store

RESULTS = Path(__file__).parent / "results" / "ingest.json"
ROOT = Path(__file__).parent.parent
STEP = 10_000_000  # microseconds


@dataclass(frozen=True)
class Shape:
    """What every batch of a run holds: rows by table."""

    name: str
    rows: dict[str, int]
    connections: int


SHAPES = (
    Shape("80 GPU rows", {"gpu_samples": 80}, 256),
    Shape("480 GPU rows", {"gpu_samples": 480}, 256),
    Shape(
        "80 GPU rows and five more tables, 290 in all",
        {"gpu_samples": 80, "host_samples": 10, "disk_samples": 20, "network_samples": 20, "process_samples": 80}
        | {"run_samples": 80},
        256,
    ),
)


@dataclass
class Result:
    """What one shape came to."""

    shape: str
    connections: int
    seconds: float
    batches: int
    gpu_rows_per_second: int
    rows_per_second: int
    wait_seconds_p50: float
    wait_seconds_p99: float
    told_to_wait: int
    bytes_per_batch: int
    server_cpu_seconds: float
    server_rss_bytes: int
    store_bytes_per_row: float


def rows_of(table: str, count: int, end: int) -> list[dict[str, Any]]:
    """Return rows that look like a host's of eight GPUs: every column has a value."""
    columns = TABLES[table].columns
    rows = []
    for index in range(count):
        row: dict[str, Any] = {}
        for position, column in enumerate(columns):
            text = f"{column.name}-{index % 8}"
            number = (index * 37 + position * 11) % 100
            row[column.name] = {"string": text, "int64": number, "bool": True, "float64": number / 100}[column.type]
        start = end - STEP * (index // 8 + 1)
        rows.append(row | {"started_at": start, "ended_at": start + STEP})
    return rows


def requests(shape: Shape) -> tuple[Header, list[bytes]]:
    """Return the parts of a batch of this shape, from which every stream and sequence is sealed quickly."""
    now = time.time_ns() // 1000
    parts, messages = [], []
    for table, count in shape.rows.items():
        rows, encoded = message(TABLES[table], columns_of(TABLES[table], rows_of(table, count, now)))
        parts.append(TablePart(table, rows, len(encoded)))
        messages.append(encoded)
    return Header("bench", "stream", 0, now, SCHEMA_VERSION, MIN_READER, tuple(parts)), messages


async def send(port: int, shape: Shape, seconds: float) -> tuple[list[float], int, int]:
    """Send from all connections for a while; return the waits, the count of 429s and the bytes of a batch."""
    header, messages = requests(shape)
    waits: list[float] = []
    busy = 0
    size = 0
    until = time.monotonic() + seconds

    async def one(number: int) -> None:
        nonlocal busy, size
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        sequence = 0
        while time.monotonic() < until:
            fields = asdict(header) | {"stream": f"stream-{number}", "sequence": sequence, "tables": header.tables}
            body = seal(Header(**fields), messages)
            size = len(body)
            head = f"POST /v1/batches HTTP/1.1\r\nHost: bench\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {size}"
            began = time.monotonic()
            while (status := await _answered(reader, writer, f"{head}\r\n\r\n".encode() + body)) == 429:
                busy += 1
                await asyncio.sleep(0.1)
            assert status == 200, status
            waits.append(time.monotonic() - began)
            sequence += 1
        writer.close()

    await asyncio.gather(*(one(number) for number in range(shape.connections)))
    return waits, busy, size


async def _answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> int:
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    await reader.readexactly(length)
    return int(head[9:12])


def measured(shape: Shape, seconds: float) -> Result:
    """Run one shape against a collector of its own."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store.duckdb"
        server, port = _started(store)
        try:
            process = psutil.Process(server.pid)
            cpu = sum(process.cpu_times()[:2])
            began = time.monotonic()
            waits, busy, size = asyncio.run(send(port, shape, seconds))
            took = time.monotonic() - began
            cpu = sum(process.cpu_times()[:2]) - cpu
            rss = process.memory_info().rss
        finally:
            server.terminate()
            server.wait()
        return _result(shape, store, took, sorted(waits), busy, size, cpu, rss)


def _result(
    shape: Shape, path: Path, took: float, waits: list[float], busy: int, size: int, cpu: float, rss: int
) -> Result:
    batches, rows = len(waits), sum(shape.rows.values())
    with Store.open(path, read_only=True) as store, store.session() as session:
        for table, count in shape.rows.items():
            assert session.row(f"SELECT count(*) FROM {table}") == (batches * count,), "acknowledged rows are missing"
        stored = store.size_bytes()
    return Result(
        shape=shape.name,
        connections=shape.connections,
        seconds=round(took, 2),
        batches=batches,
        gpu_rows_per_second=round(batches * shape.rows["gpu_samples"] / took),
        rows_per_second=round(batches * rows / took),
        wait_seconds_p50=round(waits[batches // 2], 3),
        wait_seconds_p99=round(waits[batches * 99 // 100], 3),
        told_to_wait=busy,
        bytes_per_batch=size,
        server_cpu_seconds=round(cpu, 2),
        server_rss_bytes=rss,
        store_bytes_per_row=round(stored / (batches * rows), 1),
    )


def _started(store: Path) -> tuple[subprocess.Popen[bytes], int]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    code = "import sys; from collector.cli import serve; sys.exit(serve(sys.argv[1:]))"
    flags = ["--store", str(store), "--listen", f"127.0.0.1:{port}"]
    server = subprocess.Popen(
        [sys.executable, "-c", code, *flags], cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    while server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.05)
        else:
            return server, port
    raise SystemExit("the collector did not start")


def main() -> None:
    """Measure every shape, print a line of each and write them all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="for each shape")
    options = parser.parse_args()
    results = []
    for shape in SHAPES:
        result = measured(shape, options.seconds)
        results.append(asdict(result))
        print(
            f"{result.shape:<46} {result.gpu_rows_per_second:>8,} GPU rows/s {result.rows_per_second:>8,} rows/s "
            f"wait p50 {result.wait_seconds_p50:.2f} s p99 {result.wait_seconds_p99:.2f} s, "
            f"RSS {result.server_rss_bytes / 2**20:.0f} MiB"
        )
    machine = {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load_average_at_the_end": round(os.getloadavg()[0], 1),
        "date": time.strftime("%Y-%m-%d"),
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"machine": machine, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
