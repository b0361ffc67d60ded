"""One verdict a run and window: each detector in the order of precedence, pure, with nothing but windows and facts."""

from collections.abc import Mapping, Sequence

from analyzer.detectors import exchange, input_starvation, underused
from analyzer.detectors.input_starvation import InputJudgement
from analyzer.thresholds import Thresholds
from analyzer.windows import RunFacts, RunWindow, Verdict


def judge(
    windows: Sequence[RunWindow],
    facts: RunFacts,
    in_rack_rates: Mapping[int, int | None],
    limits: Thresholds,
    earlier: Sequence[RunWindow] = (),
) -> list[Verdict]:
    """Judge the windows of one run, in order of time.

    `in_rack_rates` gives, by window, what exchanges inside a rack were seen to reach until then. `earlier` are windows
    of the run's last days, for a day on which its links carry nothing.
    """
    inputs = input_starvation.detect(windows, limits)
    usual = usual_link_kb(windows) or usual_link_kb(earlier)
    return [
        _verdict(window, facts, judgement, usual, in_rack_rates.get(window.window_ms), limits)
        for window, judgement in zip(windows, inputs, strict=True)
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
