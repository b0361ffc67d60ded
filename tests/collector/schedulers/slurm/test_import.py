"""History from a real accounting database: what `gpuledger import slurm` brings is what sacct says."""

import time
from pathlib import Path

import pytest

import gpuledger
from collector.store.database import Store
from tests.collector.schedulers.slurm.cluster import GPUS, NODES, Cluster

Row = tuple[object, ...]


class Imported:
    """A store whose telemetry knows the cluster's GPUs, into which history is brought by the command."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with Store.open(path) as store, store.session() as session:
            names = ("node", "started_at", "ended_at", "gpu_uuid", "gpu_index", "batch")
            gpus = [[node, 1, 2, f"{node}-{index}", index, 0] for node in NODES for index in range(GPUS)]
            session.load("inventory", names, gpus)

    def bring(self, *words: str) -> None:
        """Run the command."""
        assert gpuledger.main(["import", "slurm", "--since", "1d", "--store", str(self.path), *words]) == 0

    def rows(self, sql: str) -> list[Row]:
        """Ask the store."""
        with Store.open(self.path, read_only=True) as store, store.session() as session:
            return session.rows(sql)

    def held(self, *jobs: object) -> list[Row]:
        """Return the last word on each GPU of some jobs: job, GPU, whether it has ended, how."""
        runs = ", ".join(f"'slurm/testcluster/{job}'" for job in jobs)
        return self.rows(
            f"""
            SELECT run_id, gpu_uuid, ended_at IS NOT NULL, exit_status FROM allocations
            WHERE run_id IN ({runs}) AND started_at IS NOT NULL AND gpu_fraction IS DISTINCT FROM 0
            QUALIFY row_number() OVER (PARTITION BY run_id, attempt, gpu_uuid, started_at ORDER BY batch DESC) = 1
            ORDER BY ALL
            """
        )


@pytest.fixture
def imported(slurm: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Imported:
    """Return a store beside this cluster."""
    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
    return Imported(tmp_path / "store.duckdb")


@pytest.fixture(params=["text", "json"])
def forms(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Return the flags that choose how sacct is asked."""
    return "--slurm-format", request.param


def test_what_ended_and_what_runs_is_brought_once(
    slurm: Cluster, imported: Imported, tmp_path: Path, forms: tuple[str, str]
) -> None:
    """A whole host by accounting, a part of one by the queue; the end of what ran comes with the next import."""
    gate = tmp_path / "go"
    whole = slurm.submit("sleep 2; exit 3", f"--gres=gpu:{GPUS}", "--nodelist=n2", "--job-name=whole")
    slurm.wait_for(FAILED=[whole])
    part = slurm.submit(f"while [ ! -e {gate} ]; do sleep 0.1; done", "--gres=gpu:2", "--nodelist=n3", "--array=1")
    slurm.wait_for(RUNNING=[f"{part}_1"])
    slurm.wait(lambda: f"{part}_1" in slurm.run("sacct", "-aXnP", "--format=JobID"), "accounting to know of it")
    imported.bring(*forms)
    of_whole = [(f"slurm/testcluster/{whole}", f"n2-{index}", True, "failed") for index in range(GPUS)]
    running = imported.held(f"{part}_1")
    assert imported.held(whole) == of_whole
    assert [(len(running), row[2:]) for row in running] == [(2, (False, None))] * 2
    own = f"run_id IN ('slurm/testcluster/{whole}', 'slurm/testcluster/{part}_1')"
    assert imported.rows(f"SELECT labels FROM allocations WHERE {own} AND labels LIKE '%placement%'") == []

    before = imported.rows("SELECT count(*) FROM allocations")
    imported.bring(*forms)
    assert imported.rows("SELECT count(*) FROM allocations") == before

    gate.touch()
    slurm.wait_for(COMPLETED=[f"{part}_1"])
    asked = ("sacct", "-nXP", "-j", f"{part}_1", "--format=State")
    slurm.wait(lambda: "COMPLETED" in slurm.run(*asked), "accounting to know its end")
    imported.bring(*forms)
    assert imported.held(whole) == of_whole
    assert [row[1:] for row in imported.held(f"{part}_1")] == [(row[1], True, "completed") for row in running]


def test_times_and_owners_are_sacct_s(slurm: Cluster, imported: Imported) -> None:
    """To the second, as accounting has them."""
    job = slurm.submit("sleep 2", f"--gres=gpu:{GPUS}", "--nodelist=n2", "--job-name=a|b")
    slurm.wait_for(COMPLETED=[job])
    done = ("sacct", "-nXP", "-j", str(job), "--format=State,Submit,Start,End,User,Account")
    slurm.wait(lambda: slurm.run(*done).startswith("COMPLETED"), "accounting to know its end")
    slurm.environment["SLURM_TIME_FORMAT"] = "%s"
    try:
        _, *times, user, account = slurm.run(*done).strip().split("|")
    finally:
        del slurm.environment["SLURM_TIME_FORMAT"]
    imported.bring()
    columns = 'submitted_at, started_at, ended_at, "user", account, name'
    rows = imported.rows(f"SELECT DISTINCT {columns} FROM allocations WHERE run_id = 'slurm/testcluster/{job}'")
    assert rows == [(*(int(at) * 1_000_000 for at in times), user, account, "a|b")]


def test_a_drain_of_last_week_is_remembered(slurm: Cluster, imported: Imported) -> None:
    """sacctmgr keeps when hosts were out of service, which no metric says.

    Slurm tells accounting of a drain once the last job has left: n1 has one that stays for a minute.
    """
    slurm.wait(lambda: slurm.run("sinfo", "-h", "-n", "n3", "-p", "train", "-o", "%T").strip() == "idle", "n3 to rest")
    slurm.run("scontrol", "update", "nodename=n3", "state=drain", "reason=bad fan")
    asked = ("sacctmgr", "-nP", "show", "event", "start=now-1days", "format=nodename,state,reason,end")
    try:
        slurm.wait(lambda: "n3|DRAIN" in slurm.run(*asked), "accounting to know of the drain")
        time.sleep(1.1)  # accounting counts in seconds: a drain of none would be none
    finally:
        slurm.run("scontrol", "update", "nodename=n3", "state=resume")
    slurm.wait(lambda: "n3|DRAIN|bad fan|Unknown" not in slurm.run(*asked), "accounting to know of its end")
    imported.bring()
    rows = imported.rows("SELECT state, reason, ended_at > started_at FROM node_states WHERE node = 'n3'")
    assert ("drained", "bad fan", True) in rows
    assert not imported.rows("SELECT 1 FROM node_states WHERE reason = 'cold-start'")
