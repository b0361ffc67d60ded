"""The SQL on a small fleet: what a run said, held, lost and saved, counted by hand."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from analyzer.errors import ConfigError
from analyzer.interfaces.cli.report import report_run
from analyzer.interfaces.questions.registry import answer
from analyzer.interfaces.text.efficiency_text import not_known
from analyzer.measures.efficiency import efficiency_query
from analyzer.measures.efficiency.efficiency_query import Efficiency
from analyzer.reports.reader import Reader
from analyzer.reports.request import Request
from analyzer.settings.settings import Settings
from collector.lake.retention import Keeping, drop
from collector.lake.tiers import roll_up
from collector.store.database import Store
from collector.store.schemas import make_tier_tables
from tests.analyzer.ledger.copies import OnePass, made_once
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, MONDAY, SECOND, Fleet

T = MONDAY
SFT, BIG = "slurm/alpha/1", "slurm/alpha/2"
LABELS = json.dumps({"model": "llama", "params": "7b"})

one_pass = OnePass()


def progress(fleet: Fleet, run: str, node: str, start: int, end: int, **values: object) -> None:
    """Let a run say something every ten minutes."""
    row = {"run_id": run, "node": node, **values}
    fleet.add(
        "progress",
        [row | {"started_at": at, "ended_at": at + 10 * MINUTE} for at in range(start, end, 10 * MINUTE)],
    )


def training(fleet: Fleet, run: str, node: str, gpus: int, **more: object) -> None:
    """Let a run work for two hours on so many GPUs of one host."""
    names = [f"{node}g{number}" for number in range(gpus)]
    fleet.own(node, names, sku="A100-80GB")
    fleet.hold(run, node, names, T, T + 2 * HOUR, submitted_at=T - HOUR, exit_status="completed", labels=LABELS, **more)
    for name in names:
        fleet.sample(node, name, T, T + 2 * HOUR)


def of(fleet: Fleet, run: str) -> Efficiency:
    """Return what a report says of a run."""
    with fleet.store.session() as session:
        found = Reader(session, Settings()).run(f"{run}{fleet.names_end}").efficiency
    assert found is not None
    return found


def test_a_run_that_says_what_it_does() -> None:
    """12 times 100 steps and 1.2 million tokens in two hours of work; a run of twice the size 1.5 times as much."""
    fleet = Fleet()
    training(fleet, SFT, "n1", 2)
    training(fleet, BIG, "n2", 4)
    progress(fleet, SFT, "n1", T, T + 2 * HOUR, steps=100, tokens=1_200_000)
    progress(fleet, BIG, "n2", T, T + 2 * HOUR, steps=100, tokens=1_800_000)
    fleet.analyze()
    found = of(fleet, SFT)
    assert found.step.how == "progress"
    assert found.step.seconds == pytest.approx(6.0, rel=0.01)
    assert found.tokens_per_second.value == pytest.approx(2_000, rel=0.01)
    assert found.mfu.value == pytest.approx(6 * 7e9 * 2_000 / (2 * 312e12), rel=0.01)
    assert [(size.gpus, round(size.efficiency, 2)) for size in found.scaling.sizes] == [(2, 1.0), (4, 0.75)]
    assert found.goodput.goodput.value == pytest.approx(1.0, abs=0.02)
    assert found.goodput.ettr.value == pytest.approx(2 / 3, abs=0.02)
    assert found.checkpoints is None


@one_pass
def test_silence_before_the_first_word_and_after_the_last_is_no_step_time(fleet: Fleet) -> Iterator[None]:
    """Rows without a number beside numbers are waiting for the next step; those after the last are not known."""
    training(fleet, SFT, "n1", 1)
    progress(fleet, SFT, "n1", T, T + HOUR, steps=100)
    progress(fleet, SFT, "n1", T + HOUR, T + 2 * HOUR)
    yield
    assert of(fleet, SFT).step.seconds == pytest.approx(6.0, rel=0.01)


@one_pass
def test_two_hosts_that_count_at_once_are_not_added(fleet: Fleet) -> Iterator[None]:
    """Eight ranks at step 120 have not done 960; a run that moved from host to host has done both its parts."""
    training(fleet, SFT, "n1", 1)
    training(fleet, BIG, "n2", 1)
    for node in ("n1", "n9"):
        progress(fleet, SFT, node, T, T + HOUR, steps=100)
    progress(fleet, BIG, "n2", T, T + HOUR, steps=100)
    progress(fleet, BIG, "n9", T + HOUR, T + 2 * HOUR, steps=100)
    yield
    assert "rank 0 alone" in (of(fleet, SFT).step.because or "")
    assert of(fleet, BIG).step.seconds == pytest.approx(6.0, rel=0.01)


def dipping(fleet: Fleet, run: str, node: str, gpus: int, every: int, **labels: str) -> None:
    """Let a run's GPUs dip every so many seconds for an hour, sampled each second; it says nothing."""
    names = [f"{node}g{number}" for number in range(gpus)]
    fleet.own(node, names, sku="A100-80GB")
    fleet.hold(run, node, names, T, T + HOUR, labels=json.dumps(labels))
    rows = []
    for at in range(3600):
        activity = 0.0 if at % every >= every * 0.7 else 0.9
        row = {"node": node, "started_at": T + at * SECOND, "ended_at": T + (at + 1) * SECOND, "up": True}
        row |= {"utilization_ratio": min(1.0, activity * 1.1), "sm_active_ratio": activity}
        rows += [row | {"gpu_uuid": name} for name in names]
    fleet.add("gpu_samples", rows)


