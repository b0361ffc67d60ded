"""Why a finding says what it says: each number against its mark, what was ruled out, and the plot."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from analyzer.findings.argue import argue, ruled_out, signal
from analyzer.findings.finding import Finding, Sign
from analyzer.findings.ledger_findings import findings
from analyzer.findings.signs import Context, IdleGpus, idle_signs, signs
from analyzer.findings.witness_signs import mark_of
from analyzer.interfaces.text.finding_explain import plot_lines
from analyzer.ledger.thresholds import Thresholds
from analyzer.period import Calendar
from analyzer.states import BOOKINGS
from analyzer.text.layout import TextLayout
from collector.store.session import Session
from tests.analyzer.ledger.fleet import MONDAY
from tests.analyzer.reports import example_week
from tests.analyzer.small_site import small_site
from tests.analyzer.windows import stalled, window

WEEK = Calendar().week_of(MONDAY)
LIMITS = Thresholds()


@pytest.fixture(scope="module")
def site() -> Iterator[tuple[Session, list[Finding]]]:
    """The small site, analysed, and its findings."""
    fleet = small_site()
    fleet.analyze()
    with fleet.store.session() as session:
        yield session, findings(session, WEEK.start, WEEK.end)


def test_a_verdict_passes_its_own_marks(site: tuple[Session, list[Finding]]) -> None:
    """What explain shows is what decided: of a high verdict no mark that it needed is missed."""
    session, found = site
    for finding in (one for one in found if one.state in ("starved", "communicating", "throttled", "underused")):
        said = argue(session, finding, found, WEEK).signs
        assert said, finding.rule
        needed = [
            sign for sign in said if not sign.needed.startswith("or ") and "for high confidence" not in sign.needed
        ]
        either = [sign for sign in said if sign.needed.startswith("or ")]
        missed = [sign for sign in needed if sign.holds is False]
        assert not missed or any(sign.holds for sign in either), (finding.rule, missed)


def test_heat_is_booked_apart_and_named(site: tuple[Session, list[Finding]]) -> None:
    """Two findings of one run: each names the other as what it does not claim."""
    session, found = site
    slow, heat = (next(one for one in found if one.cause == cause) for cause in ("straggler", "thermal"))
    assert f"({heat.id})" in " ".join(one.what for one in argue(session, slow, found, WEEK).ruled_out)
    assert f"({slow.id})" in " ".join(one.what for one in argue(session, heat, found, WEEK).ruled_out)


@pytest.mark.parametrize("booked", [one for one in BOOKINGS if one.klass == "avoidable"], ids=str)
def test_every_rule_can_be_explained_where_nothing_was_reported(booked: Any) -> None:
    """A host that tells little must not break the page on which somebody argues."""
    cause = booked.cause or ""
    for windows in ([], [window()], [stalled(place) for place in range(3)]):
        for sign in (
            *signs(booked.state, cause, windows, LIMITS, Context()),
            *idle_signs(cause, IdleGpus(0, 0), windows, LIMITS),
        ):
            assert sign.what
            assert (sign.holds is None) == (sign.seen == "not reported")
        signal(booked.state, cause, windows, [0, 600_000_000], LIMITS)


def test_a_second_candidate_is_named_with_its_share_and_what_speaks_for_it() -> None:
    """Full workers that wait for a mount as well: who reads "preprocessing" may look at the wrong one."""
    both: dict[str, Any] = {
        "workers": 8,
        "waiting": 250,
        "mount_waited": 1_800,
        "mount_read": 10**9,
        "cpu_throttled": 0,
    }
    both |= {"block_read": 0, "pressure_io": 200, "disk_busy": 20, "written": 0}

    def second(busiest: int) -> list[Sign]:
        windows = [stalled(place, **both, busiest=busiest) for place in range(9)]
        told = signs("starved", "preprocessing", windows, LIMITS, Context())
        return [sign for sign in told if sign.what.startswith("second candidate")]

    (sign,) = second(800)
    assert sign.what == "second candidate: network storage"
    assert re.fullmatch(r"[2-7]\d% probable; loader workers waiting 25%, mount reads, stalled 4.5 reads", sign.seen)
    assert sign.holds is False
    assert second(990) == []


def test_only_what_was_measured_is_ruled_out() -> None:
    """A disk that nobody looked at may be the limit."""
    finding = replace(example_week.findings()[2], state="starved", cause="preprocessing")
    blind = ruled_out(finding, [stalled(place) for place in range(3)], [], {}, LIMITS)
    assert [one.what for one in blind] == ["straggler"]
    seen = ruled_out(
        finding, [stalled(place, disk_busy=40, waiting=0) for place in range(3)], [], {"starting": 3_600_000}, LIMITS
    )
    assert [one.what for one in seen] == ["storage", "straggler", "starting"], "an object store was not looked at"
    brief = ruled_out(finding, [stalled(0)], [], {"starting": 179_999}, LIMITS)
    assert [one.what for one in brief] == ["straggler"], "0.0 GPU-hours are nothing to say"
    full = ruled_out(finding, [stalled(place, disk_busy=950) for place in range(3)], [], {}, LIMITS)
    assert "storage" not in [one.what for one in full]


def test_the_plot_shows_the_share_and_the_signal(site: tuple[Session, list[Finding]]) -> None:
    """Half of the time waits: half of the rows are filled by it, and below stands the worker at its core."""
    session, found = site
    finding = next(one for one in found if one.cause == "preprocessing")
    drawn = argue(session, finding, found, WEEK).plot
    assert drawn is not None
    assert all(abs(own + gone - 100) < 0.1 for own, gone in zip(drawn.working, drawn.lost, strict=True))
    assert drawn.signal is not None
    assert (drawn.signal.name, drawn.signal.mark) == ("busiest worker", mark_of("preprocessing", "busiest") / 10)
    assert {value for value in drawn.signal.values if value is not None} == {98.0}
    lines = plot_lines(drawn, TextLayout(ascii=True), WEEK, "a")
    assert max(map(len, lines)) <= 78
    assert any("#" in line for line in lines)
    assert plot_lines(replace(drawn, times=drawn.times[:3]), TextLayout(), WEEK, "a") == []


def test_silence_in_a_signal_is_a_gap() -> None:
    """A stretch in which nobody reported is empty, and not at nothing."""
    drawn = signal("starved", "preprocessing", [stalled(0, busiest=980)], [0, 600_000_000], LIMITS)
    assert drawn is not None
    assert drawn.values == (98.0, None)
