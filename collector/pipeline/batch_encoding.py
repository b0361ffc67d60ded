"""Rows that are made inside the collector, by a poll of a scheduler for one, as a batch like any agent's."""

import hashlib
import time
from collections.abc import Mapping

import pyarrow as pa

from agent.wire.contract import MIN_READER, SCHEMA_VERSION
from agent.wire.envelope import Header, TablePart, seal
from collector.pipeline.decoding.batch import Batch


def encoded_batch(
    *,
    agent: str,
    stream: str,
    sequence: int,
    tables: Mapping[str, pa.RecordBatch],
    body_hash: str | None = None,
    sent_at: int | None = None,
) -> Batch:
    """Return the batch of these rows, whose columns are the contract's, in its order, all of them.

    `sent_at` is when the rows were found, microseconds UTC, where not now. `body_hash` says by what a repetition
    is known, where that is not the rows themselves. The rows must have been checked: what is packed here is not looked
    at again.
    """
    now = time.time_ns() // 1000 if sent_at is None else sent_at
    held = {name: rows for name, rows in tables.items() if rows.num_rows}
    messages = {name: bytes(rows.serialize()) for name, rows in held.items()}
    parts = tuple(TablePart(name, rows.num_rows, len(messages[name])) for name, rows in held.items())
    header = Header(agent, stream, sequence, now, SCHEMA_VERSION, MIN_READER, parts)
    body = seal(header, list(messages.values()))
    return Batch(
        header,
        body_hash or hashlib.sha256(body).hexdigest(),
        now,
        held,
        sum(rows.num_rows for rows in held.values()),
        body=body,
    )
