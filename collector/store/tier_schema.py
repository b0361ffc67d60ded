"""The tables of the tiers and of their upkeep: made where the samples are, brought up to date by what is missing.

As in the lake there are no migrations: the tables follow from the contract, and columns are only ever added. A store
that nobody keeps up (`gpuledger run`, a file that is only read) has none of them but what the ledger asks for.
"""

from typing import TYPE_CHECKING

from collector.store.missing import add_missing, columns_there
from collector.tier_tables import tier_tables

if TYPE_CHECKING:
    from collector.store.session import OpenStore
# From when on a table still has its rows, each time that some were dropped: the highest counts. What the ledger asks of
# samples that are gone: when and where each GPU was seen, and which runs served. Every store has these three.
EXPIRED: dict[str, tuple[str, ...]] = {
    "retention": (
        "table_name VARCHAR",
        "kept_from BIGINT",
        "dropped_rows BIGINT",
        "reason VARCHAR",
        "recorded_at BIGINT",
    ),
    "gpus_seen": ("gpu_uuid VARCHAR", "node VARCHAR", "parent_uuid VARCHAR", "first_at BIGINT", "last_at BIGINT"),
    "services_seen": (
        "run_id VARCHAR",
        "first_at BIGINT",
        "last_at BIGINT",
        "model_first VARCHAR",
        "model_last VARCHAR",
    ),
}
# Up to which batch of each collector it is known what hours its rows touch, and the newest hour that is rolled up; the
# hours that wait to be; what each job did last, and when it is due.
_UPKEEP: dict[str, tuple[str, ...]] = {
    "tier_marks": ("collector BIGINT", "upto BIGINT"),
    "tier_due": ("hour BIGINT",),
    "upkeep": (
        "job VARCHAR",
        "outcome VARCHAR",
        "said VARCHAR",
        "finished_at BIGINT",
        "succeeded_at BIGINT",
        "due_at BIGINT",
    ),
}


def _declared() -> dict[str, tuple[str, ...]]:
    """Return the definitions of the columns of each table of the tiers and their upkeep."""
    return {**EXPIRED, **tier_tables(), **_UPKEEP}


def samples_schema(store: "OpenStore") -> str:
    """Return the schema that holds the samples: the lake's, or the file's own."""
    if store.lake is not None:
        return "lake.main"
    if store.hot is None:
        raise AssertionError("BUG: a store has a hot file, a lake or both")
    return str(store.hot)


def make_tables(store: "OpenStore") -> None:
    """Make what is missing. Two who do it at once conflict, and the loser tries again later.

    Raises:
        StoreError: the store refused; nothing was made.
    """
    where = samples_schema(store)
    database = where.removesuffix(".main")
    with store.turn, store.session() as session:
        there = columns_there(session, database, "main")
        with session.transaction():
            if "upkeep" in add_missing(session, where, _declared(), there):
                session.execute(f"INSERT INTO {where}.upkeep (job) VALUES ('*')")  # turns.ALL
