"""Send the simulated fleet to a collector: real envelopes over real HTTP, several connections at once."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from queue import SimpleQueue

import nanoarrow as na
import numpy as np

from agent.connection import Connection, address, pause_seconds
from agent.errors import AgentError
from agent.wire.arrow import ColumnValues, Masked
from agent.wire.envelope import CONTENT_TYPE, encode_columns
from simulator.batches import Batch
from simulator.columns import Column

_CONNECTIONS = 16  # commits are shared by what is in flight: with 4 the demo took half as long again
_IN_FLIGHT = 3 * _CONNECTIONS  # batches encoded and not yet answered: what bounds our memory
_TIMEOUT_SECONDS = 60.0
_ANSWER_BYTES = 64 * 2**10
_TRIES = 8
_FIRST_WAIT_SECONDS = 0.2
_LONGEST_WAIT_SECONDS = 10.0


class DeliveryError(AgentError):
    """The collector cannot be reached or refuses the demo's batches."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """What was sent: batches, rows of gpu_samples, bytes on the wire and tries beyond the first."""

    batches: int
    gpu_rows: int
    bytes: int
    retries: int


@dataclass(slots=True)
class _Lines:
    """Open connections, handed from batch to batch."""

    url: str
    idle: "SimpleQueue[Connection]" = field(default_factory=SimpleQueue)

    def post(self, body: bytes) -> tuple[int, str, float | None]:
        """Post one body; return the status, the answer's start and what Retry-After asks for."""
        line = self.idle.get() if not self.idle.empty() else Connection(self.url, _TIMEOUT_SECONDS)
        path = f"{address(self.url).path.rstrip('/')}/v1/batches"
        try:
            answer = line.reply("POST", path, body, {"Content-Type": CONTENT_TYPE}, most_bytes=_ANSWER_BYTES)
        finally:
            self.idle.put(line)
        asked = answer.headers.get("Retry-After", "")
        text = answer.body.decode(errors="replace")
        return answer.status, text[:300], float(asked) if asked.isdigit() else None

    def close(self) -> None:
        """Close every connection."""
        while not self.idle.empty():
            self.idle.get().close()


def encode_batch(batch: Batch) -> bytes:
    """Return a batch as it travels."""
    tables = {
        name: {column: _values(values) for column, values in columns.items()} for name, columns in batch.tables.items()
    }
    return encode_columns(
        agent=batch.agent, stream=batch.stream, sequence=batch.sequence, sent_at=batch.sent_at, tables=tables
    )


def send(url: str, batches: Iterator[Batch], done: Callable[[int], None] = lambda _: None) -> Delivered:
    """Send every batch, in order of each agent as far as it matters to nobody; call `done` with how many are through.

    Raises:
        DeliveryError: the collector refuses a batch, or did not take it after several tries.
    """
    lines = _Lines(url)
    sent: list[tuple[int, int]] = []
    rows = 0
    waiting: set[Future[tuple[int, int]]] = set()
    try:
        with ThreadPoolExecutor(_CONNECTIONS, "send") as pool:
            for batch in batches:
                rows += batch.rows
                waiting.add(pool.submit(_deliver, lines, encode_batch(batch)))
                if len(waiting) >= _IN_FLIGHT:
                    finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                    sent += [future.result() for future in finished]
                    done(len(sent))
            sent += [future.result() for future in waiting]
    finally:
        lines.close()
    done(len(sent))
    return Delivered(len(sent), rows, sum(size for size, _ in sent), sum(again for _, again in sent))


def _values(values: Column) -> ColumnValues:
    if isinstance(values, list) and None in values:
        return _text(values)
    if not isinstance(values, np.ma.MaskedArray):
        return values
    valid = np.packbits(~np.ma.getmaskarray(values), bitorder="little")
    return Masked(np.ascontiguousarray(values.data), valid)


def _text(values: list[str | None]) -> ColumnValues:
    """Return text with nulls from buffers: nanoarrow leaves the padding bits of a list's bitmap to chance."""
    valid = np.packbits([value is not None for value in values], bitorder="little")
    parts = [b"" if value is None else value.encode() for value in values]
    ends = np.cumsum([0, *map(len, parts)], dtype=np.int32)
    return na.c_array_from_buffers(na.string(), len(values), [valid, ends, b"".join(parts)])


def _deliver(lines: _Lines, body: bytes) -> tuple[int, int]:
    """Deliver one body; return its bytes and the tries beyond the first."""
    trouble = ""
    for again in range(_TRIES):
        asked = None
        try:
            status, text, asked = lines.post(body)
        except OSError as error:
            trouble = f"{type(error).__name__}: {error}"
        else:
            if status < 300:
                return len(body), again
            trouble = f"{status} {text}"
            if status != 429 and status < 500:
                raise DeliveryError(f"the collector at {lines.url} refused a batch: {trouble}")
        if again < _TRIES - 1:
            pause = pause_seconds(again, _FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS)
            time.sleep(min(asked or pause, _LONGEST_WAIT_SECONDS))
    raise DeliveryError(f"the collector at {lines.url} did not accept a batch after {_TRIES} tries: {trouble}")
