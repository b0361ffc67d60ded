"""What a restart takes: measured of the run itself where it can be, and called assumed where not."""

from collections.abc import Iterator
from typing import Any

import pytest

from agent.wire.units import WEEK_US
from analyzer.findings.finding import Finding
from analyzer.recommendations.advise import recommendations
from analyzer.recommendations.recommendation import Move, Placement
from analyzer.recommendations.run_status import (
    Life,
    RunStatus,
    Wait,
    changes_hosts,
    gpu_milliseconds,
    moving,
    moving_words,
    read_life,
    restart_parts,
)
from collector.store.session import Session
from tests.analyzer.ledger.fleet import HOUR, MINUTE, MONDAY, Fleet

DAY = 24 * HOUR
NOW = 100 * DAY


def run(run_id: str = "run", gpus: int = 8, **more: object) -> RunStatus:
    """Return a run that began two days ago and still runs."""
    facts: dict[str, object] = {
        "queue": "gpu",
        "stage": "pretraining",
        "attempts": 1,
        "started_at": NOW - 2 * DAY,
        "ended_at": None,
        "limit_at": None,
        "newest_start": NOW - 2 * DAY,
        "others": 0,
        "usual_us": None,
        "starting_ms": None,
    }
    return RunStatus(run_id, gpus=gpus, **(facts | more))  # type: ignore[arg-type]


def life(*runs: RunStatus, **more: object) -> Life:
    """Return these runs as they stand."""
    return Life(NOW, {each.run_id: each for each in runs}, **more)  # type: ignore[arg-type]


def test_a_restart_is_checkpoint_age_reload_and_queue_as_they_were_measured() -> None:
    """Half of 20 minutes between checkpoints, the run's own 4 minutes to load, and its queue's median."""
    own = run(starting_ms=8 * 4 * 60_000)
    moments = tuple(NOW - n * 20 * MINUTE for n in range(5, 0, -1))
    here = life(own, waits={"gpu": Wait(12 * MINUTE, 31)}, checkpoints={"run": moments})
    cost = moving([own], here, None)
    assert cost is not None
    assert [(part.what, part.seconds, part.measured) for part in cost.parts] == [
        ("checkpoint_age", 600, True),
        ("reload", 240, True),
        ("queue", 720, True),
    ]
    assert gpu_milliseconds(cost) == 8 * 26 * 60_000
    assert moving_words(cost) == (
        "one restart of 8 GPUs: 10 min of work, half of the time between its checkpoints; 4 min to load, as its own "
        "starts took; 12 min in queue gpu, the median of 31 starts"
    )


def test_what_was_not_measured_is_called_assumed() -> None:
    """A figure that nobody measured must not look like one."""
    parts = restart_parts(run(queue=None), life(), waits=True)
    assert not any(part.measured for part in parts)
    assert all("assumed" in part.told for part in parts)


def test_the_same_hosts_in_another_order_need_no_queue() -> None:
    """The run keeps what it holds."""
    here, there = Placement(("n1", "n2"), ("a", "b"), 16), Placement(("n2", "n1"), ("b", "a"), 16)
    assert not changes_hosts(Move(here, there))
    assert changes_hosts(Move(here, Placement(("n1", "n3"), ("a", "a"), 16)))
    assert changes_hosts(None)
    assert [part.what for part in restart_parts(run(), life(), waits=False)] == ["checkpoint_age", "reload"]


def test_several_runs_are_restarted_each_at_its_own_price() -> None:
    """GPU time adds up exactly as runs do, to the second a GPU."""
    small, large = run("small", 2, starting_ms=2 * 60_000), run("large", 6, starting_ms=6 * 180_000)
    both = moving([large, small], life(large, small), None)
    assert both is not None
    assert (both.gpus, both.parts[1].seconds) == (8, 150)
    assert "each of 2 runs, 8 GPUs" in moving_words(both, 2)


@pytest.mark.parametrize(
    ("facts", "days", "told"),
    [
        ({"limit_at": NOW + 3 * DAY}, 3, "until its time limit"),
        ({"limit_at": NOW - DAY, "usual_us": 6 * DAY}, 4, "as long as runs of its name usually take"),
        ({"stage": "serving"}, 28, "a service goes on"),
        ({"usual_us": DAY}, 2, "as long again as it has run"),
        ({"started_at": NOW - 90 * DAY}, 28, "as long again as it has run"),
    ],
)
def test_for_how_long_a_run_goes_on(facts: dict[str, Any], days: int, told: str) -> None:
    """Its limit if it has one that has not passed; else its like; else its age again, four weeks at most."""
    outlook = life(run(**facts)).outlook(["run"])
    assert outlook is not None
    assert (outlook.remaining_seconds, outlook.told) == (days * 86_400, told)


