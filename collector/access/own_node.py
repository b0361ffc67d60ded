"""An agent's key writes rows of its own host, and of no other."""

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from agent.wire.tables import TABLES
from collector.errors import BatchError

if TYPE_CHECKING:
    from collector.access.roles import Principal
    from collector.decoding.batch import Batch

# run_aliases is of no host: an agent tells there under which names it knows a run.
_PLACED = frozenset(name for name, table in TABLES.items() if any(column.name == "node" for column in table.columns))


def may_write(principal: "Principal | None", batch: "Batch") -> None:
    """Check that a batch holds nothing but what its sender may write.

    Raises:
        BatchError: 403, it is of another host. The agent keeps it: a host that was renamed needs a new key.
    """
    if principal is None or principal.node is None:
        return
    if (what := foreign_part(principal.node, batch)) is not None:
        raise BatchError(
            403, "node", f"the key {principal.id} is of the host {principal.node!r}, and the batch has {what}"
        )


def foreign_part(node: str, batch: "Batch") -> str | None:
    """Return what of a batch is of another host than this; None where all is of it."""
    if batch.header.agent != node:
        return f"the agent of {batch.header.agent!r}"
    sought = pa.scalar(node)
    for name, rows in batch.tables.items():
        if name in _PLACED and not _all_of(rows, sought):
            return f"rows of {name} that are of another host"
    return None


def _all_of(rows: pa.RecordBatch, node: "pa.StringScalar") -> bool:
    same = pc.equal(rows.column("node"), node)
    return bool(same.true_count == rows.num_rows)
