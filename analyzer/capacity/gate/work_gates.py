"""Gates on the work: where its GPU time went, its memory, how it scales. All of the ledger, none of utilization."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from agent.wire.units import GIB
from analyzer.capacity.gate.decided import Gate
from analyzer.capacity.gate.evidence_gates import gate, passed
from analyzer.capacity.gate.gate_input import GateInput
from analyzer.capacity.gate.shares import at_least, at_most, percent_text, ratio_parts
from analyzer.capacity.profile.facts import Scale, StateHours
from analyzer.text.rounding import nearest
from analyzer.text.words import NO_BREAK, decimal, plain

if TYPE_CHECKING:
    from analyzer.capacity.gate.policy import Rule

_FULL_PERCENT = 100
_NO_TIME = "the profile has no GPU time"


def idle(rule: "Rule", look: GateInput) -> Gate:
    """Judge how much of the time GPUs were held and did nothing."""
    return _most(rule, look, "idle while held", lambda each: each.state == "held_idle")


def input_gate(rule: "Rule", look: GateInput) -> Gate:
    """Judge how much of the time went into waiting for input."""
    return _most(rule, look, "waiting for input", lambda each: each.state == "starved")


def useful(rule: "Rule", look: GateInput) -> Gate:
    """Judge how much of the time was useful, as the ledger books it: a loop that only keeps a GPU busy is not."""
    bar = f"{rule.number('percent')}{NO_BREAK}% or more"
    return _share(rule, look, "useful", lambda each: each.klass == "useful", at_least, bar)


def _most(rule: "Rule", look: GateInput, label: str, which: Callable[[StateHours], bool]) -> Gate:
    return _share(rule, look, label, which, at_most, f"{rule.number('percent')}{NO_BREAK}% or less")


def _share(
    rule: "Rule",
    look: GateInput,
    label: str,
    which: Callable[[StateHours], bool],
    is_kept: Callable[[int, int, int], bool],
    bar: str,
) -> Gate:
    """Judge a share of the time that was measured; how much that is has a gate of its own."""
    part, whole = look.work.of(which), look.work.measured_milliseconds
    if whole <= 0:
        is_dark = look.work.milliseconds > 0
        told = ("nothing measured", "nothing of it was measured") if is_dark else ("no GPU time", _NO_TIME)
        return gate(rule, label, "N/E", told[0], bar, told[1])
    return gate(rule, label, passed(is_kept(part, whole, rule.permille)), percent_text(part, whole, rule.permille), bar)


def memory(rule: "Rule", look: GateInput) -> Gate:
    """Judge whether the work needs this kind's memory, or a smaller choice has at least been priced.

    The peak is that of all runs of the profile on this kind: more than enough where it is low, but no proof where it is
    high, if other work ran there too.
    """
    sku, label = look.request.sku, "memory peak"
    percent = rule.number("percent")
    bar = "over half" if percent == _FULL_PERCENT // 2 else f"over {percent}{NO_BREAK}%"
    told = next((each for each in look.profile.memory if each.sku == sku), None)
    if told is None or not told.total_bytes:
        why = f"no run of the profile was on {look.sku}" if told is None else f"how much {look.sku} has is not known"
        return gate(rule, label, "N/E", "not known", bar, why)
    value = f"{decimal(nearest(told.peak_bytes, GIB), 0)} of {decimal(nearest(told.total_bytes, GIB), 0)} GiB"
    if told.peak_bytes * 1000 > rule.permille * told.total_bytes:
        if look.is_beside_others:
            why = f"the peak is that of all runs of the profile on {look.sku}, and some of them are other work"
            return gate(rule, label, "N/E", "of other work too", bar, why)
        return gate(rule, label, "PASS", value, bar)
    is_priced = any(each.micros_per_gpu_hour is not None for each in look.profile.alternatives if each.sku != sku)
    return gate(rule, label, passed(is_priced), value, f"{bar}, or priced")


def scaling(rule: "Rule", look: GateInput) -> Gate:
    """Judge the efficiency at the size that runs are to have, against the smallest size that was measured."""
    size, percent = look.run_gpus, rule.number("percent")
    bar = f"{percent}{NO_BREAK}% or more"
    if size is None:
        return gate(
            rule, "scaling", "N/E", "size not known", bar, "the request has no gpus_per_run, the profile no run"
        )
    label = f"scaling at {size} GPU{'' if size == 1 else 's'} a run"
    if size == 1:
        return gate(rule, label, "PASS", "nothing to scale", bar)
    if look.is_scaling_of_others:
        why = f"the speed at several sizes was measured of {plain(look.profile.scaling_of or '')}, which is other work"
        return gate(rule, label, "N/E", "of other work", bar, why)
    told = next((each for each in look.profile.scaling if each.gpus == size), None)
    if told is None or not _has_two(look.profile.scaling, size):
        seen = ", ".join(str(gpus) for gpus in sorted({each.gpus for each in look.profile.scaling})) or "none"
        value = "one size seen" if size in look.sizes else f"not at {size}"
        return gate(rule, label, "N/E", value, bar, f"sizes at which the work's speed was measured: {seen}")
    part, whole = ratio_parts(told.efficiency_ratio)
    value = f"{decimal(nearest(part * _FULL_PERCENT, whole), 0)}{NO_BREAK}%"
    exact = at_least(part, whole, rule.permille)
    if at_least(nearest(part * _FULL_PERCENT, whole), _FULL_PERCENT, rule.permille) != exact:
        value = percent_text(part, whole, rule.permille)
    return gate(rule, label, passed(exact), value, bar)


def _has_two(scales: tuple[Scale, ...], size: int) -> bool:
    return any(each.gpus < size for each in scales)
