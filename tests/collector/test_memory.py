"""Hundreds of senders at once, slow and fast, cost a collector no more memory than its bounds allow."""

import contextlib
import socket
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from agent.wire.envelope import CONTENT_TYPE
from collector.store.database import Store
from tests.collector.batches import body
from tests.collector.serving import CollectorProcess
from tests.waiting import PATIENCE_SECONDS

SLOW, SLOW_BYTES, BODY_BYTES = 200, 512 * 2**10, 2**20  # 100 MiB begun and never ended
FAST, BATCHES = 8, 10
GROWTH_BYTES = 64 * 2**20  # of which the bounds below are 8 MiB; without them it would be all that was begun
BOUNDS = {"ARRIVING_BYTES": 4 * 2**20, "QUEUE_BYTES": 4 * 2**20, "BODY_BYTES": BODY_BYTES, "BODY_SECONDS": 5}


def _memory(process: int, line: str) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition(f"{line}:")[2].split()[0]) * 1024


def _slow(port: int, ends: Counter[int], begun: threading.Barrier) -> None:
    """Begin a large batch, and never end it."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as line, contextlib.suppress(OSError):
        head = f"POST /v1/batches HTTP/1.1\r\nHost: localhost\r\nContent-Type: {CONTENT_TYPE}\r\n"
        begun.wait(PATIENCE_SECONDS)
        line.sendall(f"{head}Content-Length: {BODY_BYTES}\r\n\r\n".encode() + bytes(SLOW_BYTES))
        answer = line.recv(4096)
        ends[int(answer[9:12]) if answer else 0] += 1


def _fast(collector: CollectorProcess, stream: str) -> None:
    """Send batches as an agent does: each until it is taken."""
    for sequence in range(BATCHES):
        content = body(sequence, stream=stream)
        while (answer := collector.client.post(content)).status != 200:
            assert answer.status in {408, 429}, answer.text  # 408: on a loaded machine it was slow itself
            time.sleep(0.05)  # less than is asked for: the harder the better


def test_memory_is_bounded_and_honest_batches_come_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collector that grows is killed by the kernel, and takes what it had in hand with it."""
    for name, value in BOUNDS.items():
        monkeypatch.setenv(f"GPULEDGER_COLLECTOR_{name}", str(value))
    collector = CollectorProcess(tmp_path / "store.duckdb")
    collector.start()
    before = _memory(collector.pid, "VmRSS")
    ends: Counter[int] = Counter()
    begun = threading.Barrier(SLOW)
    threads = [threading.Thread(target=_slow, args=(collector.client.port, ends, begun)) for _ in range(SLOW)]
    threads += [threading.Thread(target=_fast, args=(collector, f"stream-{number}")) for number in range(FAST)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    grown = _memory(collector.pid, "VmHWM") - before
    assert collector.stop() == 0
    assert set(ends) <= {0, 408, 429}  # 0: the line was closed while it still sent
    assert ends[429] + ends[0] > 0, "nothing was refused; the test shows nothing"
    assert grown < GROWTH_BYTES
    with Store.open(collector.store) as store, store.session() as session:
        assert session.row("SELECT count(*), count(DISTINCT (stream, sequence)) FROM receipts") == (FAST * BATCHES,) * 2
