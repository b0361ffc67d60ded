"""By which signal the measured time was judged: of what it is a share, and what is not known."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.interfaces.html import week_html
from analyzer.interfaces.mail.compose import compose
from analyzer.interfaces.mail.team_week import of_team, team_facts
from analyzer.interfaces.text.week_text import measured_with_words, week_text
from analyzer.period import Calendar, Period
from analyzer.reports.filtered_reader import confine
from analyzer.reports.groups import MeasuredWith, by_what, by_what_of_teams
from analyzer.reports.request import LedgerFilter
from analyzer.reports.week import WeekReport
from analyzer.text.as_json import as_json
from analyzer.text.layout import TextLayout
from collector.store.session import Session
from tests.analyzer.ledger.fleet import DAY, HOUR, MONDAY, Fleet
from tests.analyzer.reports import example_week

T = MONDAY
H100, A100 = "H100-80GB", "A100-80GB"
WEEK: Period = Calendar("UTC").week_of(T)
NVML_ALONE: dict[str, Any] = {"sm_active_ratio": None}


def _plain(words: str | None) -> str:
    return (words or "").replace("\N{NO-BREAK SPACE}", " ")


def _words(fleet: Fleet) -> str:
    with fleet.store.session() as session:
        return _plain(measured_with_words(by_what(session, WEEK)))


def _two_kinds() -> Fleet:
    """Return an H100 that tells SM activity, held for three hours, and an A100 that does not, held for one."""
    fleet = Fleet()
    for node, sku, hours, told in (("h", H100, 3, {}), ("a", A100, 1, NVML_ALONE)):
        fleet.own(node, [f"{node}0"], sku)
        fleet.hold(f"run-{node}", node, [f"{node}0"], T, T + hours * HOUR)
        fleet.sample(node, f"{node}0", T, T + 5 * HOUR, **told)
    return fleet


def test_the_shares_are_of_time_that_was_held_and_measured() -> None:
    """A free GPU is judged by its allocation alone, and a silent one by nothing: neither has a share."""
    fleet = _two_kinds()
    fleet.own("silent", ["s0"])
    fleet.hold("run-s", "silent", ["s0"], T, T + 4 * HOUR)
    fleet.analyze(now=T + DAY)
    with fleet.store.session() as session:
        assert by_what(session, WEEK) == (
            MeasuredWith(H100, 3 * 3_600_000, 3 * 3_600_000, 0),
            MeasuredWith(A100, 3_600_000, 0, 3_600_000),
        )
    assert _words(fleet) == (
        "SM activity 75.0% of measured GPU-hours (H100), NVML utilization 25.0% (A100: input starvation at most medium)"
    )


def test_a_gpu_that_is_shared_counts_once() -> None:
    """Three notebooks on one GPU are told three times what it did; in the ledger it is one GPU."""
    fleet = _two_kinds()
    for run in ("b", "c"):
        fleet.hold(f"run-{run}", "a", ["a0"], T, T + HOUR)
    fleet.analyze(now=T + DAY)
    assert _words(fleet).startswith("SM activity 75.0% of measured GPU-hours (H100), NVML utilization 25.0% (A100:")


def test_a_gpu_that_tells_sm_activity_for_a_part_is_of_both() -> None:
    """Where DCGM stops for a day, what it was judged by on that day is said."""
    fleet = Fleet()
    fleet.own("h", ["h0"])
    fleet.hold("run", "h", ["h0"], T, T + 4 * HOUR)
    fleet.sample("h", "h0", T, T + 3 * HOUR)
    fleet.sample("h", "h0", T + 3 * HOUR, T + 4 * HOUR, **NVML_ALONE)
    fleet.analyze(now=T + DAY)
    assert _words(fleet).startswith("SM activity 75.0% of measured GPU-hours (H100), NVML utilization 25.0% (H100:")


def test_what_an_earlier_release_counted_is_not_known() -> None:
    """Hours without the column are not hours without SM activity: nothing is said of them, and never 0%."""
    fleet = _two_kinds()
    fleet.analyze(now=T + DAY)
    with fleet.store.session() as session:
        session.execute("UPDATE run_doings SET sm_ms = NULL WHERE hour < ?", [T + 2 * HOUR])
        part = by_what(session, WEEK)
        session.execute("UPDATE run_doings SET sm_ms = NULL")
        none = by_what(session, WEEK)
    assert part == (MeasuredWith(H100, 3 * 3_600_000, 3_600_000, 0), MeasuredWith(A100, 3_600_000, None, None))
    assert _plain(measured_with_words(part)) == "SM activity 25.0% of measured GPU-hours (H100), not recorded for 75.0%"
    assert none == (MeasuredWith(H100, 3 * 3_600_000, None, None), MeasuredWith(A100, 3_600_000, None, None))
    assert measured_with_words(none) is None
    assert measured_with_words(()) is None


kinds = st.lists(
    st.tuples(*[st.integers(0, 10**13)] * 3).filter(lambda parts: sum(parts[:2]) > 0), min_size=1, max_size=6
)


@given(kinds)
def test_the_printed_shares_sum_to_all_of_it(parts: list[tuple[int, int, int]]) -> None:
    """A reader adds them up; and no signal is named without a kind of GPU."""
    judged = [MeasuredWith(f"K{n}-80GB", sum(one), one[0], one[1]) for n, one in enumerate(parts)]
    words = _plain(measured_with_words(judged))
    shares = [word.rstrip("%") for word in words.split() if word.endswith("%")]
    assert sum(int(share.replace(".", "")) for share in shares) == 1000
    assert "()" not in words


def test_a_stray_second_names_no_kind_of_gpu() -> None:
    """The first sample of each GPU has no SM activity: an H100 is not judged by NVML for that."""
    words = _plain(measured_with_words([MeasuredWith(H100, 10**9, 10**9 - 5, 5), MeasuredWith(A100, 10**9, 0, 10**9)]))
    assert words.startswith("SM activity 50.0% of measured GPU-hours (H100), NVML utilization 50.0% (A100:")
    assert "NVML" not in str(measured_with_words([MeasuredWith(H100, 10**9, 10**9 - 5, 5)]))


def test_many_kinds_are_counted() -> None:
    """A line names three; of kinds that share a short name the whole is told."""
    skus = ["H100-80GB", "H100-94GB", "H200-141GB", "L40S-48GB", None]
    words = _plain(measured_with_words([MeasuredWith(sku, 100 - n, 100 - n, 0) for n, sku in enumerate(skus)]))
    assert words == "SM activity 100.0% of measured GPU-hours (H100-80GB, H100-94GB, H200, 2 kinds more)"


def _mail(week: WeekReport) -> str:
    """Return what both parts of the e-mail say beside its tables."""
    return "\n".join(words for section in compose(week).sections for words in section.paragraphs)


def test_every_paper_says_it(week: WeekReport) -> None:
    """Terminal, page, e-mail and JSON are one report."""
    said = "SM activity 68.3% of measured GPU-hours (H100), NVML utilization 31.7%"
    for text in (week_text(week, TextLayout()), week_html(week), _mail(week)):
        assert said in " ".join(_plain(text).split())
    told = json.loads(as_json("week", week))["by_what"]
    assert [(one["sku"], one["utilization"] == 0, one["sm_activity"] == 0) for one in told] == [
        (H100, True, False),
        (A100, False, True),
    ]
    assert (
        sum(one["milliseconds"] for one in told)
        == week.measured.held_milliseconds - week.measured.not_measured_milliseconds
    )
    unknown = replace(week, by_what=())
    for text in (week_text(unknown, TextLayout()), week_html(unknown), _mail(unknown)):
        assert "by what" not in text.lower()


@pytest.mark.parametrize(
    ("team", "said"),
    [
        ("team-nlp", "SM activity 100.0% of measured GPU-hours (H100)"),
        ("team-search", "NVML utilization 100.0% of measured GPU-hours (A100: input starvation at most medium)"),
    ],
)
def test_a_team_is_told_of_its_own_hours_alone(week: WeekReport, session: Session, team: str, said: str) -> None:
    """In its e-mail, and to a key that is confined to it: what others' GPUs tell is nothing to it."""
    facts = team_facts(session, example_week.W45, example_week.W46)
    assert _plain(measured_with_words(of_team(week, team, facts).by_what)) == said
    confine(session, LedgerFilter(team=team))
    confined = by_what(session, example_week.W46)
    assert _plain(measured_with_words(confined)) == said
    assert by_what_of_teams(session, example_week.W46) == {team: confined}
