"""The process that decodes bodies: python -m collector.pipeline.decoding.decoder BYTES ROWS.

It reads bodies and writes verdicts. It ends with its input, which is when whoever started it has ended, however that
came about. A question is a line and the bodies behind it, an answer is a line. Only what is found without fault is told
of in full. Of anything else the answer is null, and whoever asked looks at it with the same code: what is wrong with a
batch is told, and kept, in one place.
"""

import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

from agent.wire.envelope import Header, TablePart
from collector.errors import BatchError
from collector.pipeline.decoding.batch import Batch, decode
from collector.pipeline.decoding.own_word import Host, foreign_part, not_its_own


@dataclass(frozen=True, slots=True)
class Question:
    """A body that arrived (microseconds UTC), and the host whose own key its sender shows; None for others."""

    body: bytes
    received_at: int
    host: Host | None = None


def request_bodies(questions: Sequence[Question]) -> bytes:
    """Return the line and the bodies."""
    told = [(len(question.body), question.received_at, _host_told(question.host)) for question in questions]
    return b"".join((_line(told), *(question.body for question in questions)))


def expected(line: bytes) -> list[tuple[int, int, Host | None]]:
    """Return of each body that follows a line its length, when it arrived and the host that it may be of."""
    return [(size, received_at, _host(host)) for size, received_at, host in json.loads(line)]


def answered(batches: Sequence[Batch | None]) -> bytes:
    """Return the line that tells of batches in the order of their bodies."""
    return _line([batch and _told(batch) for batch in batches])


def understood(line: bytes, questions: Sequence[Question]) -> list[Batch | None]:
    """Return the batches of an answer, without their tables."""
    return [told and _batch(told, question) for told, question in zip(json.loads(line), questions, strict=True)]


def _host_told(host: Host | None) -> list[object] | None:
    return None if host is None else [host.node, host.first_sent_at, sorted(host.gpus)]


def _host(told: Any) -> Host | None:  # noqa: ANN401 - what JSON holds
    return told and Host(told[0], told[1], frozenset(told[2]))


def _told(batch: Batch) -> list[object]:
    header = batch.header
    parts = [(part.name, part.rows, part.bytes) for part in header.tables]
    who = (header.agent, header.stream, header.sequence, header.sent_at, header.schema_version, header.min_reader)
    return [*who, parts, batch.body_hash, batch.row_count, batch.ignored_columns, batch.ignored_tables]


def _batch(told: Any, question: Question) -> Batch:  # noqa: ANN401 - what JSON holds
    *who, parts, body_hash, row_count, ignored_columns, ignored_tables = told
    agent, stream, sequence, sent_at, schema_version, min_reader = who
    tables = tuple(TablePart(*part) for part in parts)
    return Batch(
        header=Header(agent, stream, sequence, sent_at, schema_version, min_reader, tables),
        body_hash=body_hash,
        received_at=question.received_at,
        tables={},
        row_count=row_count,
        ignored_columns=ignored_columns,
        ignored_tables=ignored_tables,
        body=question.body,
        told_by=question.host.node if question.host else None,
    )


def _line(told: object) -> bytes:
    return json.dumps(told, separators=(",", ":")).encode() + b"\n"


def answer_all(questions: BinaryIO, answers: BinaryIO, max_bytes: int, max_rows: int) -> None:
    """Answer until there are no more questions."""
    while line := questions.readline():
        bodies = [(questions.read(size), received_at, host) for size, received_at, host in expected(line)]
        answers.write(answered([_found(*each, max_bytes, max_rows) for each in bodies]))
        answers.flush()


def _found(body: bytes, received_at: int, host: Host | None, max_bytes: int, max_rows: int) -> Batch | None:
    """Return the batch if there is nothing to say against it."""
    try:
        batch = decode(body, received_at, max_bytes, max_rows)
    except BatchError:
        return None
    is_own = host is None or (foreign_part(host.node, batch) is None and not not_its_own(host, batch))
    return batch if is_own and not batch.quarantined else None


def main() -> None:
    """Answer whoever holds the other ends of our input and output."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a signal to the group is for the server, which finishes with our help
    pa.set_cpu_count(1)
    answer_all(sys.stdin.buffer, sys.stdout.buffer, int(sys.argv[1]), int(sys.argv[2]))


if __name__ == "__main__":
    main()
