"""One verdict a run and window: each detector in the order of precedence, pure, with nothing but windows and facts."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from analyzer.detectors import exchange, input_starvation, underused
from analyzer.detectors.input_starvation import InputJudgement, Sign
from analyzer.thresholds import Thresholds
from analyzer.windows import RunFacts, RunWindow, Verdict


class Judge:
    """Knows the windows of one run, in order of time, and judges any of them in the light of those about it."""

    def __init__(self, windows: Sequence[RunWindow], facts: RunFacts, limits: Thresholds) -> None:
        self._windows, self._facts, self._limits = windows, facts, limits
        self._starts = [window.window_ms for window in windows]
        self._signs = [input_starvation.sign(window, limits) for window in windows]

    def seen(self, from_ms: int, until_ms: int) -> "Seen":
        """Return what is known of the run in [from_ms, until_ms)."""
        first, last = bisect_left(self._starts, from_ms), bisect_left(self._starts, until_ms)
        return Seen(self._windows[first:last], self._signs[first:last], self._facts, self._limits)


@dataclass(frozen=True, slots=True)
class Seen:
    """Windows of one run that abut or nearly, with what each shows by itself."""

    windows: Sequence[RunWindow]
    signs: Sequence[Sign]
    facts: RunFacts
    limits: Thresholds

    def verdicts(self, count: int, in_rack_rate: int | None, usual_link_kb: int | None) -> list[Verdict]:
        """Judge the last `count` of the windows in the light of all.

        `in_rack_rate` is what exchanges inside a rack were seen to reach, in bytes a second and host; `usual_link_kb`
        what the run's links carry in ten minutes.
        """
        inputs = input_starvation.detect(self.signs, self.limits)
        judged = zip(self.windows[-count:], inputs[-count:], strict=True)
        return [
            _verdict(window, self.facts, judgement, usual_link_kb, in_rack_rate, self.limits)
            for window, judgement in judged
        ]


def _verdict(
    window: RunWindow,
    facts: RunFacts,
    judged: InputJudgement,
    usual_link_kb: int | None,
    in_rack_rate: int | None,
    limits: Thresholds,
) -> Verdict:
    if exchange.is_hung(window, usual_link_kb, limits):
        return Verdict(window.run_id, window.window_ms, is_hung=True)
    moved = exchange.detect(window, facts, in_rack_rate, limits)
    use = underused.detect(window, facts, limits)
    return Verdict(
        window.run_id,
        window.window_ms,
        is_low=judged.is_low,
        input_cause=judged.cause if judged.is_booked else None,
        input_suspicion=None if judged.is_booked else judged.cause,
        input_confidence=judged.confidence,
        is_exchanging=moved.is_exchanging,
        straggler_permille=moved.straggler_permille,
        cross_rack_permille=moved.cross_rack_permille,
        steady_permille=exchange.steady_permille(window, facts, in_rack_rate, limits),
        exchange_confidence=moved.confidence,
        caused_by=moved.caused_by,
        is_underused=use.cause is not None and not moved.is_exchanging,
        underused_cause=use.cause,
        underused_confidence=use.confidence,
        is_service=facts.is_service,
        is_interactive=facts.is_interactive,
        work=_work(window, facts),
    )


def usual_link_kb(windows: Sequence[RunWindow]) -> int | None:
    """Return the median NVLink traffic of the windows that have any, or None where none has.

    Windows without any are left out: a hang that lasts for most of a day would else be what is usual.
    """
    seen = sorted(window.nvlink_kb for window in windows if window.nvlink_kb)
    return seen[len(seen) // 2] if seen else None


def _work(window: RunWindow, facts: RunFacts) -> str:
    if facts.stage == "evaluation":
        return "evaluation"
    if facts.is_service:
        return "decode"
    is_memory_bound = window.dram is not None and window.dram >= 500 and (window.tensor or 0) < 100
    return "memory_bandwidth" if is_memory_bound else "compute"
