"""One large batch in pieces, as files and histories are brought: all of it lands with its receipt, or nothing.

It goes straight to where readers look, the lake if there is one; a body would have to be held as a whole.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from agent.wire.contract import SCHEMA_VERSION
from collector.pipeline.receipts import ReceiptRow, as_table
from collector.store.numbering import BatchNumbers
from collector.store.seal_mark import FIRST_COLLECTOR

if TYPE_CHECKING:
    from collector.store.database import Store
    from collector.store.session import Session


class ChunkedImport:
    """A batch that comes in pieces."""

    def __init__(self, session: "Session", place: str, number: int) -> None:
        self._session = session
        self._place = place
        self._number = number
        self.row_count = 0

    def add(self, table: str, rows: pa.Table) -> None:
        """Append rows to a table of the contract."""
        numbers = pa.chunked_array([pa.repeat(pa.scalar(self._number, pa.int64()), rows.num_rows)])
        self._session.insert(f"{self._place}.{table}", rows.append_column("batch", numbers))
        self.row_count += rows.num_rows


@contextmanager
def chunked_import(
    store: "Store", *, agent: str, stream: str, body_hash: str, collector: int = FIRST_COLLECTOR
) -> Iterator[ChunkedImport | None]:
    """Take one batch in pieces, of any size, in one transaction; None where the store has it already.

    Raises:
        StoreError: nothing of it was stored.
    """
    place = "lake.main" if store.lake is not None else str(store.hot)
    with store.turn, store.session() as session:
        if session.rows("SELECT 1 FROM receipts WHERE stream = ? LIMIT 1", [stream]):
            yield None
            return
        (last,) = session.row("SELECT coalesce(max(batch), 0) FROM receipts")
        (number,) = BatchNumbers(collector, last).next(1)
        with session.transaction():
            taking = ChunkedImport(session, place, number)
            yield taking
            now = time.time_ns() // 1000
            row = ReceiptRow(number, agent, stream, 0, body_hash, now, now, SCHEMA_VERSION, taking.row_count)
            session.insert(f"{place}.receipts", as_table([row]))
