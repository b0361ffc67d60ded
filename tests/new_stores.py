"""New stores of tests: they get in one script the tables that the migrations make, which takes a third of the time.

The script is what a store says of itself that the migrations have made, so that it is theirs; that nothing is lost on
the way is held by tests/collector/test_schema.py. A store that has any table is brought up to date by the migrations.
"""

from collections.abc import Callable
from functools import cache

from collector.store.database import Store
from collector.store.schemas import migrate
from collector.store.session import Session, literal

_TABLES = "SELECT sql FROM duckdb_tables() WHERE database_name = 'memory' ORDER BY table_oid"
_DONE = "SELECT number, file FROM migrations ORDER BY number"
_HAS_TABLES = "SELECT 1 FROM duckdb_tables() LIMIT 1"


@cache
def _script() -> str:
    """Return the script; the store that it is read of is made by the migrations."""
    with Store.open(None) as store, store.session() as session:
        tables = [sql for (sql,) in session.rows(_TABLES)]
        done = ", ".join(f"({number}, {literal(file)})" for number, file in session.rows(_DONE))
    return "\n".join([*tables, f"INSERT INTO migrations VALUES {done}"])


def made_at_once() -> Callable[[Session], None]:
    """Return what brings a store up to date in place of `migrate`."""
    script = _script()

    def bring_up_to_date(session: Session) -> None:
        if session.rows(_HAS_TABLES):
            migrate(session)
            return
        with session.transaction():
            session.execute(script)

    return bring_up_to_date
