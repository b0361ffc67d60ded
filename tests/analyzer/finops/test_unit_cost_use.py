"""Utilization by compute and scaling, as unit economics: of teams, and of models."""

import pytest

from analyzer.finops.unit_cost.report import UnitReport, unit_report, with_teams
from analyzer.finops.unit_cost.text import units_text
from analyzer.period import Calendar
from analyzer.text.layout import TextLayout
from tests.analyzer.finops.unit_cost_written import HOUR, MONDAY, RATE, WEEK, Written

UTC = Calendar("UTC")
THIS = UTC.week_of(MONDAY + 4 * WEEK)
NOW = range(THIS.start, THIS.end, HOUR)
BEFORE = range(THIS.start - WEEK, THIS.start, HOUR)


def read(written: Written) -> UnitReport:
    """Read the last week with its teams."""
    with written.store.session() as session:
        return with_teams(session, unit_report(session, THIS, UTC, "USD"), UTC)


def team() -> Written:
    """Return a team whose run worked on three of four GPUs, and the week before on one."""
    written = Written()
    written.know(MONDAY, MONDAY + 5 * WEEK)
    written.run("slurm/a/1", "train", "nlp")
    written.book("slurm/a/1", NOW, lambda _: 3.0)
    written.book("slurm/a/1", NOW, lambda _: 1.0, "held_idle")
    written.book("slurm/a/1", BEFORE, lambda _: 1.0)
    written.book("slurm/a/1", BEFORE, lambda _: 3.0, "held_idle")
    return written


def test_a_teams_compute_is_what_was_useful_of_what_it_held() -> None:
    """Holding is not computing: three GPUs of four worked, and the fourth is in the price of their hours."""
    (one,) = read(team()).compute
    assert (one.team, one.useful_permille, one.useful_permille_before) == ("nlp", 750, 250)
    assert one.micros_a_useful_hour == pytest.approx(RATE * 4 / 3)
    assert "75.0%" in units_text(read(team()), TextLayout(80))


def test_what_was_not_measured_is_not_held_against_a_team() -> None:
    """An agent that was silent says nothing of how well a team computed."""
    written = team()
    with written.store.session() as session:
        session.execute("UPDATE ledger SET state = 'unobserved', cause = 'gap' WHERE state = 'held_idle'")
    (one,) = read(written).compute
    assert one.useful_permille == 1000
    assert one.milliseconds == 4 * 168 * 3_600_000


def test_activity_is_the_mean_of_its_gpus() -> None:
    """Unknown where no sample was kept; never 0."""
    written = team()
    assert read(written).compute[0].activity_permille is None
    with written.store.session() as session:
        rows = [["slurm/a/1", THIS.start, 900, 3000], ["slurm/a/1", THIS.start, 100, 1000]]
        session.load("run_activity", ["run_id", "hour", "permille", "milliseconds"], rows)
    assert read(written).compute[0].activity_permille == 700


def trained(written: Written, number: int, gpus: int, tokens_an_hour: int) -> None:
    """Let a run of a model train all week at a size."""
    run = f"slurm/a/{number}"
    written.run(run, "pretrain", "nlp", gpus=gpus, sku="H100", started_at=THIS.start, stage="pretraining")
    written.book(run, NOW, lambda _: float(gpus))
    written.say("progress", run, NOW, tokens=lambda _: tokens_an_hour)
    with written.store.session() as session:
        rows = [[run, hour, "productive", "compute", gpus * 3_600_000] for hour in NOW]
        session.load("run_timeline", ["run_id", "bucket_start", "state", "cause", "milliseconds"], rows)


def test_scaling_is_told_of_what_trained_at_several_sizes() -> None:
    """Twice the GPUs that do 1.6 times the tokens: 80%."""
    written = Written()
    written.know(MONDAY, MONDAY + 5 * WEEK)
    trained(written, 1, 8, 10**9)
    trained(written, 2, 16, 16 * 10**8)
    report = read(written).scaling
    assert report is not None
    (one,) = report.scaled
    assert (one.model, one.sku, one.scaling.unit) == ("pretrain", "H100", "tokens")
    assert [(size.gpus, round(size.efficiency, 3)) for size in one.scaling.sizes] == [(8, 1.0), (16, 0.8)]
    text = units_text(read(written), TextLayout(80))
    assert "80.0%" in text
    assert "SCALING" in text


def test_one_size_is_no_scaling_and_is_said() -> None:
    """Nobody knows what twice the GPUs would do."""
    written = Written()
    written.know(MONDAY, MONDAY + 5 * WEEK)
    trained(written, 1, 8, 10**9)
    report = read(written).scaling
    assert report is not None
    assert (report.scaled, report.unsized) == ((), 1)
    assert "1 model: one size only" in units_text(read(written), TextLayout(80))
