"""Shares of a loss that realised savings show, by kind of change: what may take the place of what is assumed."""

from collections import Counter
from collections.abc import Sequence

from analyzer.recommendations.lifecycle.lifecycle_tables import lifecycle_statuses
from analyzer.recommendations.lifecycle.realised import all_realised, case_of
from analyzer.recommendations.outcome.calibration import CalibrationCase, proposed_shares
from analyzer.recommendations.saving import Share, realised_share
from collector.store.session import Session


def learned_shares(session: Session) -> dict[str, Share]:
    """Return the shares of kinds with twenty realised cases and more, of the whole book of recommendations.

    Raises:
        StoreError: the store does not answer.
    """
    cases = (case_of(one) for one in all_realised(session, lifecycle_statuses(session)))
    return shares_of([case for case in cases if case is not None])


def shares_of(cases: Sequence[CalibrationCase]) -> dict[str, Share]:
    """Return what the cases show, each share with how many they are; kinds with fewer are left out."""
    counts = Counter(case.kind for case in cases if case.lost)
    return {kind: realised_share(shown, counts[kind]) for kind, shown in proposed_shares(cases).items()}
