"""What could be done instead of a recommendation: those that would save the same seconds, named with it."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from analyzer.recommendations.recommendation import Alternative, Recommendation


def with_alternatives(advice: Sequence[Recommendation]) -> list[Recommendation]:
    """Return them in their order; what others are instead of names those, the one that saves most first."""
    rivals: dict[str, list[Recommendation]] = defaultdict(list)
    for one in advice:
        if one.instead_of is not None:
            rivals[one.instead_of].append(one)
    return [replace(one, alternatives=_told(rivals[one.id])) if one.id in rivals else one for one in advice]


def _told(rivals: Sequence[Recommendation]) -> tuple[Alternative, ...]:
    return tuple(
        Alternative(
            one.id,
            one.kind,
            one.title,
            one.saves_milliseconds.p50,
            one.saves_micros.p50 if one.saves_micros is not None else None,
        )
        for one in sorted(rivals, key=_by_saving)
    )


def _by_saving(one: Recommendation) -> tuple[int, int, str]:
    return -(one.saves_micros.p50 if one.saves_micros else 0), -one.saves_milliseconds.p50, one.id
