"""How long a command would take with a change: the week's saving, scaled to its run; and whether that came true."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.findings.finding import Finding
from analyzer.text.words import clock, duration, plain

if TYPE_CHECKING:
    from analyzer.interfaces.cli.recording import RecordingReport
    from analyzer.recommendations.recommendation import Recommendation
    from analyzer.reports.run import RunDocument

_WAITS = ("starved", "communicating", "throttled")  # what of a run's time a change ends, so that it ends sooner


@dataclass(frozen=True, slots=True)
class Predicted:
    """Seconds that the same command takes after a change: P20 is the careful one, so the longest."""

    title: str
    p20: int
    p50: int
    p80: int

    @property
    def words(self) -> str:
        """The prediction as people read it: "30:28 (P20 33:02, P80 28:45)"."""
        return f"{clock(self.p50)} (P20 {clock(self.p20)}, P80 {clock(self.p80)})"


def predicted(advice: "Recommendation", report: "RecordingReport") -> Predicted:
    """Return how long the command of a recording would have taken with this change."""
    if report.run is None:
        raise AssertionError("BUG: nothing is recommended where no GPU was seen")
    saved = advice.in_span(advice.saves_milliseconds, report.run.span.end - report.run.span.start)
    wall, gpus = report.microseconds // 1000, max(1, report.header.gpus)
    p20, p50, p80 = (max(0, wall - part // gpus) // 1000 for part in (saved.p20, saved.p50, saved.p80))
    return Predicted(advice.title, p20, p50, p80)


def sooner(advice: "Recommendation", against: Finding, report: "RunDocument") -> str | None:
    """Return how long a run would have taken: "70 h 30 min -> about 60 h 06 min (P50)".

    None where it still runs, or where the change frees GPUs and ends nothing sooner.
    """
    facts = report.facts
    if facts.started_at is None or facts.ended_at is None or facts.started_at < report.span.start:
        return None
    if against.state not in _WAITS or not advice.saves_milliseconds.p50 or not facts.gpus:
        return None
    wall = facts.ended_at - facts.started_at
    saved_ms = advice.in_span(advice.saves_milliseconds, report.span.end - report.span.start).p50 // facts.gpus
    left = max(0, wall // 1_000_000 - saved_ms // 1000)
    return f"{duration(wall // 1_000_000)} -> about {duration(left)} (P50)"


def came_out(before: "RecordingReport", now: "RecordingReport") -> str | None:
    """Return what was predicted for the first change that was proposed then, and where this run lies against it.

    None where nothing was proposed, or one of the two did not end well: a failure is no success.
    """
    if before.run is None or not before.run.recommendations:
        return None
    if any(each.ended is None or each.ended.exit_code != 0 for each in (before, now)):
        return None
    said = predicted(before.run.recommendations[0], before)
    took = now.microseconds // 1_000_000
    if took > said.p20:
        place = "came out slower than the range"
    elif took < said.p80:
        place = "came out faster than the range"
    else:
        place = "came out inside the range"
    return f"predicted then for {plain(said.title)}: {said.words}; {place}"
