"""Waiting for input: whether, from the GPUs' stand-still; why, from the table of witnesses; else unexplained.

The run's own clock is the strongest witness of how much of its stand-still is want of input (`by_own_word`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from analyzer.ledger.causes.witnesses import (
    BOOKED_PERMILLE,
    INPUTS,
    SURE_PERMILLE,
    SUSPECTED_PERMILLE,
    TOGETHER_PERMILLE,
    Evidence,
    Posterior,
    posteriors,
    weigh,
)
from analyzer.ledger.thresholds import Thresholds
from analyzer.ledger.windows import RunWindow, Verdict
from analyzer.states import Confidence


@dataclass(frozen=True, slots=True)
class InputJudgement:
    """Whether one window is low, for want of what, and how sure that is.

    `cause` is None where nothing fits; `share` is how probable it is, permille.
    """

    is_low: bool
    cause: str | None = None
    confidence: Confidence = "low"
    share: int = 0

    @property
    def is_booked(self) -> bool:
        """True where the loss may be booked to its cause: from medium confidence up."""
        return self.cause is not None and self.confidence != "low"


@dataclass(frozen=True, slots=True)
class Sign:
    """What one window shows by itself: what speaks for which cause, where it is low."""

    window: RunWindow
    evidence: Evidence | None

    @property
    def is_low(self) -> bool:
        """True where the GPUs stand still for more than noise."""
        return self.evidence is not None


NOT_LOW = InputJudgement(False)
UNKNOWN = "unknown"  # where it waits for input, as it says or as its hosts show, and nothing says for which part


def sign(window: RunWindow, limits: Thresholds) -> Sign:
    """Look at one window by itself."""
    return Sign(window, weigh(window) if window.still >= limits.low_permille else None)


def detect(signs: Sequence[Sign], limits: Thresholds, count: int | None = None) -> list[InputJudgement]:
    """Judge the last `count` windows of one run, or all, in order of time, each in the light of all."""
    judged = len(signs) - (len(signs) if count is None else count)  # from here on; what lasts began a little before
    first = max(0, judged + 1 - limits.persistence_windows)
    found = posteriors([each.evidence for each in signs], first, is_habit=is_habit(signs, limits))
    causes = [None if one is None or one.share < BOOKED_PERMILLE else one.cause for one in found]
    return [
        NOT_LOW if one is None else _judgement(sign.window, one, lasts=_persists(causes, place, limits))
        for place, (sign, one) in enumerate(zip(signs, found, strict=True))
        if place >= judged
    ]


def is_habit(signs: Sequence[Sign], limits: Thresholds) -> bool:
    """Return whether the loss is what the run does most of the time, while its loaders do not rest."""
    is_usual = sum(each.is_low for each in signs) * 2 >= len(signs)
    return is_usual and not _workers_rest([each.window for each in signs], limits)


def _judgement(window: RunWindow, found: Posterior, *, lasts: bool) -> InputJudgement:
    of_inputs = sum(share for cause, share in found.shares if cause in INPUTS)
    if (found.share < BOOKED_PERMILLE or found.cause not in INPUTS) and of_inputs >= TOGETHER_PERMILLE:
        return InputJudgement(True, UNKNOWN, "medium", of_inputs)
    if found.share < SUSPECTED_PERMILLE:
        return InputJudgement(True)
    if found.share < BOOKED_PERMILLE or found.cause not in INPUTS:
        return InputJudgement(True, found.cause, "low", found.share)
    is_measured = window.sm_ms * 2 >= window.ms and window.shares_ms * 2 >= window.ms
    is_sure = lasts and is_measured and found.share >= SURE_PERMILLE
    return InputJudgement(True, found.cause, "high" if is_sure else "medium", found.share)


def _workers_rest(windows: Sequence[RunWindow], limits: Thresholds) -> bool:
    """True where the loaders rest while the GPUs stand still: then they wait for the run, and not the run for them.

    A loader that is the limit works on through the stall; one that is not fills its queue and blocks, so that its use
    of a core falls with the GPUs' work. Compared are the stiller and the busier half of the windows, where they differ.
    """
    seen = sorted((window for window in windows if window.busiest is not None), key=lambda window: window.still)
    busier, stiller = seen[: len(seen) // 2], seen[(len(seen) + 1) // 2 :]
    if len(busier) < 2:
        return False
    worked, rested = _mean_busiest(busier), _mean_busiest(stiller)
    expected = 1000 * (1000 - _mean_still(stiller)) // max(1, 1000 - _mean_still(busier))
    return expected <= limits.resting_permille and worked > 0 and rested * 1000 // worked < (1000 + expected) // 2


def _mean_busiest(windows: Sequence[RunWindow]) -> int:
    return sum(window.busiest or 0 for window in windows) // len(windows)


def _mean_still(windows: Sequence[RunWindow]) -> int:
    return sum(window.still for window in windows) // len(windows)


def _persists(causes: Sequence[str | None], index: int, limits: Thresholds) -> bool:
    """True where the same part of the host was the limit for half an hour around this window."""
    here = causes[index]
    if here is None:
        return False
    first = last = index
    while first > 0 and causes[first - 1] == here:
        first -= 1
    while last + 1 < len(causes) and causes[last + 1] == here:
        last += 1
    return last - first + 1 >= limits.persistence_windows


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
