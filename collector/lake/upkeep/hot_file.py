"""The job that keeps the hot file small: receipts expire with the spools that could repeat them; its log is folded in.

What the lake has taken is deleted by the sealer. DuckDB gives deleted space back with a checkpoint: to the file, whose
next rows take it, so that the file stays as large as the most it ever held.
"""

from typing import TYPE_CHECKING

from collector.lake.upkeep.outcome import Outcome
from collector.lake.upkeep.writing import writing
from collector.store.numbering import COLLECTORS

if TYPE_CHECKING:
    from collector.store.database import Store

_BROUGHT = ("import", "prometheus")


def forget_receipts(store: "Store", receipts_before_us: int) -> Outcome:
    """Forget receipts of batches that came before, in the hot file and in the lake, and fold the log in.

    The newest of each collector stays, whatever its age: batches are numbered on from there. So do those of files and
    histories that were brought: the same file counts once, also next year.

    Raises:
        StoreError: the store refused.
    """
    forgotten = 0
    if store.lake is not None:
        forgotten += _forget(store, "lake.main.receipts", receipts_before_us)
    if store.hot is not None:
        unsealed = f" AND batch NOT IN (SELECT batch FROM {store.hot}.arrivals)"
        forgotten += _forget(store, f"{store.hot}.receipts", receipts_before_us, unsealed)
        if not store.checkpoint():
            said = f"{forgotten} receipts forgotten; the log is folded in another time: batches were being written"
            return Outcome(said, forgotten)
    return Outcome(f"{forgotten} receipts forgotten", forgotten)


def _forget(store: "Store", receipts: str, before_us: int, unless: str = "") -> int:
    newest = f"SELECT max(batch) FROM {receipts} GROUP BY batch & {COLLECTORS - 1}"
    brought = " OR ".join(f"starts_with(agent, '{kind}:')" for kind in _BROUGHT)
    old = f"received_at < {before_us} AND batch NOT IN ({newest}) AND NOT ({brought}){unless}"
    with writing(store) as session:
        (count,) = session.row(f"SELECT count(*) FROM {receipts} WHERE {old}")
        if count:
            session.execute(f"DELETE FROM {receipts} WHERE {old}")
    return int(count)
