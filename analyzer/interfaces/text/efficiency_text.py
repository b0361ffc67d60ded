"""How well a run used what it held, as text: what is known, a line each; what is not stands under INSUFFICIENT DATA."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.wire.units import MICROS
from analyzer.findings.words import gpu_words
from analyzer.measures.efficiency.checkpoints import Advice, Checkpoints
from analyzer.measures.efficiency.efficiency_query import Efficiency, Straggler, known_cost
from analyzer.measures.efficiency.goodput import Goodput, Scaling
from analyzer.measures.efficiency.steps import How, StepTime
from analyzer.text.layout import TextLayout
from analyzer.text.words import (
    counted,
    duration,
    gpu_hours,
    hours_decimals,
    large,
    moment_words,
    money,
    nearest,
    plain,
    ratio_percent,
)

if TYPE_CHECKING:
    from analyzer.reports.run import RunDocument, RunService

_COLUMN = 18
_LOSSES_SHOWN = 3
_LOSS_LEAST = 0.001
_HOW: dict[How, str] = {
    "progress": "by its own count of {steps} steps",
    "log": "the median of {steps} in its log",
    "period": "by the period of its GPUs ({confidence} confidence)",
}
_ADVICE: dict[Advice, str] = {
    "more often": "save more often",
    "less often": "save less often",
    "right": "yours is right",
    "node": "yours is right; the node is the finding",
}


def efficiency_lines(report: "RunDocument", layout: TextLayout) -> list[str]:
    """Return the section, empty for runs that make no steps."""
    lines = [line for label, words in efficiency_rows(report) for line in layout.labelled(label, words, _COLUMN)]
    return ["EFFICIENCY", *lines] if lines else []


def efficiency_rows(report: "RunDocument") -> list[tuple[str, str]]:
    """Return what is known, by its name; nothing for runs that make no steps."""
    known = report.efficiency
    if known is None:
        return []
    rows = [
        ("step time", step_words(known.step)),
        ("goodput", _goodput(known.goodput)),
        ("ETTR", _ettr(known.goodput)),
        ("MFU", "" if known.mfu.value is None else f"{ratio_percent(known.mfu.value)} of the 16-bit peak of its GPUs"),
        ("scaling", _scaling(known.scaling)),
        *_checkpoints(known.checkpoints, report),
        ("slow GPUs", _stragglers(known.stragglers, report.currency)),
    ]
    return [(label, words) for label, words in rows if words]


def not_known(known: Efficiency | None) -> list[tuple[str, str]]:
    """Return what could not be said of a run, and why; a reason that several share is told once."""
    if known is None:
        return []
    figures = [
        ("step time", known.step.because),
        ("goodput", known.goodput.goodput.because),
        ("ETTR", known.goodput.ettr.because),
        ("MFU", known.mfu.because),
        ("scaling", known.scaling.because),
        ("best checkpoint interval", known.checkpoints.best_seconds.because if known.checkpoints else None),
    ]
    found: dict[str, list[str]] = {}
    for what, because in figures:
        if because is not None:
            found.setdefault(because, []).append(what)
    return [(", ".join(names), because) for because, names in found.items()]


def step_words(step: StepTime) -> str:
    """Return "1.8 s, by its own count of 1,000 steps"; empty where it is not known."""
    if step.seconds is None or step.how is None:
        return ""
    how = _HOW[step.how].format(steps=f"{step.steps or 0:,}", confidence=step.confidence)
    return f"{_seconds(step.seconds)}, {how}"


def _goodput(known: Goodput) -> str:
    if known.goodput.value is None:
        return ""
    losses = [loss for loss in known.badput if loss.ratio >= _LOSS_LEAST][:_LOSSES_SHOWN]
    lost = ", ".join(f"{loss.kind} {ratio_percent(loss.ratio)}" for loss in losses)
    unknown = f" ({ratio_percent(known.unknown_ratio)} is unknown)" if known.unknown_ratio >= _LOSS_LEAST else ""
    return f"{ratio_percent(known.goodput.value)}{unknown}{f'; lost to {lost}' if lost else ''}"


def _ettr(known: Goodput) -> str:
    if known.ettr.value is None:
        return ""
    words = f"{ratio_percent(known.ettr.value)} of the time since it was submitted was training"
    if known.time_to_start_seconds.value is not None:
        words += f"; at work {duration(round(known.time_to_start_seconds.value))} after that"
    if known.time_to_recover_seconds.value is not None:
        words += f"; back at work {duration(round(known.time_to_recover_seconds.value))} after an attempt ended"
    return words


def _scaling(known: Scaling) -> str:
    words = []
    for size in known.sizes:
        rate = f"{size.per_second:,.0f}" if size.per_second >= 100 else f"{size.per_second:.3g}"
        said = f"{counted(size.gpus, 'GPU')} {rate} {known.unit}/s"
        is_first = size is known.sizes[0]
        words.append(
            said if is_first else f"{said} = {size.speed_up:.2f}x ({ratio_percent(size.efficiency)} efficient)"
        )
    return " · ".join(words)


def _checkpoints(known: Checkpoints | None, report: "RunDocument") -> list[tuple[str, str]]:
    if known is None:
        return []
    words = f"{known.count} {'said by the run' if known.by == 'named' else 'seen'}"
    if known.interval_seconds.value is not None:
        words += f", every {duration(round(known.interval_seconds.value))}"
    if known.save_seconds.value is not None:
        hours = gpu_hours(known.saving_ms, hours_decimals(known.saving_ms))
        cost = f", {money(known.saving_micros, report.currency)}" if known.saving_micros is not None else ""
        words += f", {_seconds(known.save_seconds.value)} each: {hours} GPU-hours{cost}"
    return [("checkpoints", words), ("best interval", _best(known, report)), ("last restore", _restore(known, report))]


def _best(known: Checkpoints, report: "RunDocument") -> str:
    if known.best_seconds.value is None or known.mtbf_seconds.value is None or known.advice is None:
        return ""
    words = f"{duration(round(known.best_seconds.value))}, with a failure every "
    words += f"{duration(round(known.mtbf_seconds.value))} on so many hosts: {_ADVICE[known.advice]}"
    if known.advice in ("more often", "less often") and known.stake_ms:
        cost = f", {money(known.stake_micros, report.currency)}" if known.stake_micros is not None else ""
        words += f" (would have saved about {gpu_hours(known.stake_ms)} GPU-hours{cost})"
    if known.worst_node is not None:
        words += (
            f"; {plain(known.worst_node)} was down at the end of {known.worst_node_failures} attempts in four weeks"
        )
    return words


def _restore(known: Checkpoints, report: "RunDocument") -> str:
    if known.restored_at is None:
        return "never seen: nobody knows yet whether these checkpoints can be read"
    return f"{moment_words(known.restored_at, report.timezone)}: an attempt after a checkpoint came to work"


def _stragglers(found: Sequence[Straggler], currency: str) -> str:
    if not found:
        return ""
    total = sum(one.milliseconds for one in found)
    cost = known_cost(one.cost_micros for one in found)
    words = f"waiting for {counted(len(found), 'GPU')} cost {gpu_hours(total)} GPU-hours"
    words += f", {money(cost, currency)}" if cost is not None else ""
    first = found[0]
    if len(found) > 1 and first.gpu_uuid is not None:
        words += f"; most for {plain(gpu_words(first.gpu_uuid, first.node))} ({gpu_hours(first.milliseconds)})"
    return words


def _seconds(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds < 100 else duration(round(seconds))


def service_rows(report: "RunDocument") -> list[tuple[str, str]]:
    """Return what a service did and what that cost, by its name; nothing of a run that serves nothing.

    What is not known is said to be so: whoever looks for errors must not take their absence for none.
    """
    one = report.service
    if one is None:
        return []
    silent = f"not reported{f' by {plain(one.engine)}' if one.engine else ''}"
    return [
        ("requests", silent if one.requests is None else large(one.requests) + _per_second(one.requests, one.seconds)),
        ("errors", silent if one.requests_failed is None else _errors(one.requests_failed, one.requests)),
        ("prompt tokens", silent if one.tokens_in is None else large(one.tokens_in) + _cached(one)),
        ("generated tokens", silent if one.tokens_out is None else large(one.tokens_out)),
        ("first token", _first_token(one) or silent),
        ("between tokens", _between_tokens(one) or silent),
        ("cost", _service_cost(one, report.currency)),
    ]


def _per_second(count: int, seconds: float) -> str:
    return f", {count / seconds:.3g} per second" if seconds else ""


def _first_token(one: "RunService") -> str:
    """Return how long people wait for it: what 99 of 100 requests kept below, in usual and in bad times."""
    words = _latencies(one.first_token_p99_seconds, one.first_token_worst_seconds, one.beyond_ratio)
    if words and one.slo_seconds is not None:
        kept = "whether it is kept is not known" if one.kept_ratio is None else f"kept {one.kept_ratio:.1%} of the time"
        words.append(f"promised {_latency(one.slo_seconds)}: {kept}")
    return ", ".join(words)


def _between_tokens(one: "RunService") -> str:
    usual, worst, beyond = one.inter_token_p99_seconds, one.inter_token_worst_seconds, one.inter_token_beyond_ratio
    return ", ".join(_latencies(usual, worst, beyond))


def _latencies(usual: float | None, worst: float | None, beyond_ratio: float | None) -> list[str]:
    if beyond_ratio is None:
        return []
    words = [f"99 of 100 within {_latency(usual)}"] if usual else []
    if worst:
        words.append(f"within {_latency(worst)} in the worst twentieth of the time")
    if beyond_ratio:
        words.append(f"beyond the engine's last bucket {beyond_ratio:.1%} of the time")
    return words


def _errors(failed: int, completed: int | None) -> str:
    """Return how many requests failed, and the share of all that ended; of few, what one in so many is."""
    ended = failed + (completed or 0)
    return large(failed) + (f", {failed / ended:.2%} of requests" if failed and completed is not None else "")


def _cached(one: "RunService") -> str:
    if one.tokens_cached is None or not one.tokens_in:
        return ""
    return f", {min(1.0, one.tokens_cached / one.tokens_in):.1%} of them from the cache"


def _latency(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.3g} s"


def _service_cost(one: "RunService", currency: str) -> str:
    """Return the price of its requests and of its tokens; how GPU time divides among their kinds nobody told.

    Tokens of one kind alone have it for themselves: those that an embedding model reads, or half a server computes.
    """
    if one.cost_micros is None:
        return "not known: a part of its GPU time has no price"
    told = (
        [f"{money(nearest(one.cost_micros * 1000, one.requests), currency)} per 1,000 requests"] if one.requests else []
    )
    parts = [count for count in (one.tokens_in, one.tokens_out) if count]
    if len(parts) == 2:
        of_all = money(nearest(one.cost_micros * MICROS, sum(parts)), currency)
        kinds = "prompt, cached and generated" if one.tokens_cached else "prompt and generated"
        told.append(f"{of_all} per million tokens, {kinds} alike: how its time divides is not reported")
    elif parts:
        kind = "generated" if one.tokens_out else "prompt"
        told.append(f"{money(nearest(one.cost_micros * MICROS, parts[0]), currency)} per million {kind} tokens")
    return "; ".join(told) or "not known: it reports neither requests nor tokens"
