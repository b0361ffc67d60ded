"""Odd hours: what stands out from such hours is found, what is usual is not, and what is not known is not judged."""

from random import Random

from agent.wire.units import HOUR_US, WEEK_US
from analyzer.finops.anomalies import odd, weeks_missing

START = 10 * WEEK_US
END = START + WEEK_US
DOLLAR = 1_000_000
FLOOR = 50 * DOLLAR


def usual(random: Random, weeks: int = 6, noise: float = 0.1) -> dict[int, int]:
    """Return hours of a team that works by day and less on weekends, with noise."""
    found = {}
    for hour in range(START - weeks * WEEK_US, END, HOUR_US):
        of_week = hour % WEEK_US // HOUR_US
        base = (40 if of_week % 24 >= 8 else 10) * (0.3 if of_week >= 120 else 1.0)
        found[hour] = round(base * DOLLAR * (1 + random.uniform(-noise, noise)))
    return found


def test_a_night_of_forgotten_jobs_is_found_whole() -> None:
    """Ten cheap hours at four times their price: their edges are what the reader asks the team about."""
    cost = usual(Random(1))
    first = START + 48 * HOUR_US
    for hour in range(first, first + 8 * HOUR_US, HOUR_US):
        cost[hour] += 30 * DOLLAR
    (found,) = odd(cost, frozenset(cost), START, END, FLOOR)
    assert (found.start, found.end) == (first, first + 8 * HOUR_US)
    assert abs(found.impact - 240 * DOLLAR) < 15 * DOLLAR


def test_usual_weeks_are_not_odd() -> None:
    """Days, nights and weekends differ by four times and more; none of 100 such weeks may name any."""
    assert [seed for seed in range(100) if odd(c := usual(Random(seed)), frozenset(c), START, END, FLOOR)] == []


def test_what_stood_still_is_found_too() -> None:
    """A team that could not work for a day cost less, and that is worth a line."""
    cost = usual(Random(2))
    for hour in range(START + 34 * HOUR_US, START + 42 * HOUR_US, HOUR_US):
        cost[hour] = 0
    (found,) = odd(cost, frozenset(cost), START, END, FLOOR)
    assert found.impact < -250 * DOLLAR


def test_one_hour_and_small_money_are_let_pass() -> None:
    """A glance costs a reader more than ten dollars."""
    cost = usual(Random(3))
    cost[START + 50 * HOUR_US] += 500 * DOLLAR
    assert odd(cost, frozenset(cost), START, END, FLOOR) == []
    cost = {hour: amount // 100 for hour, amount in usual(Random(3)).items()}
    for hour in range(START + 48 * HOUR_US, START + 56 * HOUR_US, HOUR_US):
        cost[hour] *= 4
    assert odd(cost, frozenset(cost), START, END, FLOOR) == []


def test_what_has_no_like_is_not_judged() -> None:
    """Two weeks are one week's word against another's; the reader is told how many more it takes."""
    cost = usual(Random(4), weeks=2)
    for hour in range(START, END, HOUR_US):
        cost[hour] *= 10
    known = frozenset(cost)
    assert odd(cost, known, START, END, FLOOR) == []
    assert weeks_missing(known, START) == 1
    assert weeks_missing(frozenset(usual(Random(4), weeks=3)), START) == 0
    assert weeks_missing(frozenset(), START) == 3


def test_an_hour_that_the_ledger_lacks_is_no_saving() -> None:
    """Silence is not thrift."""
    cost = usual(Random(5))
    silent = set(range(START + 30 * HOUR_US, START + 60 * HOUR_US, HOUR_US))
    known = frozenset(cost) - silent
    assert odd({hour: cost[hour] for hour in known}, known, START, END, FLOOR) == []
