"""What is known of each run beside its samples: names, stage, team, size, racks and order of ranks."""

from analyzer.ledger.causes.stages.stage_booking import write_stages
from analyzer.ledger.causes.stages.words import DEFAULT, RunNames, Stage, stage_named
from analyzer.ledger.models import ModelBook
from analyzer.ledger.teams import RunIdentity, TeamBook
from analyzer.ledger.windows import RunFacts
from analyzer.queries.labels import labels_of
from analyzer.queries.statements import run as run_sql
from collector.access.erasure import ERASED
from collector.store.session import Session

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
        run_id, rid, name, account, owner, project, queue, labels, started_us, serves, served, gpus, nodes, racks = row
        identity = RunIdentity(run_id, started_us, account, owner, queue, project, name, labels_of(labels))
        found = stage_named(RunNames(name, queue, labels, serves))
        word = found.word if found else DEFAULT
        facts[run_id] = RunFacts(run_id, word, gpus, nodes, racks)
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
