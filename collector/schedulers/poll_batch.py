"""A poll becomes a batch like any agent's: the same rules, the same writer, a receipt of its own."""

import logging
import uuid
from typing import TYPE_CHECKING

import pyarrow as pa

from agent.wire.tables import TABLES
from collector.pipeline.batch_encoding import encoded_batch
from collector.pipeline.decoding.arrow_messages import arrow_schema
from collector.pipeline.decoding.range_checks import Clock, faults, pc
from collector.schedulers.poll import Poll

if TYPE_CHECKING:
    from collector.pipeline.writer import Writer

_LOG = logging.getLogger(__name__)
_LANDING_SECONDS = (
    120.0  # for the writer's answer; what is late may land after all, and is then told twice, once counted
)


class PollBatches:
    """Lands the polls of one scheduler, each once. `refused` counts rows that could not be believed."""

    def __init__(self, name: str, writer: "Writer") -> None:
        self.refused = 0
        self._name = name
        self._writer = writer
        self._stream = f"{sender(name)}/{uuid.uuid4()}"
        self._sequence = 0

    def land(self, poll: Poll) -> None:
        """Return once the poll's rows are durable.

        Raises:
            BatchError: the writer is full or stopping, or the store refused them.
            TimeoutError: it did not answer in time.
        """
        tables = {name: self._believed(name, poll) for name, rows in poll.tables.items() if rows}
        if not any(rows.num_rows for rows in tables.values()):
            return
        batch = encoded_batch(
            agent=sender(self._name),
            stream=self._stream,
            sequence=self._sequence,
            tables=tables,
            sent_at=poll.found_at,
        )
        self._sequence += 1
        self._writer.submit(batch).result(_LANDING_SECONDS)

    def _believed(self, name: str, poll: Poll) -> pa.RecordBatch:
        """Return the rows that can be true; one that cannot must not keep the others out."""
        table = TABLES[name]
        rows = pa.RecordBatch.from_pylist([dict(row) for row in poll.tables[name]], schema=arrow_schema(table))
        bad = pa.repeat(pa.scalar(False), rows.num_rows)
        for rule, mask in faults(table, rows, Clock(poll.found_at, poll.found_at)):
            bad = pc.or_(bad, mask)
            _LOG.warning("%s: rows of %s left out, since %s: %s", self._name, name, rule.column, rule.says)
        good = rows.filter(pc.invert(bad))
        self.refused += rows.num_rows - good.num_rows
        return good


def sender(name: str) -> str:
    """Return under which name the rows of a scheduler like slurm/alpha are received."""
    return f"scheduler:{name}"
