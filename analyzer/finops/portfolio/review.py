"""What to do about each workload, by what it did with its GPUs. Pure; the first rule that fits is the word.

The words are those of a review, not of a verdict: whether a workload is worth its result nobody can see from here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agent.wire.units import PERMILLE
from analyzer.finops.unit_cost.report import UnitLine
from analyzer.text.rounding import nearest
from analyzer.text.words import decimal

_Word = Literal["retire?", "fix first", "shrink", "dearer", "earns", "look"]
WORDS: tuple[_Word, ...] = ("retire?", "fix first", "shrink", "dearer", "look", "earns")
_IDLE_LEAST = 500  # permille idle: more than half the time nobody used it (ours)
_AVOIDABLE_LEAST = 200  # permille avoidable: a fifth (ours; severe waits for input begin there as well)
_USEFUL_LEAST = 600  # permille useful, to say that it earns (ours; the target of a whole fleet is 800)
_DEARER_LEAST = 1.25  # times what a unit cost in the period before
_MEASURED_LEAST = 500  # permille measured, below which nothing is said
_SMALLER = ("right_size", "share_mig", "share_time", "pack", "fewer_replicas")  # kinds of docs/changes.md


@dataclass(frozen=True, slots=True)
class Workload:
    """All runs of one name and team in a period; GPU milliseconds, and millionths (None: some has no price)."""

    name: str
    team: str | None
    stage: str | None
    runs: int
    skus: tuple[str, ...]
    milliseconds: int
    micros: int | None
    useful: int
    avoidable: int
    idle: int
    unobserved: int

    @property
    def measured(self) -> int:
        """GPU milliseconds that were measured."""
        return self.milliseconds - self.unobserved


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A workload, the word on it, and why; `advice` are the recommendations that are open for it."""

    workload: Workload
    word: _Word
    why: str
    advice: tuple[str, ...] = ()


def review(
    workloads: Sequence[Workload],
    units: Mapping[tuple[str, str | None], UnitLine],
    advice: Mapping[tuple[str, str | None], Sequence[tuple[str, str]]],
) -> tuple[Reviewed, ...]:
    """Return a word on each; `units` are what their work cost, `advice` ids and kinds of what is recommended."""
    return tuple(
        _one(each, units.get((each.name, each.team)), advice.get((each.name, each.team), ())) for each in workloads
    )


def _one(each: Workload, unit: UnitLine | None, advice: Sequence[tuple[str, str]]) -> Reviewed:
    ids = tuple(id_ for id_, _ in advice)
    if not each.measured or each.measured * PERMILLE < _MEASURED_LEAST * each.milliseconds:
        return Reviewed(each, "look", "less than half of its time was measured", ids)
    of = "its time" if each.measured >= each.milliseconds else "what was measured of its time"
    idle, avoidable, useful = (_permille(part, each.measured) for part in (each.idle, each.avoidable, each.useful))
    if idle >= _IDLE_LEAST:
        return Reviewed(each, "retire?", f"idle {_percent(idle)} of {of}: ask who still needs it", ids)
    if avoidable >= _AVOIDABLE_LEAST:
        return Reviewed(each, "fix first", f"{_percent(avoidable)} of {of} is avoidable", ids)
    if any(kind in _SMALLER for _, kind in advice):
        return Reviewed(each, "shrink", "a smaller GPU, a slice or fewer of them would do", ids)
    ratio = None if unit is None else unit.ratio
    if unit is not None and ratio is not None and ratio >= _DEARER_LEAST:
        return Reviewed(each, "dearer", f"{ratio:.1f}x per {unit.unit.words} against the period before", ids)
    if useful >= _USEFUL_LEAST:
        return Reviewed(each, "earns", f"useful {_percent(useful)} of {of}", ids)
    return Reviewed(each, "look", f"useful only {_percent(useful)}, and little of the rest is avoidable", ids)


def _permille(part: int, whole: int) -> int:
    return nearest(PERMILLE * part, whole)


def _percent(permille: int) -> str:
    return f"{decimal(permille, 1)} %"
