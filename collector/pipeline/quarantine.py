"""The rows that were put aside, for a person to look at: what they say and why they were not believed.

They are kept in the hot file, in the transaction that brings the batch they came with. They are evidence and no data:
so many and no more are kept, the oldest go first, and every one that is not kept is counted.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collector.pipeline.decoding.batch import Batch
    from collector.store.session import Session

_MAX_ROWS = 10_000
_SPARE = _MAX_ROWS // 10  # beyond which the oldest are dropped, so that not every commit has to
_TEXT: pa.DataType = pa.string()
_INTEGER: pa.DataType = pa.int64()
_COLUMNS = pa.schema(
    {
        "batch": _INTEGER,
        "received_at": _INTEGER,
        "agent": _TEXT,
        "table_name": _TEXT,
        "column_name": _TEXT,
        "reason": _TEXT,
        "content": _TEXT,
    }
)


def keep(session: "Session", numbered: Iterable[tuple[int, "Batch"]], max_rows: int = _MAX_ROWS) -> int:
    """Keep what was put aside of these batches, within the caller's transaction; return how many rows had to go.

    Raises:
        StoreError: the store refused; so does the caller's transaction.
    """
    batches = [(number, batch) for number, batch in numbered if batch.quarantined]
    if not batches:
        return 0
    rows = [
        (number, batch.received_at, batch.header.agent, aside.table, aside.column, aside.reason, aside.content)
        for number, batch in batches
        for aside in batch.asides
    ]
    told_of = sum(sum(batch.quarantined.values()) for _, batch in batches)
    newest = rows[-max_rows:]
    columns = dict(zip(_COLUMNS.names, map(list, zip(*newest, strict=True)), strict=True))
    session.insert("quarantine", pa.table(columns, schema=_COLUMNS))
    return told_of - len(newest) + _drop_oldest(session, max_rows)


def _drop_oldest(session: "Session", max_rows: int) -> int:
    (held,) = session.row("SELECT count(*) FROM quarantine")
    if held <= max_rows + _SPARE:
        return 0
    session.execute(
        "DELETE FROM quarantine WHERE rowid IN (SELECT rowid FROM quarantine ORDER BY batch, rowid LIMIT ?)",
        [held - max_rows],
    )
    return int(held - max_rows)