def test_steps_are_seen_in_fine_samples() -> None:
    """Dips every 20 s and 15 s in runs that say nothing. Of a known batch on twice the GPUs: 1.33 times as fast."""
    fleet = Fleet()
    dipping(fleet, SFT, "n1", 1, 20, model="llama", global_batch="512")
    dipping(fleet, BIG, "n2", 2, 15, model="llama", global_batch="512")
    fleet.analyze()
    found = of(fleet, SFT)
    assert found.step.how == "period"
    assert found.step.seconds == pytest.approx(20, rel=0.02)
    assert found.scaling.unit == "steps"
    assert [size.gpus for size in found.scaling.sizes] == [1, 2]
    assert found.scaling.sizes[1].speed_up == pytest.approx(20 / 15, rel=0.02)


def test_scaling_by_samples_that_are_gone_says_so() -> None:
    """A table that shrinks without a word is another figure; so is "no run of its kind tells its steps"."""
    fleet = Fleet()
    make_tier_tables(fleet.store)
    dipping(fleet, SFT, "n1", 1, 20, model="llama", global_batch="512")
    dipping(fleet, BIG, "n2", 2, 15, model="llama", global_batch="512")
    fleet.own("n9", ["n9g"])
    fleet.sample("n9", "n9g", T, T + DAY + HOUR)  # days are dropped whole, and with the last that is judged
    fleet.analyze(now=MONDAY + 30 * DAY)
    assert of(fleet, SFT).scaling.because is None
    roll_up(fleet.store, 1e9)
    drop(fleet.store, Keeping(), MONDAY + 30 * DAY, lambda _: None)
    known = of(fleet, SFT)
    gone = "the samples of 2 runs of its kind, which report no steps, are no longer kept"
    assert (known.scaling.sizes, known.scaling.because) == ((), gone)
    assert ("scaling", gone) in not_known(known)


@one_pass
def test_a_service_has_no_goodput(fleet: Fleet) -> Iterator[None]:
    """It makes no steps towards a model."""
    training(fleet, SFT, "n1", 1, queue="serving")
    yield
    with fleet.store.session() as session:
        reader = Reader(session, Settings())
        assert reader.run(f"{SFT}{fleet.names_end}").efficiency is None
        assert "EFFICIENCY" not in answer(reader, Request("run", f"{SFT}{fleet.names_end}"))


@made_once
def broken_fleet() -> Fleet:
    """Return a fleet in which n1 goes down three times under one run, which then works on from its checkpoints."""
    fleet = Fleet()
    fleet.own("n1", ["g"], sku="A100-80GB")
    for attempt in range(4):
        start = T + attempt * 3 * HOUR
        last = attempt == 3
        held = {"attempt": attempt, "exit_status": "completed" if last else "node_failed", "submitted_at": T}
        fleet.hold(SFT, "n1", ["g"], start, start + 2 * HOUR, **held)
        fleet.sample("n1", "g", start, start + 2 * HOUR)
        if not last:
            down = {"node": "n1", "state": "down", "started_at": start + 2 * HOUR, "ended_at": start + 3 * HOUR}
            fleet.add("node_states", [down])
    fleet.analyze()
    with fleet.store.session() as session:
        minutes = [(SFT, T + 30 * MINUTE * number, 10**9) for number in range(1, 4)]
        session.load("checkpoints", ("run_id", "minute", "written_bytes"), minutes)
    return fleet


