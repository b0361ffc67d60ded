"""One verdict a run and window: each detector in the order of precedence, pure, with nothing but windows and facts."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

from analyzer.ledger.causes import exchange, input_starvation, straggler, underused
from analyzer.ledger.causes.exchange import ExchangeJudgement, Usual
from analyzer.ledger.causes.input_starvation import InputJudgement, Sign
from analyzer.ledger.causes.straggler import Lag
from analyzer.ledger.thresholds import Thresholds
from analyzer.ledger.windows import RunFacts, RunWindow, Verdict


class Classifier:
    """Knows the windows of one run, in order of time, and judges any of them in the light of those about it."""

    def __init__(self, windows: Sequence[RunWindow], facts: RunFacts, limits: Thresholds) -> None:
        self._windows, self._facts, self._limits = windows, facts, limits
        self._starts = [window.window_ms for window in windows]
        self._signs = [input_starvation.sign(window, limits) for window in windows]

    def seen(self, from_ms: int, until_ms: int) -> "ClassifierWindows":
        """Return what is known of the run in [from_ms, until_ms)."""
        first, last = bisect_left(self._starts, from_ms), bisect_left(self._starts, until_ms)
        return ClassifierWindows(self._windows[first:last], self._signs[first:last], self._facts, self._limits)


@dataclass(frozen=True, slots=True)
class ClassifierWindows:
    """Windows of one run that abut or nearly, with what each shows by itself."""

    windows: Sequence[RunWindow]
    signs: Sequence[Sign]
    facts: RunFacts
    limits: Thresholds

    def verdicts(self, count: int, in_rack_rate: int | None, habit: Usual) -> list[Verdict]:
        """Judge the last `count` of the windows in the light of all.

        `in_rack_rate` is what exchanges inside a rack were seen to reach, in bytes a second and host; `habit` what the
        run's links carry and its boards draw while it works.
        """
        inputs = input_starvation.detect(self.signs, self.limits)
        judged = zip(self.windows[-count:], inputs[-count:], strict=True)
        return [
            _verdict(window, self.facts, judgement, habit, in_rack_rate, self.limits) for window, judgement in judged
        ]


def _verdict(
    window: RunWindow,
    facts: RunFacts,
    judged: InputJudgement,
    habit: Usual,
    in_rack_rate: int | None,
    limits: Thresholds,
) -> Verdict:
    if exchange.is_hung(window, habit, limits):
        return Verdict(window.run_id, window.window_ms, is_hung=True)
    use = underused.detect(window, facts, limits)
    launches = use.cause == "launch_bound"
    lag = straggler.detect(window, limits)
    moved, lagging = _divided(window, exchange.detect(window, facts, in_rack_rate, limits), lag)
    steady = min(1000 - lagging, exchange.steady_permille(window, facts, in_rack_rate, limits))
    crossing = exchange.crossing_permille(window, facts, in_rack_rate, limits)
    return Verdict(
        window.run_id,
        window.window_ms,
        is_low=judged.is_low and not launches,
        input_cause=judged.cause if judged.is_booked and not launches else None,
        input_suspicion=None if judged.is_booked or launches else judged.cause,
        input_confidence=judged.confidence,
        is_exchanging=moved.is_exchanging,
        straggler_permille=moved.straggler_permille,
        cross_rack_permille=moved.cross_rack_permille,
        steady_permille=steady,
        crossing_permille=min(crossing, 1000 - lagging - steady),
        lagging_permille=lagging,
        exchange_confidence=moved.confidence,
        caused_by=moved.caused_by or lag.caused_by,
        is_underused=use.cause is not None and not moved.is_exchanging,
        underused_cause=use.cause,
        underused_confidence=use.confidence,
        is_service=facts.is_service,
        is_interactive=facts.is_interactive,
        work=_work(window, facts, limits),
    )


def _divided(window: RunWindow, moved: ExchangeJudgement, lag: Lag) -> tuple[ExchangeJudgement, int]:
    """Divide the wait for a rank that is behind: what stands out as a shortfall first, the rest from every step.

    A run's own best holds what recurs in every step, so that a lag that is always there leaves little shortfall.
    """
    short = window.short if moved.is_exchanging else 0
    left = 1000 - window.still - short
    if lag.permille <= 0 or left <= 0:
        return moved, 0
    if lag.permille >= short:
        all_of_it = replace(moved, straggler_permille=1000 if short else 0, cross_rack_permille=0)
        return all_of_it, min(1000, (lag.permille - short) * 1000 // left)
    of_short = max(moved.straggler_permille, lag.permille * 1000 // short)
    crossing = moved.cross_rack_permille * (1000 - of_short) // max(1, 1000 - moved.straggler_permille)
    return replace(moved, straggler_permille=of_short, cross_rack_permille=crossing), 0


def _work(window: RunWindow, facts: RunFacts, limits: Thresholds) -> str:
    if facts.stage == "evaluation":
        return "evaluation"
    if facts.is_service:
        return "decode"
    streams = window.dram is not None and window.dram >= limits.bandwidth_dram_permille
    return "memory_bandwidth" if streams and (window.tensor or 0) < limits.bandwidth_tensor_permille else "compute"
