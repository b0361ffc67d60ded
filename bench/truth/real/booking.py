"""Rows through the real pipeline: encoded as agents do, decoded and checked, landed, analysed, read from the ledger."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent.wire.envelope import encode
from analyzer.analysis import analyze
from analyzer.findings.finding import Finding
from analyzer.findings.ledger_findings import findings
from analyzer.settings.settings import Settings
from bench.truth.real.sensors import Row
from collector.pipeline.batch_commit import BatchCommit
from collector.pipeline.decoding.batch import decode
from collector.store.database import Store
from collector.store.session import Session

Tables = Mapping[str, Sequence[Row]]

WAITING = frozenset({"starved", "unexplained"})
BATCH_ROWS = 100_000
LATER = 4_000_000_000_000_000  # any time after the recordings
NAMESPACE = uuid.UUID("0f2a4b87-6c0d-5d0e-8a3e-0d7c1b9b3f52")


@dataclass(frozen=True, slots=True)
class Line:
    """GPU-milliseconds of one run in one state, as the ledger has them."""

    run_id: str
    state: str
    cause: str | None
    suspicion: str | None
    confidence: str | None
    milliseconds: int


@dataclass(frozen=True, slots=True)
class Booked:
    """What the analyzer made of it: the ledger's lines, the runs' timelines by bucket, and the findings."""

    lines: tuple[Line, ...]
    timeline: Mapping[str, Sequence[tuple[int, str, int]]]  # run -> (first microsecond, state, GPU-milliseconds)
    findings: tuple[Finding, ...]
    bucket_us: int

    def share(self, run_id: str, states: Iterable[str], from_us: int, until_us: int) -> float | None:
        """Return the share of these states in the buckets wholly within; None where there is none."""
        wanted = set(states)
        inside = [
            (state, ms)
            for start, state, ms in self.timeline.get(run_id, ())
            if from_us <= start and start + self.bucket_us <= until_us
        ]
        whole = sum(ms for _, ms in inside)
        return sum(ms for state, ms in inside if state in wanted) / whole if whole else None

    def of_run(self, run_id: str) -> dict[str, float]:
        """Return each state's share of a run's time."""
        mine = [line for line in self.lines if line.run_id == run_id]
        whole = sum(line.milliseconds for line in mine)
        states = sorted({line.state for line in mine})
        return {state: sum(line.milliseconds for line in mine if line.state == state) / whole for state in states}


def book(batches: Sequence[Tables], bucket_us: int) -> Booked:
    """Return the ledger of these batches, made in a store of its own; a row that is put aside is our own mistake."""
    with Store.open(None, memory_limit="500MB") as store:
        with BatchCommit(store) as batch_commit:
            for number, tables in enumerate(batches):
                _land(batch_commit, number, tables)
        analyze(store, Settings(), now_us=LATER, bucket_ms=bucket_us // 1000)
        with store.session() as session:
            return Booked(_lines(session), _timeline(session), tuple(findings(session, 0, LATER)), bucket_us)


def _land(batch_commit: BatchCommit, number: int, tables: Tables) -> None:
    agent = f"recording/{number}"
    body = encode(
        agent=agent,
        stream=str(uuid.uuid5(NAMESPACE, agent)),
        sequence=0,
        sent_at=_last(tables),
        tables={name: list(rows) for name, rows in tables.items()},
    )
    batch = decode(body, _last(tables))
    assert not batch.quarantined, f"BUG: rows that cannot be true: {batch.asides[:1]}"
    batch_commit.land([batch])


def _last(tables: Tables) -> int:
    return max(int(str(row["ended_at"])) for rows in tables.values() for row in rows if row.get("ended_at") is not None)


def _lines(session: Session) -> tuple[Line, ...]:
    rows = session.rows(
        """
        SELECT run_id, state, cause, suspicion, confidence, sum(milliseconds)::BIGINT FROM ledger
        WHERE run_id IS NOT NULL GROUP BY ALL ORDER BY ALL
        """
    )
    return tuple(Line(*row) for row in rows)


def _timeline(session: Session) -> dict[str, list[tuple[int, str, int]]]:
    found: dict[str, list[tuple[int, str, int]]] = {}
    rows = session.rows(
        """
        SELECT run_id, bucket_start, state, sum(milliseconds)::BIGINT FROM run_timeline GROUP BY ALL ORDER BY ALL
        """
    )
    for run_id, start, state, ms in rows:
        found.setdefault(run_id, []).append((start, state, ms))
    return found
