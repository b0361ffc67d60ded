"""Which tables of a lake nobody has ever written to: a pass then asks its catalogue for them once.

Each statement that reads a table of a lake asks the catalogue for its columns, files and statistics, over a network in
a fleet. Most sites have no services, no flows or no progress, and a pass reads each of those tables many times.
"""

from typing import TYPE_CHECKING

from agent.wire.tables import TABLES
from collector.store.lake import tables_with_rows
from collector.store.schemas import declared

if TYPE_CHECKING:
    from collector.store.session import Session


def hide_unwritten(session: "Session") -> None:
    """Put empty views of this session in the place of the contract's tables into which nobody has ever written a row.

    It is called in the transaction that reads up to which batch a pass goes, after that has read of the lake: what is
    written later is of a later batch, and the next pass's. Nothing is done where there is no lake.

    Raises:
        StoreError: the catalogue does not answer.
    """
    (path,) = session.row("SELECT current_setting('search_path')")
    if not path.startswith("lake."):
        return
    columns = declared()
    for table in TABLES.keys() - tables_with_rows(session, "main"):
        nulls = ", ".join("NULL::{1} AS {0}".format(*column.split()) for column in columns[table])
        session.execute(f"CREATE OR REPLACE TEMP VIEW {table} AS SELECT {nulls} WHERE false")
