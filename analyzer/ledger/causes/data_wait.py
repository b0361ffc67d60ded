"""Waiting for data by the run's own clock: the strongest witness of how much of its stand-still is want of input."""

from dataclasses import replace

from analyzer.ledger.thresholds import Thresholds
from analyzer.ledger.windows import RunWindow, Verdict

UNKNOWN = "unknown"  # the cause where the run says that it waited, and nothing on its hosts says for what


def by_own_word(window: RunWindow, verdict: Verdict, limits: Thresholds) -> Verdict:
    """Return the verdict with as much of the stand-still starved as the run says, and the rest of it not.

    The cause stays what the host showed. A rest that is more than noise is unexplained, and not suspected of input.
    """
    if window.data_wait is None:
        return verdict
    starved = window.waited * 1000 // window.still if window.waited else 0
    is_named = verdict.input_cause is not None
    return replace(
        verdict,
        is_low=verdict.is_low and window.still - window.waited >= limits.low_permille,
        input_cause=(verdict.input_cause or UNKNOWN) if starved else None,
        input_suspicion=None,
        input_confidence=verdict.input_confidence if is_named else "high",
        starved_permille=starved,
    )
