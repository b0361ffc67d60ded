"""Gates on what could be done instead: open recommendations, a cheaper kind of GPU, what the team leaves idle."""

from decimal import Decimal
from typing import TYPE_CHECKING

from agent.wire.units import MILLISECOND_US
from analyzer.capacity.gate.decided import Gate
from analyzer.capacity.gate.evidence_gates import gate, passed
from analyzer.capacity.gate.gate_input import GateInput
from analyzer.capacity.gate.offer import spared
from analyzer.capacity.profile.facts import Alternative
from analyzer.text.rounding import nearest
from analyzer.text.words import NO_BREAK, decimal, plain

if TYPE_CHECKING:
    from analyzer.capacity.gate.policy import Rule

_TENTHS = 10


def recommendations(rule: "Rule", look: GateInput) -> Gate:
    """Judge what the best open recommendation is worth: by how many GPUs it makes the request smaller.

    Where today's GPUs are not known, so that no offer can be made, it is worth the GPUs that it frees.
    """
    label, asked = "open recommendations", look.request.gpus
    bar = f"{rule.number('percent')}{NO_BREAK}% of request"
    if look.offer is not None:
        worth = spared(look.request, look.offer, look.policy.step_gpus) * _TENTHS
    elif look.fix is None and not look.advice:
        return gate(rule, label, "PASS", "none open", bar)
    else:
        freed = max((each.frees.p50 for each in look.advice), default=0) * _TENTHS * MILLISECOND_US
        worth = min(nearest(max(0, freed), look.profile.until_us - look.profile.since_us), asked * _TENTHS)
    value = f"{decimal(worth // _TENTHS, 0) if worth % _TENTHS == 0 else decimal(worth, 1)} of {asked:,} GPUs"
    return gate(rule, label, passed(worth * 1000 <= rule.permille * asked * _TENTHS), value, bar)


def cheaper(rule: "Rule", look: GateInput) -> Gate:
    """Judge whether a cheaper choice was tried, where the work fits there; without one there is nothing to try."""
    label, bar = "cheaper GPU type", "tried if it fits"
    choices = [each for each in look.profile.alternatives if is_cheaper(each, look)]
    if tried := [each for each in choices if each.tried]:
        if not look.is_whole:
            why = f"{plain(tried[0].sku)} was tried, but perhaps by other work of the profile alone"
            return gate(rule, label, "N/E", "of other work too", bar, why)
        return gate(rule, label, "PASS", f"{plain(tried[0].sku)} tried", bar)
    open_ones = [each for each in choices if each.fits is not False]
    if open_ones:
        value = f"no run on {plain(open_ones[0].sku.partition('-')[0])}"
        return gate(rule, label, "N/E", value, bar, f"it may fit on {plain(open_ones[0].sku)}, and was not tried there")
    if choices:
        return gate(rule, label, "PASS", "it does not fit", bar)
    return gate(rule, label, "N/E", "none known", bar, "the profile knows no cheaper kind of GPU of this fleet")


def is_cheaper(one: Alternative, look: GateInput) -> bool:
    """Say whether a choice is another kind than was asked for, and not one that costs as much or more."""
    if one.sku == look.request.sku:
        return False
    rate = look.supply.rate
    known = one.micros_per_gpu_hour
    return known is None or rate is None or known < rate.micros_per_gpu_hour


def team_idle(rule: "Rule", look: GateInput) -> Gate:
    """Judge whether the team leaves fewer GPUs of this kind idle than it asks for."""
    label, asked = "team's own idle GPUs", look.request.gpus
    bar = f"under {asked:,}"
    held = [each for each in look.profile.holdings if each.sku == look.request.sku]
    if not held:
        if not look.profile.holdings:
            return gate(rule, label, "N/E", "not known", bar, "the profile does not say what the team holds")
        return gate(rule, label, "PASS", f"holds no {look.sku}", bar)
    total = sum((Decimal(str(each.idle_gpus)) for each in held), Decimal(0))
    tenths = int((total * _TENTHS).to_integral_value())
    return gate(rule, label, passed(total < asked), decimal(tenths, 1), bar)
