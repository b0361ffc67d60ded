"""The process that decodes bodies: python -m collector.pipeline.decoding.decoder BYTES ROWS.

It reads bodies and writes verdicts. It ends with its input, which is when whoever started it has ended, however that
came about.
"""

import signal
import sys
from typing import BinaryIO

import pyarrow as pa

from collector.errors import BatchError
from collector.pipeline.decoding.batch import Batch, decode
from collector.pipeline.decoding.own_word import Host, foreign_part, not_its_own
from collector.pipeline.decoding.verdict import answered, expected


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
    is_fine = not batch.quarantined and (host is None or _is_its_own(host, batch))
    return batch if is_fine else None


def _is_its_own(host: Host, batch: Batch) -> bool:
    return foreign_part(host.node, batch) is None and not not_its_own(host, batch)


def main() -> None:
    """Answer whoever holds the other ends of our input and output."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a signal to the group is for the server, which finishes with our help
    pa.set_cpu_count(1)
    answer_all(sys.stdin.buffer, sys.stdout.buffer, int(sys.argv[1]), int(sys.argv[2]))


if __name__ == "__main__":
    main()
