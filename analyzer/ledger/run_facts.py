"""What is known of runs: which is meant, whose it is, what it trains, when it began to work.

SQL says when each sign was first seen of a start (starting.sql); here its milliseconds are divided. What cannot be told
apart is loading: without the memory gauge, and without a word of the run's processes, nobody saw an image come.
"""

from dataclasses import dataclass, fields

from analyzer.errors import LedgerError
from analyzer.ledger.causes.stages import DEFAULT, RunNames, Stage, stage, stage_named
from analyzer.ledger.pending import Chunk
from analyzer.ledger.stage_telemetry import (
    COMPUTING_TENSOR_PERMILLE,
    GENERATING_DRAM_PERMILLE,
    GENERATING_TENSOR_PERMILLE,
    Doings,
    looks_like,
    office_hours,
)
from analyzer.ledger.teams import ModelBook, RunIdentity, TeamBook
from analyzer.ledger.thresholds import Thresholds
from analyzer.ledger.windows import RunFacts
from analyzer.queries.ledger_query import labels_of
from analyzer.queries.statements import run as run_sql
from analyzer.text.words import plain
from collector.store.books import ERASED
from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class StartSeen:
    """What was seen of one start on one GPU, within [from_ms, started_ms). None was not seen, or is not reported."""

    from_ms: int
    started_ms: int  # where starting ends: work, or nothing more that loads
    has_memory: bool = False
    context_ms: int | None = None  # first sample with more memory in use than a context takes
    kernel_ms: int | None = None  # first sample that works at all
    life_ms: int | None = None  # first sign of a process of the run on this host
    is_pod: bool = False
    written_bytes: int | None = None  # by the run to disks before it had a context


@dataclass(frozen=True, slots=True)
class StartParts:
    """Where the image ends and where warming up begins: from_ms <= image_until_ms <= warm_from_ms <= started_ms."""

    image_until_ms: int
    warm_from_ms: int


def parts(seen: StartSeen, limits: Thresholds) -> StartParts:
    """Divide one start.

    An image is being pulled while there is no GPU context, and either no process of a pod yet, or the run itself
    unpacks a gigabyte and more. It warms up from its first kernel to its steady work. The rest loads.
    """
    warm = seen.started_ms if seen.kernel_ms is None else _between(seen.from_ms, seen.kernel_ms, seen.started_ms)
    looked_ms = seen.from_ms + 2 * limits.starting_ms  # no hour sees further
    bare = _between(seen.from_ms, looked_ms if seen.context_ms is None else min(looked_ms, seen.context_ms), warm)
    if not seen.has_memory:
        bare = seen.from_ms
    if seen.is_pod and seen.life_ms is not None:
        return StartParts(_between(seen.from_ms, seen.life_ms, bare), warm)
    unpacks = seen.written_bytes is not None and seen.written_bytes >= limits.image_bytes
    return StartParts(bare if unpacks else seen.from_ms, warm)


def find_starts(session: Session, from_ms: int, until_ms: int, limits: Thresholds) -> None:
    """Fill the temporary table `starts` (rid, attempt, uid, from_ms, image_until_ms, warm_from_ms) for one day."""
    run_sql(
        session,
        "ledger/starting.sql",
        from_ms=from_ms,
        until_ms=until_ms,
        margin_ms=limits.starting_margin_ms,
        starting_ms=limits.starting_ms,
        held_mb=limits.held_mb,
        active_permille=limits.active_permille,
        process_bytes=limits.process_bytes,
    )
    names = ", ".join(field.name for field in fields(StartSeen))
    rows = session.rows(f"SELECT rid, attempt, uid, {names} FROM starts_seen ORDER BY ALL")
    divided = [(*key, *_cut(StartSeen(*seen), limits)) for *key, seen in ((*row[:3], row[3:]) for row in rows)]
    session.execute(
        """
        CREATE OR REPLACE TEMP TABLE starts (
            rid BIGINT, attempt BIGINT, uid BIGINT, from_ms BIGINT, image_until_ms BIGINT, warm_from_ms BIGINT)
        """
    )
    session.load("starts", ("rid", "attempt", "uid", "from_ms", "image_until_ms", "warm_from_ms"), divided)


def _cut(seen: StartSeen, limits: Thresholds) -> tuple[int, int, int]:
    cut = parts(seen, limits)
    return seen.from_ms, cut.image_until_ms, cut.warm_from_ms


def _between(low: int, value: int, high: int) -> int:
    return max(low, min(value, high))


# Of a run of a person whose name was erased nobody can tell any more which rule fits it: it stays whose it was.
_ERASED = "SELECT run_id, team, cost_centre FROM runs WHERE owner LIKE ?"


