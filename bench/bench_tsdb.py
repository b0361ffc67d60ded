"""The same readings into us, VictoriaMetrics and Prometheus: python bench/bench_tsdb.py [--minutes 60].

Sixty-four hosts of eight GPUs, a reading a second, nothing repeated: values a second until they are taken (and with us
until they are sealed, from when on they can be asked for), and bytes a value once all is merged. Bodies are made before
the clock starts, sixty readings of one host in each; every host has a connection of its own. One after the other on the
same machine, in one run. A value is a cell that is no key and not null, hence one sample of one series.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import uvloop

from agent.wire.units import DAY_MS, HOUR_MS
from bench.bodies import SECOND, Speaker, speaker, window
from bench.line import Line
from bench.machine import add_record, keep, machine, told
from bench.serving import Watch, collector
from bench.telemetry import Rows, Simulation
from bench.tsdb_bodies import VALUES, json_lines, remote_write
from bench.tsdb_result import Taken, bars, table, taken_of
from bench.tsdb_servers import Prometheus, Server, VictoriaMetrics
from collector.lake.compaction import compact
from collector.store.database import Store

HOSTS = 64
BEATS = 60  # a body
TABLE = "gpu_samples"
SNAPPY = "Content-Encoding: snappy\r\nX-Prometheus-Remote-Write-Version: 0.1.0\r\n"
Maker = Callable[[Speaker, Rows, int, int], bytes]  # who, what, which turn, when it ends


def recorded(hosts: int, minutes: int) -> list[Rows]:
    """Return the readings of so many hosts; each of the sixteen simulated ones tells of several days."""
    simulation, found = Simulation(), []
    for number in range(hosts):
        day, host = divmod(number, len(simulation.hosts))
        start = day % 6 * DAY_MS + 10 * HOUR_MS
        found.append(simulation.tables(simulation.hosts[host], minutes * 60, (TABLE,), start=start)[TABLE])
    return found


def values_of(recordings: Sequence[Rows]) -> int:
    """Return how many values there are."""
    return sum(len(rows.columns[name]) for rows in recordings for name in VALUES if name in rows.columns)


def made(recordings: Sequence[Rows], maker: Maker, ends_at: int) -> list[list[bytes]]:
    """Return the bodies of every host, in their order."""
    turns = len(recordings[0].columns["started_at"]) // recordings[0].per_step // BEATS
    return [
        [maker(speaker(host), rows, turn, ends_at - (turns - 1 - turn) * BEATS * SECOND) for turn in range(turns)]
        for host, rows in enumerate(recordings)
    ]


def ours(who: Speaker, rows: Rows, turn: int, ends_at: int) -> bytes:
    """Return a body as our agent sends it."""
    return window({TABLE: rows}, turn * BEATS, BEATS).body(who, turn, ends_at)


def lines(who: Speaker, rows: Rows, turn: int, ends_at: int) -> bytes:
    """Return a body of JSON lines."""
    return json_lines(who, rows.between(turn * BEATS, (turn + 1) * BEATS), _milliseconds(ends_at))


def written(who: Speaker, rows: Rows, turn: int, ends_at: int) -> bytes:
    """Return a remote write request."""
    return remote_write(who, rows.between(turn * BEATS, (turn + 1) * BEATS), _milliseconds(ends_at))


def _milliseconds(ends_at: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return (ends_at - np.arange(BEATS - 1, -1, -1, dtype=np.int64) * SECOND) // 1000


def push(bodies: Sequence[Sequence[bytes]], line: Callable[[], Line]) -> tuple[float, float]:
    """Send every host's bodies in order, the hosts side by side; return the seconds and our own processor time."""

    async def host(own: Sequence[bytes]) -> None:
        connection = line()
        for body in own:
            while (reply := await connection.post(body)).status in (429, 503):
                await asyncio.sleep(min(1.0, reply.retry_after))
            assert reply.status in (200, 204), f"{reply.status} {reply.text[:300]!r}"
        connection.close()

    async def all_hosts() -> None:
        async with asyncio.TaskGroup() as tasks:
            for own in bodies:
                tasks.create_task(host(own))

    began, cpu = time.monotonic(), sum(os.times()[:2])
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(all_hosts())
    return time.monotonic() - began, sum(os.times()[:2]) - cpu


