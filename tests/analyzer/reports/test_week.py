"""The report of a week: one sentence, a table that sums to the bill, and what was not measured."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.finops.charges.sums import Charged
from analyzer.interfaces.html import week_html
from analyzer.interfaces.text.sentences import first_sentence
from analyzer.interfaces.text.week_text import status_words, week_text
from analyzer.ledger.breakdown import breakdown_lines
from analyzer.queries.ledger_query import Breakdown, BreakdownEntry, Unpriced
from analyzer.recommendations.recommendation import Range
from analyzer.reports.groups import GroupRow
from analyzer.reports.week import WeekReport, best_next_step, charge_lines, team_lines, week_report
from analyzer.states import BOOKINGS, CLASSES, Booking, booking
from analyzer.text.layout import TextLayout, paint
from collector.store.database import Store
from collector.store.session import Session
from tests.analyzer.reports import example_week

ENTRIES = st.lists(
    st.tuples(st.sampled_from(BOOKINGS), st.integers(1, 10**12), st.integers(0, 10**13)),
    min_size=1,
    unique_by=lambda entry: (entry[0].klass, entry[0].label),
)


def test_the_week_reads_as_it_was_drawn(week: WeekReport, golden: Callable[[str, str], None]) -> None:
    """The drawing is the specification; a change of a word or a figure is read as a diff."""
    golden("report/week.txt", week_text(week, TextLayout()))


@pytest.mark.parametrize(("width", "name"), [(64, "narrow"), (120, "wide")])
def test_other_widths(week: WeekReport, golden: Callable[[str, str], None], width: int, name: str) -> None:
    """--width is honoured: the bars give way first, no figure ever does."""
    text = week_text(week, TextLayout(width, ascii=True))
    assert max(map(len, text.splitlines())) <= width
    golden(f"report/week_{name}.txt", text)


@pytest.mark.parametrize(
    ("status", "known", "words"),
    [
        ("closed", 168, "closed 18 Nov 00:00"),
        ("final", 168, "final 1 Dec 00:00"),
        ("open", 168, "open, closes 18 Nov 00:00"),
        ("provisional", 120, "preliminary, final on 1 Dec 00:00, 120 of 168 hours"),
    ],
)
def test_the_head_says_when_the_week_closes(week: WeekReport, status: str, known: int, words: str) -> None:
    """By the site's clock: after that only corrections are made, and before it every figure may move."""
    hours = replace(week.hours, status=status, known=known)
    report = replace(week, hours=hours)
    assert status_words(report) == words
    assert words in week_text(report, TextLayout()).partition("fleet")[0]
    assert words in week_html(report)


def test_piped_output_is_ascii(week: WeekReport) -> None:
    """Pipes and log files see the same columns without a byte beyond ASCII."""
    text = week_text(week, TextLayout(ascii=True))
    assert text.isascii()
    assert "##########      16,563    36,302   53.6" in text


def test_colours_add_nothing_but_colour(week: WeekReport) -> None:
    """Whoever sees no colour must read the same words."""
    text = week_text(week, TextLayout())
    assert "\x1b[31m" in paint(text)
    assert re.sub(r"\x1b\[\d+m", "", paint(text)) == text


@given(ENTRIES)
def test_every_column_adds_up_as_printed(entries: list[tuple[Booking, int, int]]) -> None:
    """Readers add the rows and the classes with a pencil; both sums must be the printed ones."""
    made = sorted(
        (BreakdownEntry(what.klass, what.label, ms, cost) for what, ms, cost in entries),
        key=lambda e: CLASSES.index(e.klass),
    )
    table = breakdown_lines(Breakdown(tuple(made)))
    for column in ("hours", "money", "percent"):
        values = [(line.level, int(str(getattr(line, column)).replace(",", "").replace(".", ""))) for line in table]
        total = values[-1][1]
        assert sum(value for level, value in values if level in ("class", "only")) == total
        assert sum(value for level, value in values if level in ("row", "only")) == total


def test_without_prices_time_comes_first(week: WeekReport) -> None:
    """No price is guessed: no dollar column, shares of time, and a sentence that says what has no price."""
    time_only = tuple(replace(entry, cost_micros=None) for entry in week.breakdown.entries)
    unpriced = (Unpriced("V100-16GB", week.breakdown.milliseconds),)
    text = week_text(replace(week, breakdown=Breakdown(time_only, unpriced)), TextLayout())
    assert "4,459 GPU-hours were avoidable (13.8%)" in text
    assert "$ unknown: no price for V100-16GB (32,256.0 GPU-hours)" in " ".join(text.split())
    assert "67,738" not in text


