"""What the contract says of everything that is stored, asked of a store in SQL: not by the code that let it in."""

from agent.wire.contract import Column, Table
from agent.wire.tables import TABLES
from collector.store.session import Session

LONGEST_TEXT = 4096  # bytes
EARLIEST = 1_420_070_400_000_000  # 2015
AHEAD = 2 * 86_400_000_000  # of our clock: a sender's may be a day ahead, and a row ten minutes ahead of that


def rubbish(session: Session, now: int) -> list[str]:
    """Return a sentence for every column in which something is stored that cannot be true."""
    found = []
    for table in TABLES.values():
        conditions = _conditions(table, now)
        counts = ", ".join(f"count(*) FILTER (WHERE {condition})" for _, condition in conditions)
        row = session.row(f"SELECT {counts} FROM {table.name}")
        found += [
            f"{table.name}: {count} rows where {name}"
            for count, (name, _) in zip(row, conditions, strict=True)
            if count
        ]
    return found


def _conditions(table: Table, now: int) -> list[tuple[str, str]]:
    found = [pair for column in table.columns for pair in _of_column(column)]
    is_interval = table.has("ended_at") and table.column("ended_at").required
    if is_interval:
        found.append(("an interval has no length", "started_at >= ended_at"))
    times = [name for name in ("started_at", "ended_at") if table.has(name)]
    found += [(f"{name} is of the future", f"{name} > {now + AHEAD}") for name in times]
    if table.has("started_at"):
        found.append(("started_at is of before 2015", f"started_at < {EARLIEST}"))
    return found


def _of_column(column: Column) -> list[tuple[str, str]]:
    name = column.name
    found = []
    if column.required:
        found.append((f"{name} is null", f"{name} IS NULL"))
    if column.type == "string":
        found.append((f"{name} is too long", f"octet_length(encode({name})) > {LONGEST_TEXT}"))
    if column.type == "float64":
        found.append((f"{name} is no number", f"NOT isfinite({name})"))
    if column.range is not None:
        low, high = column.range
        found.append((f"{name} is out of range", f"{name} < {low!r} OR {name} > {high!r}"))
    return found
