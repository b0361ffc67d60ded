"""Who opens a store to read it alone sees of runs what is believed, whoever there was to doubt before."""

from pathlib import Path

import pytest

from analyzer.ledger.believed import believing
from collector.store.database import Store
from collector.store.lake import default_lake
from collector.store.session import Session
from tests.analyzer.ledger.fleet import HOUR, MONDAY

COLUMNS = ("node", "run_id", "gpu_uuid", "started_at", "ended_at", "scheduler", "told_by", "batch")


def told(node: str, scheduler: str, told_by: str | None) -> tuple[object, ...]:
    """Return an allocation of the run, by its scheduler or by a host."""
    return node, "slurm/alpha/1", f"{node}g0", MONDAY, MONDAY + HOUR, scheduler, told_by, MONDAY << 8


def runs(path: Path) -> set[str]:
    """Return the runs that a command sees."""
    with Store.open(path, read_only=True) as store, believing(store) as session:
        return {run_id for (run_id,) in session.rows("SELECT run_id FROM allocations")}


def test_a_command_doubts_the_first_host_that_tells_of_anothers_run(tmp_path: Path) -> None:
    """It makes no views where nobody sends under a key of a host; with the first such row it does."""
    path = tmp_path / "store.duckdb"
    with Store.open(path) as store, store.session() as session:
        session.load("allocations", COLUMNS, [told("n1", "slurm", None)])
    assert runs(path) == {"slurm/alpha/1"}
    with Store.open(path) as store, store.session() as session:
        session.load("allocations", COLUMNS, [told("n2", "process", "n2")])
        session.load("gpus_sighted", ("node", "gpu_uuid", "first_at", "last_at"), [("n1", "n1g0", MONDAY, MONDAY)])
    assert runs(path) == {"slurm/alpha/1", "declared/n2/slurm.alpha.1"}


def seen(session: Session) -> set[str]:
    """Return the runs that a reader sees."""
    return {run_id for (run_id,) in session.rows("SELECT run_id FROM allocations")}


@pytest.mark.parametrize("has_lake", [False, True])
def test_a_server_believes_whom_there_is_reason_to_believe_now(tmp_path: Path, has_lake: bool) -> None:
    """It is found out once for all statements, again as soon as other rows are there, and never too early."""
    path = tmp_path / "store.duckdb"
    with Store.open(path, lake=default_lake(path) if has_lake else None) as store, store.session() as session:
        session.load("allocations", COLUMNS, [told("n1", "slurm", None)])
        with store.hot_session() as hot:
            hot.load("gpus_sighted", ("node", "gpu_uuid", "first_at", "last_at"), [("n1", "n1g0", MONDAY, MONDAY)])
        with believing(store) as before:
            assert seen(before) == {"slurm/alpha/1"}
            session.load("allocations", COLUMNS, [told("n2", "process", "n2")])
            doubted = {"slurm/alpha/1", "declared/n2/slurm.alpha.1"}
            assert seen(before) == doubted
            with believing(store) as after:
                assert seen(after) == doubted
            session.load("allocations", COLUMNS, [told("n2", "slurm", None)])
            with believing(store) as after:
                assert seen(after) == seen(before) == {"slurm/alpha/1"}
