"""Of recommendations that would save the same seconds one stands, and the others say that they are instead of it."""

from collections.abc import Sequence
from dataclasses import replace

from analyzer.recommendations.recommendation import Recommendation


def without_doubles(advice: Sequence[Recommendation]) -> list[Recommendation]:
    """Return them in their order; what shares seconds with a better one that stands names it, and counts no more.

    The best are taken first: those that save most at P50, of those that save as much what costs least to move. What is
    held back replaces nothing.
    """
    taken: list[Recommendation] = []
    better: dict[str, str] = {}
    for one in sorted((one for one in advice if one.stands), key=_by_saving):
        rival = next((other for other in taken if _share_seconds(one, other)), None)
        if rival is None:
            taken.append(one)
        else:
            better[one.id] = rival.id
    return [replace(one, instead_of=better[one.id]) if one.id in better else one for one in advice]


def _share_seconds(one: Recommendation, other: Recommendation) -> bool:
    """Return whether two would save the same seconds: both stand on one finding or notice, of the same runs.

    Findings share no second, so that what stands on different ones may be added up.
    """
    if {*one.finding_ids, *one.notice_ids}.isdisjoint((*other.finding_ids, *other.notice_ids)):
        return False
    return not (one.run_ids and other.run_ids) or not set(one.run_ids).isdisjoint(other.run_ids)


def _by_saving(one: Recommendation) -> tuple[int, int, int, str]:
    saved = one.saves_micros.p50 if one.saves_micros else 0
    return -saved, -one.saves_milliseconds.p50, one.cost_to_move_milliseconds, one.id
