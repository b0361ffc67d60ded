"""Forget what an earlier tenancy left: batches that were answered, not sealed, and whose stream another has had since.

The agents keep them until they are sealed, and have sent them to the next owner.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from collector.store.numbering import COLLECTOR_BITS

if TYPE_CHECKING:
    from collector.store.session import Session

# Batches are numbered by the clock that dates the leases, so that a number says under which tenancy it was given.
_LEFT = f"""
SELECT r.batch
FROM receipts r JOIN (SELECT unnest(?::VARCHAR[]) AS stream, unnest(?::BIGINT[]) AS since) h USING (stream)
WHERE r.batch > ? AND r.batch <= ? AND (r.batch >> {COLLECTOR_BITS}) < h.since
"""
NEVER = 2**55  # a since that no batch comes after: of streams that are not ours any more


def disown(hot: "Session", since: Mapping[str, int], after: int, upto: int) -> int:
    """Forget of these streams what came before they were ours, between two batches, and return how many it was.

    Raises:
        StoreError: the hot file refused; nothing was forgotten.
    """
    left = [batch for (batch,) in hot.rows(_LEFT, [list(since), list(since.values()), after, upto])]
    if left:
        with hot.transaction():
            for table in ("arrivals", "receipts"):
                hot.execute(f"DELETE FROM {table} WHERE batch IN (SELECT unnest(?::BIGINT[]))", [left])
    return len(left)
