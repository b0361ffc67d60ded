"""When a finding is open, closed and opened again: by the hours of the ledger, and by no clock."""

import itertools
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.wire.units import DAY_US, HOUR_US
from analyzer.findings.life import QUIET_US, SeenDay, as_of, spells

ID = "f-aaaa"


def seen(*hours: int) -> list[SeenDay]:
    """Return the days of a finding that was seen in these hours, counted from the first day."""
    days: dict[int, int] = {}
    for hour in hours:
        days[hour // 24] = days.get(hour // 24, 0) | 1 << hour % 24
    return [
        SeenDay(day * DAY_US, bits, bits.bit_count() * 1000, None, bits.bit_count() * 1000, 0)
        for day, bits in sorted(days.items())
    ]


def test_it_stays_open_through_a_quiet_day_and_no_longer() -> None:
    """What comes back within a day is the same loss; what does not is closed when the day is over."""
    (one,) = spells(seen(0, 24), 25 * HOUR_US, None)
    assert (one.opened_at, one.updated_at, one.closed_at, one.hours) == (0, 25 * HOUR_US, None, 2)
    first, second = spells(seen(0, 26), 27 * HOUR_US, None)
    assert (first.closed_at, second.opened_at, second.closed_at) == (HOUR_US + QUIET_US, 26 * HOUR_US, None)


def test_it_is_closed_only_by_hours_that_are_known() -> None:
    """A ledger that lags accuses nobody of nothing, and closes nothing either."""
    assert spells(seen(0), HOUR_US + QUIET_US - 1, None)[0].closed_at is None
    assert spells(seen(0), HOUR_US + QUIET_US, None)[0].closed_at == HOUR_US + QUIET_US


def test_the_end_of_its_run_closes_it() -> None:
    """Nothing can go on that has no run; the hour in which it ended is whole."""
    (one,) = spells(seen(0), 3 * HOUR_US, ended_at=90 * 60_000_000)
    assert one.closed_at == 2 * HOUR_US
    (again,) = spells(seen(0, 5), 6 * HOUR_US, ended_at=None)  # a run of the same name began
    assert again.closed_at is None


def test_a_life_is_told_as_of_a_moment() -> None:
    """The list of an earlier week says what was known at its end."""
    life = spells(seen(0, 100), 101 * HOUR_US, None)
    assert as_of(life, ID, 0) is None
    early, late = as_of(life, ID, 10 * HOUR_US), as_of(life, ID, 101 * HOUR_US)
    assert early is not None
    assert late is not None
    assert (early.state, early.updated_at, early.reopened) == ("open", HOUR_US, 0)
    assert (late.state, late.first_at, late.opened_at, late.reopened) == ("reopened", 0, 100 * HOUR_US, 1)
    between = as_of(life, ID, 50 * HOUR_US)
    assert between is not None
    assert between.state == "closed"


@settings(max_examples=60, deadline=None, derandomize=True)
@given(hours=st.sets(st.integers(0, 24 * 20), min_size=1, max_size=60), until=st.integers(1, 24 * 25))
def test_spells_hold_every_hour_once_and_never_touch(hours: set[int], until: int) -> None:
    """Time is conserved over spells, they are a quiet day apart, and only the last can be open."""
    known = max(until, max(hours) + 1) * HOUR_US
    found = spells(seen(*hours), known, None)
    assert sum(spell.hours for spell in found) == len(hours)
    assert sum(spell.milliseconds for spell in found) == 1000 * len(hours)
    assert all(spell.closed_at is not None and spell.closed_at <= known for spell in found[:-1])
    assert all(later.opened_at - earlier.updated_at > QUIET_US for earlier, later in itertools.pairwise(found))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(hours=st.sets(st.integers(0, 24 * 20), min_size=1, max_size=60), moment=st.integers(1, 24 * 21))
def test_what_was_said_at_a_moment_is_not_changed_by_what_came_later(hours: set[int], moment: int) -> None:
    """A list of a week reads the same a month later: the book up to then is the book of then."""
    until = [hour for hour in hours if hour < moment]
    then = as_of(spells(seen(*until), moment * HOUR_US, None), ID, moment * HOUR_US) if until else None
    later = as_of(spells(seen(*hours), (24 * 30) * HOUR_US, None), ID, moment * HOUR_US)
    assert (then is None) == (later is None)
    if then is not None and later is not None:  # of what went on, the last hour before the moment is not kept
        assert then == replace(later, updated_at=then.updated_at)
        assert then.updated_at <= later.updated_at <= moment * HOUR_US