def test_of_runs_that_ended_nothing_is_left_but_they_may_come_again() -> None:
    """Five of one name are four others."""
    ended = [run(f"run-{n}", ended_at=NOW - HOUR) for n in range(5)]
    outlook = life(*ended).outlook([each.run_id for each in ended])
    assert outlook is not None
    assert (outlook.running, outlook.remaining_seconds, outlook.recurs) == (False, None, 4)
    assert life().outlook(["unknown"]) is None


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    """A run that began anew on other hosts, saves its state each quarter of an hour, and still runs; and its like.

    That one ended; it had a second host, which was hot.
    """
    fleet = Fleet()
    t = MONDAY
    for node in ("n1", "n2", "n3"):
        fleet.own(node, [f"{node}g"])
    held: dict[str, object] = {"name": "train", "queue": "gpu", "time_limit_seconds": 7200.0}
    ended: dict[str, object] = {"name": "train", "queue": "gpu", "submitted_at": t - 10 * MINUTE}
    fleet.hold("slurm/alpha/0", "n2", ["n2g"], t, t + HOUR, **ended)
    fleet.hold("slurm/alpha/0", "n3", ["n3g"], t, t + HOUR, **ended)
    fleet.sample(
        "n3",
        "n3g",
        t,
        t + HOUR,
        sm_clock_hertz=1.6e9,
        sm_clock_reference_hertz=2.0e9,
        throttle_thermal_seconds=60.0,
    )
    fleet.hold("slurm/alpha/1", "n1", ["n1g"], t, t + HOUR, attempt=0, submitted_at=t, **held)
    fleet.hold("slurm/alpha/1", "n2", ["n2g"], t + HOUR, None, attempt=1, submitted_at=t, **held)
    for node in ("n1", "n2"):
        fleet.sample(node, f"{node}g", t, t + 3 * HOUR)
    fleet.analyze(now=t + 3 * HOUR)
    with fleet.store.session() as opened:
        for minute in range(t + HOUR, t + 2 * HOUR, 15 * MINUTE):
            opened.execute(
                "INSERT INTO checkpoints (run_id, minute, written_bytes) VALUES ('slurm/alpha/1', ?, 1)", [minute]
            )
            opened.execute(
                "INSERT INTO checkpoints (run_id, minute, written_bytes) VALUES ('slurm/alpha/1', ?, 1)",
                [minute + MINUTE],
            )
        yield opened
    fleet.store.close()


def test_a_run_s_standing_is_read_from_what_the_scheduler_and_the_run_say(session: Session) -> None:
    """Its limit from its newest start, how often its like came, what it last saved; on how many GPUs it is now."""
    found = read_life(session, {"slurm/alpha/1": 1, "slurm/alpha/0": None}, ["slurm/alpha/1", "slurm/alpha/0"])
    own, other = found.runs["slurm/alpha/1"], found.runs["slurm/alpha/0"]
    assert (own.gpus, own.attempts, own.ended_at, own.others) == (1, 2, None, 1)
    assert own.limit_at == MONDAY + 3 * HOUR
    assert own.moved_at == MONDAY + HOUR
    assert (other.ended_at, other.moved_at) == (MONDAY + HOUR, None)
    assert found.waits["gpu"].starts == 2
    assert list(found.checkpoints) == ["slurm/alpha/1"]
    assert len(found.checkpoints["slurm/alpha/1"]) == 4
    (age, *_) = restart_parts(own, found, waits=False)
    assert (age.seconds, age.measured) == (7 * 60 + 30, True)


def test_nothing_has_to_be_restarted_where_nothing_runs(session: Session) -> None:
    """A change of a run that has ended waits for its next start, and costs nothing."""
    finding = Finding(
        id="f-aaaaa",
        rule="communicating/straggler",
        subject="train",
        run_ids=("slurm/alpha/0",),
        team=None,
        state="communicating",
        cause="straggler",
        what="stragglers",
        milliseconds=3_600_000,
        at_stake_micros=2_600_000,
        confidence="high",
        actor="platform",
        first_at=MONDAY,
        last_at=MONDAY + HOUR,
        still_open=False,
        caused_by="n3g",
        claim="",
        evidence=(),
        wrong_if="",
    )
    (ended,) = recommendations(session, [finding], MONDAY, MONDAY + WEEK_US)
    assert (ended.takes_effect, ended.cost_to_move_micros, ended.moving) == ("next_start", 0, None)
