"""Marks in cells of tables: an SVG of a few shapes each, there at the first paint and where no script runs.

There are thousands of them, with neither axis nor scale: a figure of analyzer/charts in each would cost a page seconds.
All are drawn in one box that is stretched over its cell. Mails have a picture, since mailers show no SVG.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple

from markupsafe import Markup

from analyzer.ledger.breakdown import BreakdownLine
from analyzer.states import CLASSES
from analyzer.text.words import percent

LONG, _HIGH = 1000.0, 10.0
_LEAST = 2.0  # what is there is seen
_INSET = 0.5  # of a line, so that it is not cut at its ends


class BarSegment(NamedTuple):
    """One rect: the class of its colour, where in the box it begins and how long it is; all of its height or less."""

    klass: str
    at: float
    length: float
    top: float = 0.0
    high: float = _HIGH

    @property
    def drawn(self) -> str:
        """Return it as SVG."""
        place = f'x="{self.at:g}" y="{self.top:g}" width="{self.length:g}" height="{self.high:g}"'
        return f'<rect class="{self.klass}" {place}/>'


@dataclass(frozen=True, slots=True)
class Mark:
    """One mark: its rects, or the points of its line; `told` is for who hears it, unless the cells beside say it."""

    kind: Literal["bar", "stack", "bullet", "spark"]
    parts: Sequence[BarSegment] = ()
    points: str = ""
    told: str = ""

    def __html__(self) -> str:
        """Return the picture, as templates print it."""
        said = Markup('role="img" aria-label="{0}"><title>{0}</title>').format(self.told)
        said = said if self.told else Markup('aria-hidden="true">')
        box = f'class="{self.kind}" viewBox="0 0 {LONG:g} {_HIGH:g}" preserveAspectRatio="none"'
        drawn = "".join(part.drawn for part in self.parts)
        drawn += f'<polyline points="{self.points}"/>' if self.points else ""
        return f"<svg {box} {said}{drawn}</svg>"


def class_parts(weights: Sequence[int]) -> tuple[BarSegment, ...]:
    """Return what each class weighs, in their order, end to end; what weighs nothing is none."""
    ends = accumulate((LONG * weight / (sum(weights) or 1) for weight in weights), initial=0.0)
    spans = zip(CLASSES, pairwise(ends), strict=True)
    return tuple(BarSegment(klass, round(at, 1), round(end - at, 1)) for klass, (at, end) in spans if end > at)


def class_bar(weights: Sequence[int]) -> Mark:
    """Return the bar of the classes, told in words."""
    whole = sum(weights)
    told = (f"{klass} {percent(weight, whole)}" for klass, weight in zip(CLASSES, weights, strict=True) if weight)
    return Mark("bar", class_parts(weights), told=", ".join(told))


def span(klass: str, at: float, length: float) -> Mark:
    """Return a stretch of a whole."""
    return Mark("bar", (BarSegment("rail", 0, LONG), BarSegment(klass, at, max(length, _LEAST) if length else 0)))


def trend(values: Sequence[float | None], told: str) -> Mark | None:
    """Return a line from 0 up, so that its height is told truly; None of fewer than two values."""
    known = [(place, value) for place, value in enumerate(values) if value is not None]
    if len(known) < 2:
        return None
    top, (first, last) = max(value for _, value in known) or 1.0, (known[0][0], known[-1][0])
    step, height = LONG / (last - first), _HIGH - 2 * _INSET
    points = (f"{(at - first) * step:.1f},{_INSET + height * (1 - value / top):.2f}" for at, value in known)
    return Mark("spark", points=" ".join(points), told=told)


class Step(NamedTuple):
    """One line of a table with its bar: where it begins and how long it is, in permille of all that is owned."""

    line: BreakdownLine
    start: float
    length: float

    @property
    def bar(self) -> Mark:
        """Return the bar, of a total in no class's colour."""
        return span(self.line.klass or "whole", self.start, self.length)


def cost_steps(table: Sequence[BreakdownLine]) -> list[Step]:
    """Return the lines with their bars, end to end: each begins where the one above ended, a class spans its states."""
    steps, at = [], 0.0
    for line in table:
        steps.append(Step(line, 0.0 if line.level == "total" else round(1000 * at, 1), round(1000 * line.share, 1)))
        if line.level in ("row", "only"):
            at += line.share
    return steps
