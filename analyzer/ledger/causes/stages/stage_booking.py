"""Carry what runs did to the judge of stages, and the stage to report back into the table `runs`."""

from dataclasses import fields

from analyzer.ledger.causes.stages import telemetry
from analyzer.ledger.causes.stages.stage import stage
from analyzer.ledger.causes.stages.telemetry import Doings, looks_like, office_hours
from analyzer.ledger.causes.stages.words import Stage
from analyzer.ledger.pending import Chunk
from analyzer.ledger.thresholds import Thresholds
from analyzer.queries.statements import run as run_sql
from collector.store.session import Session

_COLUMNS = tuple(field.name for field in fields(Doings))
_OF_THE_RUN = frozenset({"gpus", "nodes", "lasted_ms", "has_completed", "is_over", "checkpoints", "days"})
_SUMMED = tuple(name for name in _COLUMNS if name not in _OF_THE_RUN)


def count_hours(session: Session, chunk: Chunk, timezone: str, limits: Thresholds) -> None:
    """Count into `run_doings` what each run did in these hours, which have just been cut, counted and judged."""
    run_sql(
        session,
        "ledger/run_doings.sql",
        from_us=chunk.from_ms * 1000,
        until_us=chunk.until_ms * 1000,
        active_permille=limits.active_permille,
        exchange_kb_per_ms=limits.exchange_kb_per_ms,
        computing_tensor_permille=telemetry.COMPUTING_TENSOR_PERMILLE,
        generating_dram_permille=telemetry.GENERATING_DRAM_PERMILLE,
        generating_tensor_permille=telemetry.GENERATING_TENSOR_PERMILLE,
        office_hours_ms=office_hours(chunk.from_ms, chunk.until_ms, timezone),
    )


def write_stages(session: Session) -> None:
    """Write the stage to report into `runs`: by their names (in `run_facts`) and by their `run_doings`.

    `run_facts` is left as it is: by it the time of runs is booked.
    """
    did = doings(session)
    rows = []
    for run_id, word, confidence, reason in session.rows(
        """
        SELECT run_id, said_stage, said_confidence, said_reason FROM run_facts JOIN run_keys USING (rid)
        ORDER BY run_id
        """
    ):
        said = None if word is None else Stage(word, confidence, reason)
        found = stage(said, looks_like(did[run_id]) if run_id in did else None)
        rows.append((run_id, found.word, found.confidence, found.reason))
    session.execute(
        """
        CREATE OR REPLACE TEMP TABLE stages_found (
            run_id VARCHAR, stage VARCHAR, stage_confidence VARCHAR, stage_reason VARCHAR)
        """
    )
    session.load("stages_found", ("run_id", "stage", "stage_confidence", "stage_reason"), rows)
    session.execute(
        """
        UPDATE runs SET stage = f.stage, stage_confidence = f.stage_confidence, stage_reason = f.stage_reason
        FROM stages_found f WHERE f.run_id = runs.run_id AND (f.stage, f.stage_confidence, f.stage_reason)
            IS DISTINCT FROM (runs.stage, runs.stage_confidence, runs.stage_reason)
        """
    )


def doings(session: Session) -> dict[str, Doings]:
    """Return what is known of each run's doings, by run id; nothing of runs without a counted hour."""
    sums = ", ".join(f"sum({name})::BIGINT AS {name}" for name in _SUMMED)
    rows = session.rows(
        f"""
        WITH summed AS (
            SELECT run_id, count(DISTINCT hour // 86400000000) AS days, {sums} FROM run_doings GROUP BY run_id
        ), begun AS (
            SELECT run_id FROM checkpoints
            QUALIFY minute - lag(minute) OVER (PARTITION BY run_id ORDER BY minute) > 60000000 IS DISTINCT FROM false
        ), saved AS (
            SELECT run_id, count(*) AS checkpoints FROM begun GROUP BY run_id
        ), known_runs AS (
            SELECT s.*, r.gpus, r.nodes, coalesce(c.checkpoints, 0) AS checkpoints, r.ended_at IS NOT NULL AS is_over,
                r.exit_status IS NOT DISTINCT FROM 'completed' AS has_completed,
                (coalesce(r.ended_at, k.until_us) - r.started_at) // 1000 AS lasted_ms
            FROM summed s JOIN runs r USING (run_id) LEFT JOIN saved c USING (run_id) CROSS JOIN known k
            WHERE r.started_at IS NOT NULL
        )
        SELECT run_id, {", ".join(_COLUMNS)} FROM known_runs ORDER BY run_id
        """
    )
    return {run_id: Doings(*values) for run_id, *values in rows}