def test_a_part_without_a_price_is_unknown_and_not_0(week: WeekReport) -> None:
    """A team on GPUs whose price nobody knows did not hold them for nothing, and the sentence must not sound whole."""
    unpriced = (Unpriced("V100-16GB", 3_600_000),)
    entries = tuple(replace(e, cost_micros=None) if e.klass == "unknown" else e for e in week.breakdown.entries)
    last = week.teams[-1]
    bare = replace(last, breakdown=Breakdown(tuple(replace(e, cost_micros=None) for e in last.breakdown.entries)))
    report = replace(week, breakdown=Breakdown(entries, unpriced), teams=(*week.teams[:-1], bare))
    table = breakdown_lines(report.breakdown)
    assert {line.money for line in table if line.klass == "unknown"} == {"-"}
    assert all(line.money != "-" for line in table if line.klass != "unknown")
    assert [line.money == "-" for line in team_lines(report)] == [False] * (len(week.teams) - 1) + [True, False]
    assert "of what has a price was avoidable" in first_sentence(report)
    assert "% of GPU time)" in first_sentence(report).replace("\u00a0", " ")
    lost = tuple(replace(e, cost_micros=None) if e.klass == "avoidable" else e for e in week.breakdown.entries)
    assert "GPU-hours were avoidable" in first_sentence(replace(week, breakdown=Breakdown(lost, unpriced)))


def test_without_a_week_before_the_column_is_left_out(week: WeekReport) -> None:
    """A difference against a week that is not wholly known would be invented."""
    text = week_text(replace(week, previous=None), TextLayout())
    assert "+/-" not in text
    assert "than the week before" not in text


def test_a_label_that_is_gone_keeps_its_row(week: WeekReport) -> None:
    """What fell to nothing is the best news of a week: the row stays, and the column still adds up."""
    assert week.previous is not None
    kept = tuple(entry for entry in week.breakdown.entries if entry.label != "drained")
    line = next(line for line in breakdown_lines(Breakdown(kept), week.previous) if line.label == "drained")
    assert (line.hours, line.money, line.change) == ("0", "0", "-1.9")


def test_an_empty_ledger_says_what_to_do() -> None:
    """The first report of a new site is read before its first analysis."""
    with Store.open(None) as store, store.session() as session:
        report = week_report(session, example_week.W46, example_week.CALENDAR, "USD", [], [])
    text = week_text(report, TextLayout())
    assert "run gpuledger admin analyze" in text
    assert "0 GPUs" not in text, "what is not known is not told as nothing"


def test_a_long_name_of_a_period_stands_apart(week: WeekReport) -> None:
    """A day's label fills its column to the end."""
    day = replace(week, period=replace(week.period, label="2026-11-11"))
    assert "period 2026-11-11 Mon 9 Nov" in week_text(day, TextLayout())


@cache
def _of_nothing() -> WeekReport:
    with Store.open(None) as store, store.session() as session:
        return week_report(session, example_week.W46, example_week.CALENDAR, "USD", [], [])


@given(amounts=st.lists(st.integers(1, 10**9), min_size=3, max_size=3))
def test_the_sentence_says_the_figures_of_the_table(amounts: list[int]) -> None:
    """Rounded apart, they would differ by a tenth now and then, and the reader would trust neither."""
    kinds = [("productive", "compute"), ("held_idle", "abandoned"), ("unallocated", "free")]
    entries = tuple(
        BreakdownEntry(booking(*kind).klass, booking(*kind).label, amount, amount)
        for kind, amount in zip(kinds, amounts, strict=True)
    )
    line = next(line for line in breakdown_lines(Breakdown(entries)) if line.klass == "avoidable")
    report = replace(_of_nothing(), breakdown=Breakdown(entries))
    assert f"({line.percent}%)" in first_sentence(report)


def test_names_cannot_write_to_the_terminal(week: WeekReport) -> None:
    """A run's name is its user's text: an escape sequence in it must stay text."""
    first = replace(week.recommendations[0], subject="evil\x1b[2Jname\u202e")
    text = week_text(replace(week, recommendations=(first,)), TextLayout())
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_the_best_next_step_counts_the_price_of_moving() -> None:
    """A setting that costs nothing beats a restart that saves a little more."""
    step = best_next_step(example_week.recommendations())
    assert step is not None
    assert step.id == "r-3mx8"


