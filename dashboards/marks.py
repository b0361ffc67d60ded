"""A bar of 100 that shows the five classes beside one another, and the same in words."""

from collections.abc import Sequence
from dataclasses import dataclass

from analyzer.report.words import percent
from analyzer.states import CLASSES, Class


@dataclass(frozen=True, slots=True)
class Share:
    """One class: where it begins, and how wide it is."""

    klass: Class
    at: float
    width: float


@dataclass(frozen=True, slots=True)
class ClassBar:
    """The shares that are not empty, in the classes' order; `told` is what a screen reader says."""

    shares: tuple[Share, ...]
    told: str


def class_bar(weights: Sequence[int]) -> ClassBar:
    """Return the bar of what each class weighs, in their order."""
    whole, at, found = sum(weights), 0.0, []
    for klass, weight in zip(CLASSES, weights, strict=True):
        width = round(100 * weight / whole, 2) if whole else 0.0
        if width:
            found.append(Share(klass, round(at, 2), width))
        at += width
    told = (f"{klass} {percent(weight, whole)}" for klass, weight in zip(CLASSES, weights, strict=True) if weight)
    return ClassBar(tuple(found), ", ".join(told))
