"""What may be said of a finding, and what counts of it."""

from dataclasses import replace

import pytest

from analyzer.errors import ConfigError
from analyzer.findings.judgement import (
    JUDGED_LEAST,
    MUTE_DAYS_MAX,
    Judgement,
    Mute,
    last_words,
    mute_until,
    muted,
    reason_of,
    record_of,
    verdict_of,
    word_on,
)
from analyzer.interfaces.text.finding_text import overconfident_words, record_words
from analyzer.period import Calendar
from analyzer.text.words import NO_BREAK

WEEK = Calendar().week(2026, 46)
NEXT = Calendar().week(2026, 47)
NOW = NEXT.start


def word(verdict: str, at: int = 0, finding_id: str = "f-7kq2") -> Judgement:
    """Return one judgement of the week."""
    span = (WEEK.start, WEEK.end, WEEK.label)
    said = (f"{at:04}", finding_id, verdict_of(verdict), "seen it")
    return Judgement(*said, *span, NOW + at, "high", 3_600_000, "starved/preprocessing", "1.abc")


def words(right: int, wrong: int, planned: int = 0) -> list[Judgement]:
    """Return judgements of as many findings."""
    said = ["right"] * right + ["wrong"] * wrong + ["planned"] * planned
    return [word(verdict, finding_id=f"f-{place:04}") for place, verdict in enumerate(said)]


def test_the_last_word_counts_and_each_period_has_its_own() -> None:
    """People change their minds, and a finding that was right last week may be wrong in this."""
    first, second = word("wrong", 1), word("right", 2)
    other = replace(word("planned", 3), period_start=NEXT.start, period_end=NEXT.end)
    assert last_words([second, first, other]) == [second, other]
    assert word_on([first, second, other], "f-7kq2", WEEK) == second
    assert word_on([first, second, other], "f-7kq2", NEXT) == other
    assert word_on([first], "f-none", WEEK) is None


def test_planned_is_right_and_none_judged_is_no_share() -> None:
    """Who accepts a loss agrees that it is one; 0 of 0 is not 0%."""
    record = record_of(words(right=54, wrong=3, planned=1))
    assert (record.high.judged, record.high.right, record.high.percent) == (58, 55, "95%")
    expected = 'of 58 "high" findings with feedback, 55 were right (95%), 1 of them planned'
    assert record_words(record).replace(NO_BREAK, " ") == expected
    assert record_of([]).high.permille is None
    assert "no feedback yet" in record_words(record_of([]))
    assert "%" not in record_words(record_of([]))


@pytest.mark.parametrize(("right", "wrong", "said"), [(999, 1, "99%"), (1, 999, "1%"), (5, 0, "100%"), (0, 5, "0%")])
def test_only_all_is_100_percent(right: int, wrong: int, said: str) -> None:
    """Rounding must not take the one wrong finding out of the sentence."""
    assert record_of(words(right, wrong)).high.percent == said


def test_a_rule_that_breaks_its_promise_is_named_once_enough_were_judged() -> None:
    """High promises 95 of 100; of nineteen judged nothing is said yet."""
    assert record_of(words(JUDGED_LEAST - 5, 4)).overconfident == ()
    (one,) = record_of(words(JUDGED_LEAST - 4, 4)).overconfident
    assert "16 of 20 with feedback were right (80%; 95% is promised)" in overconfident_words(one)
    assert record_of(words(19, 1)).overconfident == ()  # 95% keeps it
    medium = [replace(each, confidence="medium") for each in words(1, 30)]
    assert record_of(medium).overconfident == ()


def test_a_mute_ends() -> None:
    """What is muted for ever is forgotten, so that a date is asked for and a far one refused with the longest."""
    assert mute_until("2026-12-01", "Europe/Berlin", NOW) == Calendar("Europe/Berlin").parse("2026-12-01", NOW * 2).end
    with pytest.raises(ConfigError, match=f"no more than {MUTE_DAYS_MAX} days, until 2027-02-14"):
        mute_until("2027-02-15", "UTC", NOW)
    assert mute_until("2027-02-14", "UTC", NOW)
    for text in ("2026-11-01", "tomorrow", "2026-13-01", "9999-12-31"):
        with pytest.raises(ConfigError):
            mute_until(text, "UTC", NOW)


def test_the_last_mute_counts_until_it_ends() -> None:
    """A mute is taken back by one that ends sooner."""
    first = Mute("1", "f-7kq2", NOW + 100, "known", NOW)
    second = replace(first, mute_id="2", until=NOW + 10, recorded_at=NOW + 1)
    assert muted([first], NOW + 99) == {"f-7kq2": first}
    assert muted([first], NOW + 100) == {}
    assert muted([second, first], NOW + 50) == {}


def test_a_reason_is_one_plain_line() -> None:
    """It is shown on terminals: no control character of it may reach one."""
    assert reason_of(" by\n design \x1b[31m") == "by design [31m"
    for text in ("", " \n", "x" * 501):
        with pytest.raises(ConfigError):
            reason_of(text)
    with pytest.raises(ConfigError, match="right, wrong or planned"):
        verdict_of("maybe")
