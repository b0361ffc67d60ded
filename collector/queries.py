"""Typed readings of the store that are not the ledger's: who reports, what is there, how much of the time is covered.

All times are microseconds UTC. Every function reads through a Session and raises StoreError where the store fails.
"""

from dataclasses import dataclass

from agent.wire.tables import TABLES
from collector.store.database import Session


@dataclass(frozen=True, slots=True)
class AgentSeen:
    """One agent's stream: its last sequence, when that was sealed by its clock, when it came, and all its rows."""

    agent: str
    stream: str
    last_sequence: int
    last_sent_at: int
    last_received_at: int
    batches: int
    rows: int


@dataclass(frozen=True, slots=True)
class TableSpan:
    """What a table of the contract holds. `first` and `last` are None where it has no rows."""

    table: str
    rows: int
    first: int | None
    last: int | None


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of a period one GPU was measured; what is missing is unknown, not idle."""

    gpu_uuid: str
    node: str
    measured_microseconds: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class RunSeen:
    """One run as its allocations tell it. `started_at` is None while it waits, `ended_at` while it holds a GPU."""

    run_id: str
    user: str | None
    account: str | None
    queue: str | None
    gpus: int
    started_at: int | None
    ended_at: int | None
    exit_status: str | None


def last_batch(session: Session) -> int:
    """Return the number of the newest batch, 0 where there is none; while it stays the same, no input has changed."""
    (number,) = session.row("SELECT coalesce(max(batch), 0) FROM receipts")
    return int(number)


def agents(session: Session) -> list[AgentSeen]:
    """Return every agent's stream, the one that was heard last first."""
    rows = session.rows(
        "SELECT agent, stream, max(sequence), max(sent_at), max(received_at), count(*), sum(row_count)::BIGINT "
        "FROM receipts WHERE NOT starts_with(stream, 'import:') GROUP BY agent, stream ORDER BY 5 DESC, agent, stream"
    )
    return [AgentSeen(*row) for row in rows]


def table_spans(session: Session) -> list[TableSpan]:
    """Return what each table holds, in the contract's order."""
    spans = []
    for name, table in TABLES.items():
        start, end = ("owned_from", "owned_until") if "owned_from" in table.names else ("started_at", "ended_at")
        spans.append(TableSpan(name, *session.row(f"SELECT count(*), min({start}), max({end}) FROM {name}")))
    return spans


def coverage(session: Session, start: int, end: int) -> list[Coverage]:
    """Return for each GPU how much of [start, end) its samples span, those where it did not answer left out.

    Intervals that overlap (a repeated import) are counted once: what counts of each is what lies beyond all before it.
    """
    rows = session.rows(
        """
        WITH clipped AS (
            SELECT gpu_uuid, node, greatest(started_at, $start) AS since, least(ended_at, $end) AS until
            FROM gpu_samples
            WHERE ended_at > $start AND started_at < $end AND up IS DISTINCT FROM false
        ), beyond AS (
            SELECT *, max(until) OVER (
                PARTITION BY gpu_uuid ORDER BY since, until ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS reached
            FROM clipped
        )
        SELECT gpu_uuid, max(node), sum(greatest(0, until - greatest(since, coalesce(reached, since))))::BIGINT,
            min(since), max(until)
        FROM beyond GROUP BY gpu_uuid ORDER BY gpu_uuid
        """,
        {"start": start, "end": end},
    )
    return [Coverage(*row) for row in rows]


def runs(session: Session, start: int, end: int) -> list[RunSeen]:
    """Return the runs that held or awaited a GPU within [start, end), by run_id.

    An allocation is told again as it changes; of each (run, attempt, member, GPU) the newest batch is believed.
    """
    rows = session.rows(
        """
        WITH newest AS (
            SELECT * FROM allocations
            QUALIFY row_number() OVER (
                PARTITION BY run_id, attempt, member, node, gpu_uuid ORDER BY batch DESC, ended_at DESC NULLS LAST
            ) = 1
        )
        SELECT run_id, any_value("user" ORDER BY batch DESC), any_value(account ORDER BY batch DESC),
            any_value(queue ORDER BY batch DESC), count(DISTINCT coalesce(gpu_uuid, node)), min(started_at),
            CASE WHEN count(*) = count(ended_at) THEN max(ended_at) END,
            any_value(exit_status ORDER BY attempt DESC NULLS LAST, batch DESC)
        FROM newest
        WHERE coalesce(started_at, submitted_at) < $end AND coalesce(ended_at, $end) > $start
        GROUP BY run_id ORDER BY run_id
        """,
        {"start": start, "end": end},
    )
    return [RunSeen(*row) for row in rows]
