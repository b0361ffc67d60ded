"""What a lake keeps of changed rows goes: older snapshots, their files, the catalogue's statistics."""

from typing import TYPE_CHECKING

from collector.erasure.names import Replacement
from collector.lake.upkeep.catalogue import vacuum
from collector.lake.upkeep.lake_files import flush
from collector.store.lake import CATALOGUE

if TYPE_CHECKING:
    from collector.store.database import Store


def purge(store: "Store", replacement: Replacement) -> int:
    """Rewrite files with changed rows, forget every older snapshot, remove their files; return how many that were.

    Who reads at that moment from an older snapshot gets an error and asks again.

    Raises:
        StoreError: the lake refused; to run it again is safe.
    """
    flush(store)
    with store.turn, store.session() as session:
        session.rows("CALL ducklake_rewrite_data_files('lake', delete_threshold => 0)")
        session.rows("CALL ducklake_expire_snapshots('lake', older_than => now())")
        removed = session.rows("CALL ducklake_cleanup_old_files('lake', cleanup_all => true)")
        with session.transaction():
            # Of a table it only ever widens them; without, the files' own are asked, which are new.
            session.execute(
                f"UPDATE {CATALOGUE}.ducklake_table_column_stats SET min_value = NULL, max_value = NULL "
                "WHERE contains(min_value, $name) OR contains(max_value, $name)",
                {"name": replacement.name},
            )
    return len(removed)


def tidy_catalogue(store: "Store") -> None:
    """Write SQLite's catalogue anew: it overwrites nothing that it deletes. PostgreSQL's VACUUM is PostgreSQL's.

    Raises:
        StoreError: somebody holds the file.
    """
    file = store.lake.file if store.lake is not None else None
    if file is not None:
        vacuum(file, 0)