def into_us(directory: Path, recordings: Sequence[Rows], ends_at: int, settings: dict[str, str]) -> Taken:
    """Let a collector take and seal it, then compact."""
    bodies = made(recordings, ours, ends_at)
    server = collector(directory / "store.duckdb", settings)
    server.start()
    try:
        watch = Watch(server.pid)
        watch.start()
        seconds, cpu = push(bodies, lambda: Line(server.port))
        spent, ending = watch.stop(), time.monotonic()
        server.stop()  # which seals what has arrived, at once
        rest = time.monotonic() - ending
    finally:
        server.kill()
    values, size = values_of(recordings), sum(len(body) for own in bodies for body in own)
    at_rest, remark = _compacted(server.store, ends_at, values)
    return taken_of("gpuledger", values, seconds, rest, size, spent.cores, cpu, max(spent.rss_bytes), at_rest, remark)


def _compacted(path: Path, ends_at: int, values: int) -> tuple[int, str]:
    """Compact as if two days had passed; return the bytes that are then needed, catalogue included, and say of what."""
    with Store.open(path) as store:
        compact(store, time.monotonic() + 3600, ends_at + 2 * DAY_MS * 1000)
        with store.session() as session:
            sizes = dict(session.rows("SELECT table_name, file_size_bytes FROM ducklake_table_info('lake')"))
            counted = ", ".join(f"count({name})" for name in VALUES)
            found = sum(session.row(f"SELECT {counted} FROM lake.main.{TABLE}"))
            assert found == values, f"{found} values are there of {values}"
        assert store.lake is not None
        assert store.lake.file is not None
        catalogue = store.lake.file.stat().st_size
    samples, receipts = sizes[TABLE], sizes.get("receipts", 0)
    total = samples + receipts + catalogue
    return total, f"{samples:,} bytes of samples, {receipts:,} of receipts, {catalogue:,} of catalogue"


def into(server: Server, name: str, line: Callable[[], Line], bodies: Sequence[Sequence[bytes]], values: int) -> Taken:
    """Let another store take it."""
    assert isinstance(server, Prometheus | VictoriaMetrics)
    with server:
        before = server.values()
        watch = Watch(server.pid)
        watch.start()
        seconds, cpu = push(bodies, line)
        spent = watch.stop()
        taken = server.values() - before
        at_rest = server.bytes_at_rest()
    size = sum(len(body) for own in bodies for body in own)
    remark = "" if taken == values else f"it counts {taken:,} values"
    return taken_of(name, values, seconds, 0.0, size, spent.cores, cpu, max(spent.rss_bytes), at_rest, remark)


def main() -> int:
    """Measure, print and keep the figures; 1 where a bar is not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=60, help="of telemetry, a reading a second")
    parser.add_argument("--hosts", type=int, default=HOSTS)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of our collector")
    add_record(parser)
    asked = parser.parse_args()
    settings = dict(pair.split("=", 1) for pair in asked.set)
    about, recordings = machine(), recorded(asked.hosts, asked.minutes)
    values = values_of(recordings)
    ends_at = (time.time_ns() // 1000 - DAY_MS * 1000) // (
        DAY_MS * 1000
    ) * DAY_MS * 1000 + 20 * HOUR_MS * 1000  # before today
    with tempfile.TemporaryDirectory(prefix="gpuledger-bench-") as name:
        directory = Path(name)
        mine = into_us(directory, recordings, ends_at, settings)
        print(table([mine]), flush=True)
        requests = made(recordings, written, ends_at)
        prometheus, victoria = Prometheus(directory / "prometheus"), VictoriaMetrics(directory / "victoria-written")
        others = [
            into(prometheus, "Prometheus, remote write", lambda: _write_line(prometheus), requests, values),
            into(victoria, "VictoriaMetrics, remote write", lambda: _write_line(victoria), requests, values),
        ]
        del requests
        json_server = VictoriaMetrics(directory / "victoria-lines")
        others.append(
            into(
                json_server,
                "VictoriaMetrics, /api/v1/import",
                lambda: Line(json_server.port, "/api/v1/import", "application/json"),
                made(recordings, lines, ends_at),
                values,
            )
        )
    kept = bars(mine, others)
    found = {
        "machine": about,
        "settings": settings,
        "hosts": asked.hosts,
        "minutes": asked.minutes,
        "values": values,
        "results": [asdict(one) for one in (mine, *others)],
        "bars": kept,
    }
    keep("tsdb", found, record=asked.record)
    print(table([mine, *others]))
    return told(kept)


def _write_line(server: Server) -> Line:
    return Line(server.port, "/api/v1/write", "application/x-protobuf", SNAPPY)


if __name__ == "__main__":
    sys.exit(main())
