"""Totals become amounts: nothing is counted twice, and what is not known is not told."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from agent.sources.mailbox import Message
from agent.sources.progress import RunTotals

FIRST, SECOND = (100, 1), (200, 2)


def said(**totals: float) -> Message:
    """Return a message of totals."""
    return Message(totals, None)


def everyone_lives(_: object) -> bool:
    """Say that every process is still there."""
    return True


def nobody_lives(_: object) -> bool:
    """Say that every process has ended."""
    return False


def test_the_first_word_is_a_beginning_and_no_amount() -> None:
    """A run that goes on from step 1,200 has not done 1,200 steps before our eyes."""
    run = RunTotals(0.0)
    assert run.hear(FIRST, said(steps=1200), everyone_lives)
    assert run.taken() == {}
    run.hear(FIRST, said(steps=1207), everyone_lives)
    assert run.taken() == {"steps": 7}


def test_a_total_that_fell_begins_anew() -> None:
    """Back at a checkpoint, the steps done again are done again, and the jump itself is no work."""
    run = RunTotals(0.0)
    for step in (1200, 1250, 1200, 1210):
        run.hear(FIRST, said(steps=step), everyone_lives)
    assert run.taken() == {"steps": 60}


def test_one_process_speaks_for_the_run() -> None:
    """Eight ranks that each say step 120 have not done 960; the others are not heard while the first one lives."""
    run = RunTotals(0.0)
    run.hear(FIRST, said(steps=0), everyone_lives)
    assert not run.hear(SECOND, said(steps=0), everyone_lives)
    run.hear(FIRST, said(steps=10), everyone_lives)
    assert not run.hear(SECOND, said(steps=11), everyone_lives)
    assert run.taken() == {"steps": 10}


def test_when_the_voice_has_ended_another_goes_on() -> None:
    """A shell says each step by a process of its own; a run that is started again has other processes."""
    run = RunTotals(0.0)
    for step, speaker in enumerate([FIRST, SECOND, (300, 3)]):
        assert run.hear(speaker, said(steps=step), nobody_lives)
    assert run.taken() == {"steps": 2}


def test_each_number_has_a_voice_of_its_own() -> None:
    """One process counts steps, another one writes checkpoints and counts tokens: both are heard."""
    run = RunTotals(0.0)
    for total in (0, 5):
        run.hear(FIRST, said(steps=total), everyone_lives)
        run.hear(SECOND, Message({"tokens": total * 100}, "ckpt"), everyone_lives)
    assert run.taken() == {"steps": 5, "tokens": 500, "checkpoint": "ckpt"}
    assert run.taken() == {}, "and what was told is told once"


@given(st.lists(st.integers(0, 2**50), min_size=1), st.lists(st.booleans()))
def test_whenever_it_is_read_the_growth_is_told_once(totals: Sequence[int], reads: Sequence[bool]) -> None:
    """Amounts add up to the growth between the first word and the last, however beats and messages fall."""
    run = RunTotals(0.0)
    told = 0
    ordered = sorted(totals)
    for place, total in enumerate(ordered):
        run.hear(FIRST, said(tokens=total), everyone_lives)
        if place < len(reads) and reads[place]:
            told += int(run.taken().get("tokens") or 0)
    told += int(run.taken().get("tokens") or 0)
    assert told == ordered[-1] - ordered[0]


def test_how_long_it_waited_for_data_is_told_as_what_it_grew_by() -> None:
    """Seconds have decimals; the first word is a beginning here as well, and who says 0 more has not waited."""
    run = RunTotals(0.0)
    for total in (12.5, 13.0, 13.25):
        run.hear(FIRST, said(data_wait_seconds=total), everyone_lives)
    assert run.taken() == {"data_wait_seconds": 0.75}
    run.hear(FIRST, said(data_wait_seconds=13.25), everyone_lives)
    assert run.taken() == {"data_wait_seconds": 0.0}
    run.hear(FIRST, said(steps=1), everyone_lives)
    assert run.taken() == {}, "who says nothing of it has not said that it did not wait"


@given(st.lists(st.integers(0, 100), min_size=2), st.sets(st.integers(0, 99)))
def test_a_lost_message_costs_nothing_but_time(steps: Sequence[int], lost: set[int]) -> None:
    """Sending never waits, so messages are lost when the agent is busy: the next one says it all again."""
    ordered = sorted(steps)
    run = RunTotals(0.0)
    for place, step in enumerate(ordered):
        if place in (0, len(ordered) - 1) or place not in lost:
            run.hear(FIRST, said(steps=step), everyone_lives)
    assert run.taken() == {"steps": ordered[-1] - ordered[0]}
