"""CPU time to decode and check a body, and to answer a request around it: python bench/bench_decode.py [--against REV].

In one process and by turns, so that ratios hold on a machine that is busy: microseconds are the least of many rounds.
The door is what a host's own key costs: whose each row is is looked at. With --against the same is measured of
an earlier commit (git archive), before and now side by side.
"""

import argparse
import asyncio
import importlib
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from agent.wire.envelope import CONTENT_TYPE, encode
from agent.wire.tables import TABLES
from bench.machine import ROOT, add_record, keep, machine

if TYPE_CHECKING:
    from collector.pipeline.decoding.batch import Batch

ROUNDS, CALLS = 30, 40
STEP = 10_000_000  # microseconds
SHAPES = {
    "80 GPU rows": {"gpu_samples": 80},
    "480 GPU rows": {"gpu_samples": 480},
    "80 GPU rows and five more tables, 290 in all": {"gpu_samples": 80, "host_samples": 10, "disk_samples": 20}
    | {"network_samples": 20, "process_samples": 80, "run_samples": 80},
    "one beat of 8 GPUs, six tables, 25 rows": {"gpu_samples": 8, "host_samples": 1, "disk_samples": 2}
    | {"network_samples": 2, "process_samples": 8, "run_samples": 4},
}


def main() -> None:
    """Measure each shape, print a line of each and keep them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", metavar="REV", help="measure a commit beside ours, by turns")
    add_record(parser)
    options = parser.parse_args()
    found: dict[str, Any] = {"machine": machine(), "against": options.against, "shapes": {}}
    with _earlier(options.against) as earlier:
        ours = importlib.import_module("collector.pipeline.decoding.batch")
        for name, shape in SHAPES.items():
            body, sent_at = _body(shape)
            calls: dict[str, Callable[[], object]] = {"now": lambda: ours.decode(body, sent_at)}  # noqa: B023 - at once
            calls["door"] = _door(ours.decode(body, sent_at))
            if earlier is not None:
                calls["before"] = lambda: earlier.decode(body, sent_at)  # noqa: B023 - at once
            took = _least(calls) | {"request": asyncio.run(_request(body))}
            found["shapes"][name] = {"bytes": len(body)} | {key: round(value, 1) for key, value in took.items()}
            ratio = f", {took['before'] / took['now']:.1f} times as fast as before" if "before" in took else ""
            share = took["door"] / (took["now"] + took["door"])
            print(f"{name:<46} {took['now']:7.1f} µs a body{ratio}; {took['request']:7.1f} µs a request", end="; ")
            print(f"{took['door']:6.1f} µs at a host's door, {share:.1%} of both")
    keep("decode", found, record=options.record)


def _door(batch: "Batch") -> Callable[[], object]:
    """Return the check of a batch that its host's own key brings, nothing in which is new: ingest.py does so."""
    from collector.pipeline.decoding.own_word import Host, foreign_part, gpus_named, own_part

    host = Host("bench", batch.header.sent_at, frozenset(gpus_named(batch)))

    def checked() -> "Batch":
        assert foreign_part(host.node, batch) is None
        assert host.gpus >= gpus_named(batch)
        return own_part(host, batch)

    assert not checked().quarantined, "an honest batch is what is measured"
    return checked


def _body(shape: dict[str, int]) -> tuple[bytes, int]:
    now = time.time_ns() // 1000
    rows = {table: _rows(table, count, now) for table, count in shape.items()}
    return encode(agent="bench", stream="stream", sequence=0, sent_at=now, tables=rows), now


def _rows(table: str, count: int, end: int) -> list[dict[str, Any]]:
    """Return rows that look like a host's of eight GPUs: every column has a value."""
    rows = []
    for index in range(count):
        row: dict[str, Any] = {}
        for position, column in enumerate(TABLES[table].columns):
            number = (index * 37 + position * 11) % 100
            text = f"{column.name}-{index % 8}"
            row[column.name] = {"string": text, "int64": number, "bool": True, "float64": number / 100}[column.type]
        start = end - STEP * (index // 8 + 1)
        own = {"node": "bench", "told_by": None} if "told_by" in row else {"node": "bench"}
        rows.append(row | own | {"started_at": start, "ended_at": start + STEP})
    return rows


def _least(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return the CPU microseconds of each call, by turns."""
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            began = time.process_time_ns()
            for _ in range(CALLS):
                call()
            least[name] = min(least[name], (time.process_time_ns() - began) / CALLS / 1000)
    return least


async def _request(body: bytes) -> float:
    """Return the CPU microseconds of a request through the ASGI application, whose writer answers at once."""
    from collector.config import CollectorConfig
    from collector.http.ingest import Ingest
    from collector.pipeline.batch_commit import Receipt
    from collector.pipeline.writer import Writer
    from collector.registry import open_registry
    from collector.store.database import Store

    class AtOnce(Writer):
        def submit(self, *_: object) -> "Future[Receipt]":
            done: Future[Receipt] = Future()
            done.set_result(Receipt(1, 1, repeated=False))
            return done

    config = CollectorConfig(agent_batches_per_second=1e9, agent_bytes_per_second=1e15)
    with Store.open(None) as store:
        ingest = Ingest(config, AtOnce(store, config), open_registry(None).homes)
        headers = [(b"content-type", CONTENT_TYPE.encode()), (b"content-length", str(len(body)).encode())]
        scope = {"type": "http", "method": "POST", "path": "/v1/batches", "headers": headers}
        statuses: list[int] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:  # noqa: ANN401 - an ASGI message
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        least = float("inf")
        for _ in range(ROUNDS):
            began = time.process_time_ns()
            for _ in range(CALLS):
                await ingest(scope, receive, send)
            least = min(least, (time.process_time_ns() - began) / CALLS / 1000)
        assert set(statuses) == {200}, set(statuses)
    return least


@contextmanager
def _earlier(commit: str | None) -> Iterator[ModuleType | None]:
    """Load the decoding of an earlier commit beside ours."""
    if commit is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(
            ["git", "archive", commit, "agent", "collector"], cwd=ROOT, capture_output=True, check=True
        )
        with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
            archive.extractall(folder, filter="data")
        yield _loaded(Path(folder))


def _loaded(folder: Path) -> ModuleType:
    ours = {name: module for name, module in sys.modules.items() if name.split(".")[0] in ("agent", "collector")}
    for name in ours:
        del sys.modules[name]
    sys.path.insert(0, str(folder))
    try:
        places = (
            "collector.pipeline.decoding.batch",
            "collector.decoding.batch",
            "collector.decode",
        )  # the newest first
        there = (name for name in places if (folder / name.replace(".", "/")).with_suffix(".py").exists())
        return importlib.import_module(next(there))
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.split(".")[0] in ("agent", "collector")]:
            del sys.modules[name]
        sys.modules.update(ours)


if __name__ == "__main__":
    main()
