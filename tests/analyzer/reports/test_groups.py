"""The second table of a report may be by model, user, queue and the like: its columns sum as the teams' do."""

from dataclasses import replace
from typing import get_args

import pytest

from analyzer.errors import ConfigError
from analyzer.interfaces.html import week_html
from analyzer.interfaces.text.week_text import week_text
from analyzer.reports.groups import GROUPS_SHOWN, By, GroupRow, Groups, checked_by, groups
from analyzer.reports.week import WeekReport, group_lines
from analyzer.text.layout import TextLayout
from analyzer.text.words import UNKNOWN
from collector.store.session import Session
from tests.analyzer.reports.example_week import W46


def units(text: str | None) -> int:
    """Return a printed amount in its last decimal; what is not known counts nothing."""
    return 0 if text in (None, UNKNOWN) else int(str(text).replace(",", "").replace(".", ""))


@pytest.mark.parametrize("by", get_args(By))
def test_every_grouping_sums_to_the_bill(session: Session, week: WeekReport, by: By) -> None:
    """Exactly, and as printed: one bill has one total, by whatever it is split."""
    found = groups(session, W46, by)
    assert sum(row.breakdown.milliseconds for row in found.rows) == week.breakdown.milliseconds
    assert sum(row.breakdown.cost_micros or 0 for row in found.rows) == week.breakdown.cost_micros
    *lines, total = group_lines(week, found)
    for column in ("hours", "money", "avoidable"):
        assert sum(units(getattr(line, column)) for line in lines) == units(getattr(total, column))


def test_by_team_is_the_table_of_teams(session: Session, week: WeekReport) -> None:
    """The table that everybody knows is one of these, and not a second way of counting."""
    assert groups(session, W46, "team") == week.by_team


def test_what_is_beyond_the_shown_is_one_line(session: Session, week: WeekReport) -> None:
    """A hundred users fill no screen, and the column still sums."""
    one = groups(session, W46, "team").rows[0]
    rows = tuple(replace(one, name=f"user-{number:03}") for number in range(100))
    nobody = GroupRow(None, False, one.breakdown)
    short = Groups("user", (*rows, nobody)).shortened()
    assert len(short.rows) == GROUPS_SHOWN + 1
    assert short.rows[GROUPS_SHOWN - 1].name == "81 others"
    whole = one.breakdown.milliseconds * 101
    assert sum(row.breakdown.milliseconds for row in short.rows) == whole
    assert sum(row.breakdown.cost_micros or 0 for row in short.rows) == (one.breakdown.cost_micros or 0) * 101


def test_runs_without_a_model_are_a_row_with_a_name(session: Session, week: WeekReport) -> None:
    """What is not known is not spread over what is."""
    report = replace(week, grouped=groups(session, W46, "model"))
    text = week_text(report, TextLayout())
    assert "BY MODEL" in text
    assert "no model named" in text
    assert "BY TEAM" not in text
    assert "By model" in week_html(report)


def test_runs_are_called_by_name_and_told_apart_by_number(session: Session, week: WeekReport) -> None:
    """Of forty runs called eval one was dear: which, only its number says."""
    found = groups(session, W46, "run")
    first = found.rows[0]
    assert first.name is not None
    assert found.words(first) == f"{found.called[first.name]} {first.name.rsplit('/', 1)[-1]}"
    text = week_text(replace(week, grouped=found), TextLayout())
    assert "BY RUN" in text


def test_a_word_that_groups_nothing_is_refused() -> None:
    """With the words that do."""
    assert checked_by("node_group") == "node-group"
    assert checked_by(None) is None
    with pytest.raises(ConfigError, match="by is one of team, user, project, model"):
        checked_by("banana")
