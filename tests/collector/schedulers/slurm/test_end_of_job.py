"""What a job cost and lost stands in its AdminComment, where people look with sacct: written to a real Slurm."""

import re
from pathlib import Path

import pytest

from analyzer.interfaces.cli.analyze import slurm as admin_slurm
from collector.errors import SchedulerError
from collector.store.database import Store
from tests.analyzer.reports import example_week
from tests.collector.schedulers.slurm.cluster import Cluster

TUNED, SERVED = "llama-sft", "ranker-serve"


@pytest.fixture(autouse=True)
def at_this_slurm(slurm: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command find this cluster, as an operator's shell does."""
    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])


@pytest.fixture
def site(slurm: Cluster, tmp_path: Path) -> tuple[Path, dict[str, int]]:
    """Return the settings of a site whose ledger has two jobs of this Slurm, and all jobs by what they are."""
    jobs = {name: slurm.submit("true", "--gres=gpu:1") for name in ("booked", "running", "unknown", "foreign")}
    jobs["plain"] = slurm.submit("true")
    slurm.wait_for(COMPLETED=jobs.values())
    slurm.wait(lambda: all(comment(slurm, job) == ["COMPLETED"] for job in jobs.values()), "accounting")
    slurm.run("sacctmgr", "-i", "modify", "job", "where", f"jobid={jobs['foreign']}", "set", "admincomment=of the site")
    store = tmp_path / "store.duckdb"
    with Store.open(store) as opened, opened.session() as session:
        example_week.fill(session)
        for name, job in ((TUNED, jobs["booked"]), (SERVED, jobs["running"])):
            (run_id,) = session.row("SELECT run_id FROM runs WHERE name = ?", [name])
            for table in ("ledger", "runs", "run_doings"):
                session.execute(f"UPDATE {table} SET run_id = ? WHERE run_id = ?", [f"slurm/alpha/{job}", run_id])
        ended = (
            "UPDATE runs SET ended_at = (SELECT max(hour) FROM ledger l WHERE l.run_id = runs.run_id) WHERE name = ?"
        )
        session.execute(ended, [TUNED])
        session.execute("UPDATE runs SET ended_at = NULL WHERE name = ?", [SERVED])
    settings = tmp_path / "gpuledger.toml"
    settings.write_text(
        f'[collector]\nstore = "{store}"\nslurm = "alpha"\nlake = "none"\n'
        '[analyzer]\nsite_url = "https://ledger.example"\n'
    )
    return settings, jobs


def comment(slurm: Cluster, job: int, field: str = "State") -> list[str]:
    """Return a field of a job as accounting has it."""
    return slurm.run("sacct", "-n", "-X", "-P", "-j", str(job), f"--format={field}").splitlines()


def test_an_ended_job_bears_what_it_cost_what_was_lost_and_where_to_read_on(
    slurm: Cluster, site: tuple[Path, dict[str, int]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Once, when the ledger has booked it to its end; of others' comments none is touched."""
    settings, jobs = site
    assert admin_slurm(["--config", str(settings), "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{jobs['booked']} gpuledger: ")
    assert comment(slurm, jobs["booked"], "AdminComment") == [""]

    assert admin_slurm(["--config", str(settings)]) == 0
    assert re.match(r"1 written, 1 later, \d+ that the ledger does not know, of \d+ jobs", capsys.readouterr().out)
    (line,) = comment(slurm, jobs["booked"], "AdminComment")
    assert re.fullmatch(
        r"gpuledger: 1,128\.0 GPU-hours, \$2,932\.80; lost 41\.\d% \(\$1,202\.50\), most to input starvation"
        rf"(; to change: [^;]+)?; https://ledger\.example/runs/slurm/alpha/{jobs['booked']}",
        line,
        re.IGNORECASE,  # sacctmgr of 22.05 writes small letters
    )
    assert comment(slurm, jobs["running"], "AdminComment") == [""]
    assert comment(slurm, jobs["unknown"], "AdminComment") == [""]
    assert comment(slurm, jobs["foreign"], "AdminComment") == ["of the site"]
    assert comment(slurm, jobs["plain"], "AdminComment") == [""]

    assert admin_slurm(["--config", str(settings)]) == 0
    assert capsys.readouterr().out.startswith("0 written, ")
    assert comment(slurm, jobs["booked"], "State") == ["COMPLETED"]


def test_a_slurm_that_does_not_answer_is_not_waited_for(
    site: tuple[Path, dict[str, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timer ends in bounded time, and says which command it was."""
    settings, _ = site
    (tmp_path / "sacct").write_text("#!/bin/sh\nexec sleep 600\n")
    (tmp_path / "sacct").chmod(0o755)
    settings.write_text(settings.read_text().replace('lake = "none"', f'lake = "none"\nslurm_commands = "{tmp_path}"'))
    monkeypatch.setattr("analyzer.interfaces.cli.analyze._COMMAND_SECONDS", 0.2)
    with pytest.raises(SchedulerError, match="sacct took longer"):
        admin_slurm(["--config", str(settings)])
