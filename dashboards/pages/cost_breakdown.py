"""Where GPU time went as bars that lie end to end: from what worked, class by class, to all that is owned."""

from collections.abc import Sequence
from dataclasses import dataclass

from analyzer.ledger.breakdown import BreakdownLine, breakdown_lines
from analyzer.reports.week import WeekReport
from analyzer.states import CLASSES, Class
from dashboards.pages.marks import Mark, span

_ABOUT: dict[Class, str] = {
    "useful": "working",
    "avoidable": "could have worked",
    "overhead": "peers, checkpoints, starting",
    "spare": "free, drained, headroom",
    "unknown": "unexplained, not measured",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the table with its bar: where it begins and how long it is, in permille of all that is owned."""

    line: BreakdownLine
    start: float
    length: float

    @property
    def bar(self) -> Mark:
        """Return the bar, of a total in no class's colour."""
        return span(self.line.klass or "whole", self.start, self.length)


def cost_steps(table: Sequence[BreakdownLine]) -> tuple[Step, ...]:
    """Return the lines with their bars: each begins where the one above ended; a class spans its states."""
    found, at = [], 0.0
    for line in table:
        start = 0.0 if line.level == "total" else at
        found.append(Step(line, round(1000 * start, 1), round(1000 * line.share, 1)))
        if line.level in ("row", "only"):
            at += line.share
    return tuple(found)


@dataclass(frozen=True, slots=True)
class ClassShare:
    """One class of the headline: its amount, its share, how that changed, and the bar's part."""

    klass: Class
    about: str
    amount: str
    percent: str
    change: str | None
    start: float
    length: float


def classes(report: WeekReport) -> tuple[ClassShare, ...]:
    """Return the five classes in their order, rounded as the table rounds them; those without any time too."""
    table = breakdown_lines(report.breakdown, report.previous) if report.breakdown.entries else ()
    known = {line.klass: line for line in table if line.level in ("class", "only")}
    found, at = [], 0.0
    for klass in CLASSES:
        line = known.get(klass)
        share = line.share if line else 0.0
        found.append(
            ClassShare(
                klass,
                _ABOUT[klass],
                (line.money or line.hours) if line else "0",
                line.percent if line else "0.0",
                line.change if line else None,
                round(1000 * at, 1),
                round(1000 * share, 1),
            )
        )
        at += share
    return tuple(found)
