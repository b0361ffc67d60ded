"""What a store holds, as a number a table: readings are made of nothing else, so the same numbers are the same words.

What tells of the upkeep alone is left out. A number that differs says nothing yet: the readings of that store do.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collector.store.session import Session

# How and when the upkeep, the seal and the passes did their work: of it no reading of a period says anything.
OF_THE_WORK = frozenset(
    {"migrations", "receipts", "upkeep", "tier_marks", "tier_due", "sealed_here", "books_place", "booked", "analysis"}
    | {"analysed_until", "arrivals", "lake_here", "lost_receipts"}
)
COLUMNS_OF_THE_WORK = frozenset({"booked_batch", "booking", "next_booking"})
KEPT_FROM = "SELECT table_name, max(kept_from) AS kept_from FROM {table} GROUP BY table_name"


def contents(session: "Session") -> dict[str, str]:
    """Return how many rows each table has, and the sum of their hashes."""
    tables = session.rows(
        "SELECT database_name, schema_name, table_name, list(column_name ORDER BY column_index) FROM duckdb_columns() "
        "WHERE NOT internal AND database_name NOT IN ('system', 'temp') AND schema_name NOT LIKE '%metadata%' "
        "AND NOT contains(database_name, 'metadata') AND table_name NOT IN (SELECT view_name FROM duckdb_views()) "
        "GROUP BY ALL ORDER BY ALL"
    )
    found = {}
    for database, schema, name, columns in tables:
        if name in OF_THE_WORK:
            continue
        table = f'"{database}"."{schema}"."{name}"'
        kept = ", ".join(f'"{column}"' for column in columns if column not in COLUMNS_OF_THE_WORK)
        rows = KEPT_FROM.format(table=table) if name == "retention" else f"SELECT {kept} FROM {table}"
        count, total = session.row(f"SELECT count(*), coalesce(sum(hash(t)::HUGEINT), 0) FROM ({rows}) t")
        if count:  # one that was never written is as one that is empty
            found[f"{schema}.{name}"] = f"{count} {total}"
    return found
