"""Marks in cells show what they are given, nothing of silence, and say it in words that run nothing."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import Environment

from analyzer.states import CLASSES
from dashboards.pages.marks import LONG, Mark, class_bar, class_parts, span, trend


@given(st.lists(st.integers(0, 10**9), min_size=len(CLASSES), max_size=len(CLASSES)))
def test_classes_lie_end_to_end_in_their_order(weights: list[int]) -> None:
    """What weighs nothing has no part, and all parts together are the whole."""
    parts = class_parts(weights)
    assert [part.klass for part in parts] == [klass for klass, weight in zip(CLASSES, weights, strict=True) if weight]
    assert sum(part.length for part in parts) == pytest.approx(LONG if any(weights) else 0, abs=0.5)
    assert all(later.at == pytest.approx(part.at + part.length, abs=0.2) for part, later in pairwise(parts))


def test_what_is_there_is_seen_and_what_is_not_is_not() -> None:
    """A thousandth of a cell is less than a pixel."""
    assert [part.length for part in span("useful", 0, 0.1).parts][1] == 2
    assert [part.length for part in span("useful", 0, 0).parts][1] == 0


def test_a_trend_begins_at_nothing_and_leaves_out_silence() -> None:
    """Days that told nothing are no days of 0; one day is no trend."""
    assert trend([None, 3.0, None], "") is None
    found = trend([1.0, None, 2.0, 0.0], "from 1 to 0")
    assert found is not None
    assert found.points == "0.0,5.00 666.7,0.50 1000.0,9.50"


def test_a_mark_says_what_it_shows_or_is_hidden_from_who_hears_the_page() -> None:
    """It is a picture with a name, or the cells beside it have its figures."""
    shown = Environment(autoescape=True).from_string("{{ mark }}")
    told = shown.render(mark=class_bar([1, 1, 0, 0, 0]))
    assert 'role="img" aria-label="useful 50.0%, avoidable 50.0%"' in told
    assert told.count("<rect") == 2
    assert 'aria-hidden="true"' in shown.render(mark=Mark("bar", class_parts([1, 0, 0, 0, 0])))


def test_words_of_a_mark_run_nothing() -> None:
    """Units of work are called by whoever runs it."""
    text = Mark("spark", told='"><script>').__html__()
    assert "<script>" not in text
    assert '"&#34;&gt;&lt;script&gt;"' in text
