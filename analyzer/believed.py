"""What a pass sees of what hosts say of runs: nothing of a run that its scheduler has put elsewhere.

The collector puts aside what is not a host's to tell at all (collector/access/own_word.py). Whether a run that a host
names is one of its own is known only here, where the scheduler's word lies beside it, and may come later. What a host
says of a run of which it is not heard is told of a run of its own, by a name of its own. The store keeps it as it was.
"""

from typing import TYPE_CHECKING

from agent.wire.tables import TABLES
from analyzer.statements import run as run_sql

if TYPE_CHECKING:
    from collector.store.session import Session

JOINING_US = 900_000_000  # the hosts of a run that no scheduler knows tell of it within a quarter of an hour
_NAMED = tuple(name for name, table in TABLES.items() if table.has("told_by") and name != "run_aliases")
# Rows beside one another may each be true and come to more than any device can move: that is unknown, and no error.
_AMOUNT = f"CREATE OR REPLACE TEMP MACRO amount(x) AS CASE WHEN x <= {2**53} THEN x::BIGINT END"
_NAMES = """
CREATE OR REPLACE TEMP VIEW run_aliases AS SELECT * FROM {place}.run_aliases
WHERE told_by IS NULL OR (alias_run_id, run_id, told_by) IN (SELECT (alias_run_id, run_id, node) FROM names_believed)
"""
_RUNS = """
CREATE OR REPLACE TEMP VIEW {table} AS SELECT * REPLACE (
    CASE WHEN told_by IS NULL OR (run_id, told_by) IN (SELECT (run_id, node) FROM heard) THEN run_id
         ELSE 'declared/' || told_by || '/' || replace(run_id, '/', '.') END AS run_id)
FROM {place}.{table}
"""


def show_believed(session: "Session") -> None:
    """Let the session's tables of runs show only what is believed, by views of their names.

    Where no host sends under a key of its own there is nobody to doubt.
    """
    session.execute(_AMOUNT)
    (path,) = session.row("SELECT current_setting('search_path')")
    place = path.partition(",")[0]  # where the tables of the contract are: Store.session()
    (doubted,) = session.row(
        f"SELECT EXISTS (FROM {place}.allocations WHERE told_by IS NOT NULL) "
        f"OR EXISTS (FROM {place}.run_aliases WHERE told_by IS NOT NULL)"
    )
    if doubted:
        run_sql(session, "believed.sql", joining_us=JOINING_US)
        session.execute(_NAMES.format(place=place))
        for table in _NAMED:
            session.execute(_RUNS.format(table=table, place=place))
