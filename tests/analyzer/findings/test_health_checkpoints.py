"""Checkpoints to look at: far off the best interval with something at stake, or never restored."""

from dataclasses import replace

from analyzer.findings.health.notice import Notice, Span
from analyzer.findings.health.runs import checkpoint_notices
from analyzer.ledger.coverage import Unjudged
from analyzer.measures.efficiency.checkpoints import Failures, Saving

MINUTE, HOUR = 60_000_000, 3_600_000_000
HOUR_MS = 3_600_000
SPAN = Span(0, 168 * HOUR)
FAILURES = Failures(5, 1_000 * HOUR)  # on two hosts one every 100 h; with a minute to save the best is 1 h 50 min
# 16 GPUs, 2,000 GPU-hours, restored once, every ten minutes a checkpoint of a minute.
BUSY = Saving(
    "slurm/a/1",
    "llama",
    "nlp",
    16,
    2,
    tuple(n * 10 * MINUTE for n in range(20)),
    (),
    16 * 60_000 * 20,
    None,
    2_000 * HOUR_MS,
    None,
    HOUR,
)


def notices(*savings: Saving, failures: Failures = FAILURES) -> list[Notice]:
    """Return the notices alone."""
    return [each for each in checkpoint_notices(savings, failures, SPAN) if isinstance(each, Notice)]


def test_a_run_that_saves_ten_times_too_often_is_told_what_it_costs() -> None:
    """10.08% where 1.83% would do, of 2,000 GPU-hours: 165.15."""
    (found,) = notices(BUSY)
    assert (found.rule, found.subject, found.actor, found.team) == ("checkpoint_cadence", "llama", "run", "nlp")
    assert found.sentence == (
        "saves every 10 min, 1 h 50 min would lose the least: save less often; about 165.2 GPU-hours in this period"
    )
    assert found.wrong_if


def test_what_costs_little_is_not_told() -> None:
    """An interval that is off on a run of ten GPU-hours is nobody's morning."""
    assert notices(replace(BUSY, held_ms=10 * HOUR_MS)) == []
    assert notices(replace(BUSY, seen=tuple(n * 100 * MINUTE for n in range(20)))) == []


def test_too_few_failures_are_no_verdict() -> None:
    """Not evaluated is an answer, once for the fleet."""
    found = list(checkpoint_notices([BUSY, replace(BUSY, run_id="2")], Failures(2, HOUR), SPAN))
    assert found == [Unjudged(0, "fleet", "checkpoint_cadence", "2 failures of training in four weeks, 3 are needed")]
    assert list(checkpoint_notices([], Failures(0, 0), SPAN)) == []


def test_checkpoints_that_were_never_restored_are_named_once() -> None:
    """By name: two runs of it are one question to their owner. One that came back answers it for all."""
    right = replace(BUSY, seen=tuple(n * 100 * MINUTE for n in range(20)), restored_at=None)
    (found,) = notices(right, replace(right, run_id="slurm/a/2"))
    assert (found.rule, found.run_ids) == ("restore_never_seen", ("slurm/a/1", "slurm/a/2"))
    assert found.sentence.startswith("40 checkpoints, and no restore was ever observed")
    assert notices(right, replace(right, run_id="slurm/a/2", restored_at=5)) == []
    assert notices(replace(right, held_ms=999 * HOUR_MS)) == []


def test_a_notice_keeps_its_id() -> None:
    """From week to week, whatever the figures."""
    (one,) = notices(BUSY)
    (other,) = notices(replace(BUSY, run_id="slurm/a/9", held_ms=3_000 * HOUR_MS))
    assert one.id == other.id