def write_runs(session: Session, teams: TeamBook, models: ModelBook) -> dict[str, RunFacts]:
    """Fill the table `runs` and the temporary table `run_facts` from the allocations; return the facts by run id.

    A run's time is booked by the stage that its names say, and by nothing that it did: see causes/stages/stage.py.
    """
    run_sql(session, "ledger/runs.sql")
    facts: dict[str, RunFacts] = {}
    erased = {run_id: tuple(whose) for run_id, *whose in session.rows(_ERASED, [f"{ERASED}%"])}
    rows = []
    for row in session.rows("SELECT * FROM run_summary ORDER BY run_id"):
        run_id, rid, name, account, owner, project, queue, labels, started_us, serves, served, *size = row
        identity = RunIdentity(run_id, started_us, account, owner, queue, project, name, labels_of(labels))
        found = stage_named(RunNames(name, queue, labels, serves))
        word = found.word if found else DEFAULT
        facts[run_id] = RunFacts(run_id, word, *size)
        whose = erased.get(run_id) or _whose(teams, identity)
        rows.append((rid, word, *whose, models.model_of(identity, served), *_words(found)))
    _store(session, rows)
    return facts


def _whose(teams: TeamBook, identity: RunIdentity) -> tuple[str | None, str | None]:
    team = teams.team_of(identity)
    return (team.name, team.cost_centre) if team else (None, None)


def _words(found: Stage | None) -> tuple[str | None, str | None, str | None]:
    return (found.word, found.confidence, found.reason) if found else (None, None, None)


def _store(session: Session, rows: list[tuple[object, ...]]) -> None:
    session.execute(
        """
        CREATE OR REPLACE TEMP TABLE run_facts (
            rid BIGINT, stage VARCHAR, team VARCHAR, cost_centre VARCHAR, model VARCHAR, is_interactive BOOLEAN,
            is_service BOOLEAN, said_stage VARCHAR, said_confidence VARCHAR, said_reason VARCHAR)
        """
    )
    columns = ("rid", "stage", "team", "cost_centre", "model", "said_stage", "said_confidence", "said_reason")
    session.load("run_facts", columns, rows)
    # A session of one GPU keeps it warm for its person; several GPUs that fall quiet are abandoned.
    session.execute(
        """
        UPDATE run_facts SET is_interactive = stage = 'interactive' AND s.gpus = 1, is_service = stage = 'serving'
        FROM run_summary s WHERE s.rid = run_facts.rid
        """
    )
    session.execute("DELETE FROM runs")
    session.execute(
        """
        INSERT INTO runs BY NAME
        SELECT s.run_id, s.name, s.owner, f.team, f.cost_centre, f.model, s.project, s.queue, f.stage, s.gpus, s.nodes,
            s.racks, e.* EXCLUDE (run_id)
        FROM run_summary s JOIN run_facts f USING (rid) JOIN run_ends e USING (run_id)
        """
    )
    write_stages(session)


CANDIDATES_SHOWN = 5
_NEAR = 0.85  # of 1: pretrian-7b for pretrain-7b is 0.98, vision-a for nlp-eval 0.5


def find_run(session: Session, text: str) -> str:
    """Return the id of the run that a person means: the whole id, any unique end of it, a unique name, or `last`.

    Raises:
        LedgerError: no run, or several, answer to this text; the sentence names some.
    """
    if text == "last":
        newest = session.rows("SELECT run_id FROM runs ORDER BY started_at DESC NULLS LAST, run_id LIMIT 1")
        if not newest:
            raise LedgerError("the ledger has no runs yet: run gpuledger admin analyze")
        return str(newest[0][0])
    for condition in ("run_id = $text", "ends_with(run_id, '/' || $text)", "ends_with(run_id, $text)", "name = $text"):
        rows = session.rows(
            f"SELECT run_id FROM runs WHERE {condition} ORDER BY run_id LIMIT {CANDIDATES_SHOWN + 1}", {"text": text}
        )
        if len(rows) == 1:
            return str(rows[0][0])
        if rows:
            names = ", ".join(str(run_id) for (run_id,) in rows[:CANDIDATES_SHOWN])
            more = " and more" if len(rows) > CANDIDATES_SHOWN else ""
            raise LedgerError(f"several runs match {text!r}: {names}{more}; type more of the id")
    raise LedgerError(f"the ledger has no run {text!r}{_nearest(session, text)}; gpuledger runs lists them")


def _nearest(session: Session, text: str) -> str:
    """Return ", did you mean NAME?" where a run's name or the end of its id is near what was typed, else nothing."""
    near = session.rows(
        "SELECT candidate FROM "
        "(SELECT name AS candidate FROM runs UNION SELECT regexp_extract(run_id, '[^/]+$') FROM runs) "
        "WHERE jaro_winkler_similarity(lower(candidate), lower($text)) >= $least "
        "ORDER BY jaro_winkler_similarity(lower(candidate), lower($text)) DESC, candidate LIMIT 1",
        {"text": text, "least": _NEAR},
    )
    return f", did you mean {plain(str(near[0][0]))}?" if near else ""


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
        computing_tensor_permille=COMPUTING_TENSOR_PERMILLE,
        generating_dram_permille=GENERATING_DRAM_PERMILLE,
        generating_tensor_permille=GENERATING_TENSOR_PERMILLE,
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
    if "run_doings" in session.without_rows:
        return {}
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