def test_the_sentence_says_why_the_best_step_is_not_the_first_of_the_list(week: WeekReport) -> None:
    """$1,022 before $1,258 without a word reads as a mistake; where both are one there is nothing to explain."""
    assert "costs nothing to try; r-9td4 saves more, but moving costs $280." in first_sentence(week)
    (only,) = [one for one in week.recommendations if one.id == "r-3mx8"]
    assert first_sentence(replace(week, recommendations=(only,))).endswith("saves about $1,022 per week.")
    harms = tuple(replace(one, losers="accuracy") if one.id == "r-3mx8" else one for one in week.recommendations)
    assert "nothing to try" not in first_sentence(replace(week, recommendations=harms))
    bare = tuple(replace(one, cost_to_move_micros=None) if one.id == "r-9td4" else one for one in week.recommendations)
    assert "r-9td4 saves more, but what moving costs is not known." in first_sentence(
        replace(week, recommendations=bare)
    )


def test_without_prices_the_best_step_is_that_of_time() -> None:
    """A restart of 700 GPU-hours that saves 600 is no step, whatever nobody priced."""
    first, second = example_week.recommendations()[:2]
    bare = [replace(one, saves_micros=None, cost_to_move_micros=None) for one in (first, second)]
    most = max(bare, key=lambda one: one.saves_milliseconds.p50)
    dear = [replace(one, cost_to_move_milliseconds=10**12) if one is most else one for one in bare]
    assert best_next_step(bare) == most
    assert best_next_step(dear) != dear[bare.index(most)]


def test_what_can_only_be_tried_is_no_best_step_and_saves_nothing_that_is_known(week: WeekReport) -> None:
    """ "Saves about $0 a week" was the best next step of a month."""
    nothing = Range(0, 0, 0)
    tried = replace(week.recommendations[0], saves_milliseconds=nothing, saves_micros=nothing)
    alone = replace(week, recommendations=(tried,))
    assert "Do this first" not in first_sentence(alone)
    assert "Together" not in week_text(alone, TextLayout())
    text = week_text(replace(week, recommendations=(*week.recommendations[1:3], tried)), TextLayout())
    assert re.search(rf"{tried.id} .* -$", text, re.MULTILINE)
    assert "Together" in text


def test_charges_stand_beside_the_cost_and_add_up(week: WeekReport) -> None:
    """A team reads what it is charged beside what it cost; what is left is the platform's."""
    charged = tuple(
        Charged(row.name, row.held, row.breakdown.milliseconds, row.breakdown.cost_micros, _charged_of(row))
        for row in week.teams
    )
    assert charge_lines(week) == ()
    *rows, total = charge_lines(replace(week, charged=charged))
    assert [line.name for line in rows] == ["team-nlp", "others, at cost", "nobody (not allocated)"]
    printed = {line.name: line.money for line in team_lines(week)}
    assert rows[0].cost == printed["team-nlp"]
    assert rows[1].left == "0"
    assert total.cost == printed["total"]
    for column in ("cost", "charged", "left"):
        amounts = [int(getattr(line, column).replace(",", "")) for line in (*rows, total)]
        assert sum(amounts[:-1]) == amounts[-1]
    for width in (64, 80):
        text = week_text(replace(week, charged=charged), TextLayout(width))
        assert "CHARGED  " in text
        assert all(len(line) <= width for line in text.splitlines())
    unpriced = replace(charged[0], charged_micros=None)
    assert charge_lines(replace(week, charged=(unpriced, *charged[1:]))) == ()


def _charged_of(row: GroupRow) -> int:
    cost = row.breakdown.cost_micros or 0
    return 0 if not row.held else cost + 1_234_567_890 if row.name == "team-nlp" else cost


def test_corrections_are_told_apart(session: Session, week: WeekReport) -> None:
    """What was learned after a week closed is a line, never a silent rewrite."""
    moved = (
        BreakdownEntry("useful", "productive", -57_600_000, -41_600_000),
        BreakdownEntry("avoidable", "lost work", 57_600_000, 41_600_000),
    )
    text = week_text(replace(week, corrections=moved), TextLayout())
    assert "productive: -16.0 GPU-hours, -$41.60" in text
    assert "lost work: 16.0 GPU-hours, $41.60" in text
    page = week_html(replace(week, corrections=moved))
    assert "Corrected since it closed" in page
    assert "<li>lost work: 16.0 GPU-hours, $41.60</li>" in page
    assert "Corrected" not in week_html(week)
    assert "67,738" in text
