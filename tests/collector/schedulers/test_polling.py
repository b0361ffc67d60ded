"""The collector asks Slurm beside its other work, and shows how that goes."""

from pathlib import Path

import pytest

from collector.config import CollectorConfig, load
from collector.errors import ConfigError
from collector.schedulers.poller import Poll, PollBatches, Poller
from collector.store.database import Store
from tests.collector.schedulers.small_cluster import EVERY_SECONDS, SmallCluster, T, running
from tests.collector.schedulers.test_commands import SAID, script
from tests.collector.serving import running as serving
from tests.waiting import until


def recorded(directory: Path) -> None:
    """Put commands there that print the recording."""
    for name in ("squeue", "sacct", "sinfo"):
        script(directory, name, f"cat {SAID}/{name}.json")
    script(directory, "scontrol", "echo unrecognized >&2; exit 1")


def test_a_collector_that_is_told_of_a_cluster_has_its_jobs(tmp_path: Path) -> None:
    """One line of settings, and everything else follows."""
    recorded(tmp_path)
    config = CollectorConfig(store=tmp_path / "store.duckdb", slurm="alpha", slurm_commands=str(tmp_path))
    with serving(config) as collector:
        until(lambda: collector.count("allocations") > 0, "the cluster's jobs are there")
        page = collector.client.get("/metrics").text
        assert 'gpuledger_collector_scheduler_failures_total{scheduler="slurm/alpha"} 0.0' in page
        assert 'gpuledger_collector_scheduler_unplaced_runs{scheduler="slurm/alpha"} 6.0' in page
        assert 'gpuledger_collector_scheduler_age_seconds{scheduler="slurm/alpha"}' in page
    with Store.open(config.store) as store, store.session() as session:
        runs = {run for (run,) in session.rows("SELECT DISTINCT run_id FROM allocations")}
        agents = session.rows("SELECT DISTINCT agent FROM receipts")
    assert {"slurm/alpha/1", "slurm/alpha/3", "slurm/alpha/3_1", "slurm/alpha/6+1", "slurm/alpha/11"} <= runs
    assert agents == [("scheduler:slurm/alpha",)]


def test_a_cluster_that_does_not_answer_harms_nothing_else(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is counted each time and logged once; pages and batches go on."""
    config = CollectorConfig(store=tmp_path / "store.duckdb", slurm="alpha", slurm_commands=str(tmp_path))
    failed = 'scheduler_failures_total{scheduler="slurm/alpha"} 1.0'
    with serving(config) as collector:
        until(lambda: failed in collector.client.get("/metrics").text, "the failure is counted")
        assert collector.client.get("/healthz").status == 200
    told = [record for record in caplog.records if "slurm/alpha cannot be read" in record.message]
    assert len(told) == 1
    assert "is Slurm's client installed" in told[0].message


def test_failures_are_logged_when_they_begin_and_end(cluster: SmallCluster, caplog: pytest.LogCaptureFixture) -> None:
    """An hour without a controller is two lines."""
    poller = Poller("slurm/alpha", lambda *_: cluster.source, cluster.store, cluster.writer, EVERY_SECONDS)
    cluster.said.controller = False
    assert [poller.once(cluster.session) for _ in range(3)] == [False] * 3
    cluster.said.controller = True
    assert poller.once(cluster.session)
    assert [record.message.split(":")[0] for record in caplog.records] == [
        "slurm/alpha cannot be read",
        "slurm/alpha answers again",
    ]


def test_what_did_not_land_is_told_again(cluster: SmallCluster) -> None:
    """A store that is full for a minute loses no allocation."""
    cluster.said.jobs = [running()]
    lost = cluster.source.poll(cluster.session, T)
    assert len(lost.tables["allocations"]) == 2
    assert cluster.poll()["allocations"] == 2


def test_a_row_that_cannot_be_true_keeps_no_other_out(cluster: SmallCluster) -> None:
    """One job of the year 2040 must not stop all accounting."""
    row: dict[str, str | int | float | None] = {"run_id": "slurm/alpha/1", "node": "n1", "started_at": T}
    batch_commit = PollBatches("slurm/alpha", cluster.writer)
    batch_commit.land(Poll(T, {"allocations": [row, row | {"started_at": T * 2}, row | {"name": "x" * 5000}]}))
    assert batch_commit.refused == 2
    assert cluster.session.row("SELECT count(*) FROM allocations") == (1,)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("SLURM", "a/b", "a name has letters"),
        ("SLURM_FORMAT", "yaml", "not auto, json or text"),
        ("SLURM_SECONDS", "0", "must be at least 1"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(key: str, value: str, says: str) -> None:
    """The name becomes a part of every run's id."""
    with pytest.raises(ConfigError, match=says):
        load(None, {f"GPULEDGER_COLLECTOR_{key}": value})
