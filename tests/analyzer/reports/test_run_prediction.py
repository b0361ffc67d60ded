"""How long a run would have taken with a change: only where the change ends a wait, and the run has ended."""

from dataclasses import replace

from analyzer.interfaces.text.run_text import run_sentence, sooner
from analyzer.reports.reader import Reader
from analyzer.text.words import NO_BREAK
from collector.store.session import Session
from tests.analyzer.reports.test_reading import BERLIN, EXAMPLE

LARGEST = "the largest loss that has one: "


def test_a_wait_that_ends_shortens_the_run_by_its_share_of_each_gpu(session: Session) -> None:
    """$432 at $2.60 are 166 GPU-hours, ten and a half hours of each of 16 GPUs."""
    report = Reader(session, BERLIN, EXAMPLE).run("81234")
    (finding,) = (each for each in report.findings if each.id == "f-7kq2")
    (advice,) = (each for each in report.recommendations if finding.id in each.finding_ids)
    assert (sooner(advice, finding, report) or "").replace(NO_BREAK, " ") == "70 h 30 min -> about 60 h 07 min (P50)"
    assert sooner(advice, replace(finding, state="held_idle"), report) is None
    assert sooner(replace(advice, ends_work=True), replace(finding, cause="hang"), report) is None
    running = report.model_copy(update={"facts": report.facts.model_copy(update={"ended_at": None})})
    assert sooner(advice, finding, running) is None
    nothing = replace(advice, saves_milliseconds=replace(advice.saves_milliseconds, p50=0))
    assert sooner(nothing, finding, report) is None


def test_what_nobody_can_explain_is_not_headed_by_a_trifle(session: Session) -> None:
    """Four fifths of a run are unexplained: that comes before the largest loss that has a cause."""
    report = Reader(session, BERLIN, EXAMPLE).run("81234")
    first = report.findings[0]
    assert run_sentence(report) == first.claim
    worked = next(one for one in report.entries if one.state == "productive")
    unexplained = worked.model_copy(update={"state": "unexplained", "cause": None})
    others = tuple(one for one in report.entries if one is not worked)
    told = run_sentence(report.model_copy(update={"entries": (unexplained, *others)}))
    assert f"of its GPU time is low utilization without a proven cause; {LARGEST}{first.claim}" in told