def test_failures_are_counted_with_their_host_hours() -> None:
    """Three failures in eight host-hours; n1 was down at the end of each. What fails at once was a mistake."""
    fleet = broken_fleet()
    fleet.hold(BIG, "n7", ["x"], T, T + 10 * MINUTE, exit_status="failed")
    fleet.analyze()
    with fleet.store.session() as session:
        found = efficiency_query.failures(session, T + DAY)
        before = efficiency_query.failures(session, T)
    assert (found.failures, found.repeating) == (3, (("n1", 3),))
    assert found.node_us == 8 * HOUR + 10 * MINUTE
    assert (before.failures, before.node_us) == (0, 0)


def test_an_attempt_after_a_checkpoint_is_a_restore() -> None:
    """The last attempt came to work at hour nine; its checkpoints are every half hour."""
    fleet = broken_fleet()
    found = of(fleet, SFT).checkpoints
    assert found is not None
    assert (found.count, found.interval_seconds.value) == (3, 1_800)
    assert found.restored_at is not None
    assert T + 9 * HOUR <= found.restored_at <= T + 9 * HOUR + 5 * MINUTE
    with fleet.store.session() as session:
        tries = efficiency_query.attempts(session, SFT)
    assert [(one.number, one.exit_status, one.nodes) for one in tries][2:] == [
        (2, "node_failed", ("n1",)),
        (3, "completed", ("n1",)),
    ]


@one_pass
def test_checkpoints_without_a_later_attempt_were_never_restored(fleet: Fleet) -> Iterator[None]:
    """Nobody knows whether they can be read."""
    training(fleet, SFT, "n1", 1)
    progress(fleet, SFT, "n1", T + HOUR, T + 2 * HOUR, checkpoint="ckpt")
    yield
    found = of(fleet, SFT).checkpoints
    assert found is not None
    assert (found.count, found.by, found.restored_at) == (6, "named", None)
    with fleet.store.session() as session:
        assert "last restore" in answer(Reader(session, Settings()), Request("run", f"{SFT}{fleet.names_end}"))


def test_waiting_for_a_slow_gpu_is_added_by_gpu() -> None:
    """Two runs waited for g1: 3 and 1 GPU-hours; one of its rows has no price, so the cost is not known."""
    fleet = Fleet()
    row = {"node": "n2", "gpu_uuid": "x", "state": "communicating", "cause": "straggler", "shared": False}
    row |= {"hour": T, "rules_version": "", "caused_by": "g1"}
    waits = [(SFT, 3 * 3_600_000, 100), (BIG, 3_600_000, None)]
    rows = [row | {"run_id": run, "milliseconds": ms, "cost_micros": cost} for run, ms, cost in waits]
    own_row = row | {"node": "n1", "gpu_uuid": "g1", "state": "productive", "cause": "compute", "caused_by": None}
    rows.append(own_row | {"run_id": SFT, "milliseconds": 3_600_000, "cost_micros": 100})
    with fleet.store.session() as session:
        session.load("ledger", list(rows[0]), [list(each.values()) for each in rows])
        waited = efficiency_query.waited(session, T, T + HOUR)
        own = efficiency_query.waited(session, T, T + HOUR, SFT)
    assert sorted((one.run_id, one.milliseconds, one.cost_micros) for one in waited) == sorted(waits)
    assert [one.run_id for one in own] == [SFT]
    assert {one.node for one in waited} == {"n1"}, "where g1 is, and not where those are that waited"


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """Return a store on disk with one run that says nothing of its steps."""
    path = tmp_path / "store.duckdb"
    fleet = Fleet(Store.open(path))
    training(fleet, SFT, "n1", 1)
    fleet.analyze()
    fleet.store.close()
    return path


def test_a_log_tells_the_step_time_of_a_report(
    stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run said nothing; what it printed does."""
    log = tmp_path / "out.log"
    log.write_text("".join(f"step {n}: 0.50 s\n" for n in range(9)))
    pattern = r"step (?P<step>\d+): (?P<seconds>\S+) s"
    assert report_run([SFT, "--store", str(stored), "--steps-from", pattern, "--log", str(log)]) == 0
    assert "step time       0.5 s, the median of 9 in its log" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--log", "x.log"], "give both"),
        (["--steps-from", "x"], "give both"),
        (["--steps-from", "x", "--log", "x.log", "--server", "https://h"], "use --store"),
    ],
)
def test_half_a_question_is_refused(flags: list[str], why: str) -> None:
    """Before anything is opened or asked."""
    with pytest.raises(ConfigError, match=why):
        report_run(["1", *flags])
