"""What an imported fleet owns: nobody declared it, so that every GPU that was seen counts as owned from the first day.

A host whose metrics are missing for a while is then not measured, rather than absent. Where one board took the place of
another, ownership changes hands between them. GPUs that somebody declared to be owned are left alone.
"""

from collections import defaultdict
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa

from agent.wire.tables import OWNERSHIP
from collector.pipeline.chunked_import import chunked_import
from collector.pipeline.decoding.arrow_messages import arrow_schema
from collector.schedulers.poller import Row

if TYPE_CHECKING:
    from collector.store.database import Store
    from collector.store.session import Session

_SEEN = """
WITH index_of AS (
    SELECT gpu_uuid, arg_max(gpu_index, started_at) AS gpu_index
    FROM inventory WHERE gpu_uuid IS NOT NULL GROUP BY gpu_uuid
), seen AS (
    SELECT coalesce(parent_uuid, gpu_uuid) AS gpu_uuid, arg_max(node, started_at) AS node,
        min(started_at) AS first_at, max(ended_at) AS last_at
    FROM gpu_samples GROUP BY ALL
)
SELECT node, gpu_uuid, gpu_index, first_at, last_at FROM seen LEFT JOIN index_of USING (gpu_uuid)
ORDER BY node, gpu_index, first_at, gpu_uuid
"""
_OWNED = "SELECT gpu_uuid, min(owned_from), bool_or(source IS DISTINCT FROM ?) FROM ownership GROUP BY gpu_uuid"


def own(store: "Store", since: int, source: str) -> int:
    """Let every GPU that was seen be owned from `since` (microseconds UTC) on; return how many that is news of."""
    with store.session() as session:
        rows = _rows(session, since, source)
    if rows:
        made = pa.Table.from_pylist(rows, schema=arrow_schema(OWNERSHIP))
        with chunked_import(
            store, agent=f"import:{source}", stream=f"import:{source}/owned/{uuid4()}", body_hash=""
        ) as taking:
            if taking is None:
                raise AssertionError("BUG: a stream that was made just now has been taken")
            taking.add(OWNERSHIP.name, made)
    return len(rows)


def _rows(session: "Session", since: int, source: str) -> list[Row]:
    declared = {uuid: (first, by_others) for uuid, first, by_others in session.rows(_OWNED, [source])}
    slots: dict[tuple[str, int | None], list[tuple[str, int, int]]] = defaultdict(list)
    for node, uuid, index, first_at, last_at in session.rows(_SEEN):
        slots[node, index].append((uuid, first_at, last_at))
    found: list[Row] = []
    for (node, index), boards in slots.items():
        for start, end, uuid in _spans(boards, since, index is not None):
            first, by_others = declared.get(uuid, (None, False))
            if not by_others and (first is None or start < first):
                found.append(
                    {"node": node, "gpu_uuid": uuid, "owned_from": start, "owned_until": end, "source": source}
                )
    return found


def _spans(boards: list[tuple[str, int, int]], since: int, is_slot: bool) -> list[tuple[int, int | None, str]]:
    """Return from when until when each board is owned; of a slot, one after the other as far as they do not overlap."""
    found: list[tuple[int, int | None, str]] = []
    for position, (uuid, first_at, last_at) in enumerate(boards):
        before = [last for _, _, last in boards[:position] if is_slot and last <= first_at]
        after = [first for _, first, _ in boards[position + 1 :] if is_slot and first >= last_at]
        start = max(since, first_at) if before else since
        end = min(after) if after else None
        if end is None or end > start:
            found.append((start, end, uuid))
    return found
