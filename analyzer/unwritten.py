"""Which tables of a lake nobody has ever written to: a pass then asks its catalogue for them once.

Each statement that reads a table of a lake asks the catalogue for its columns, files and statistics, over a network in
a fleet. Most sites have no services, no flows or no progress, and a pass reads each of those tables many times.
"""

from typing import TYPE_CHECKING

from agent.wire.tables import TABLES
from collector.store.lake import CATALOGUE
from collector.store.lake_schema import declared

if TYPE_CHECKING:
    from collector.store.session import Session

# Row ids only ever grow: where the next one is none yet, no snapshot has a row.
_WRITTEN = f"""
SELECT t.table_name FROM {CATALOGUE}.ducklake_table t JOIN {CATALOGUE}.ducklake_schema s USING (schema_id)
JOIN {CATALOGUE}.ducklake_table_stats r USING (table_id)
WHERE s.schema_name = 'main' AND t.end_snapshot IS NULL AND r.next_row_id > 0
"""


def hide_unwritten(session: "Session") -> None:
    """Put empty views of this session in the place of the contract's tables into which nobody has ever written a row.

    It is called in the transaction that reads up to which batch a pass goes, after the first that this read of the lake:
    what is written later is of a later batch, and the next pass's. Nothing is done where there is no lake.

    Raises:
        StoreError: the catalogue does not answer.
    """
    (path,) = session.row("SELECT current_setting('search_path')")
    if not path.startswith("lake."):
        return
    written = {table for (table,) in session.rows(_WRITTEN)}
    columns = declared()
    for table in TABLES.keys() - written:
        nulls = ", ".join("NULL::{1} AS {0}".format(*column.split()) for column in columns[table])
        session.execute(f"CREATE OR REPLACE TEMP VIEW {table} AS SELECT {nulls} WHERE false")
