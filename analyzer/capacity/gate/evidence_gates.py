"""Gates on the evidence itself: whose word it is, how old, how much of it was measured, how much there is."""

from typing import TYPE_CHECKING

from agent.wire.units import HOUR_MS
from analyzer.capacity.gate.decided import Gate, Outcome
from analyzer.capacity.gate.gate_input import GateInput
from analyzer.capacity.gate.shares import at_least, percent_text
from analyzer.text.words import NO_BREAK, counted, decimal, gpu_hours, plain

if TYPE_CHECKING:
    from analyzer.capacity.gate.policy import Rule

_STATES = {"edited": "edited", "unsigned": "nobody", "unknown_key": "unknown key"}


def gate(rule: "Rule", label: str, outcome: Outcome, value: str, bar: str, why: str | None = None) -> Gate:
    """Return a gate as the policy has it."""
    return Gate(rule.name, label, outcome, value, bar, rule.need == "required", rule.waiver == "approver", why)


def passed(is_so: bool) -> Outcome:
    """Return PASS or FAIL."""
    return "PASS" if is_so else "FAIL"


def signed(rule: "Rule", look: GateInput) -> Gate:
    """Judge whose word the profile is: an edit fails; a key that the policy does not know is not evaluated at all."""
    read, names = look.read, sorted({plain(key.name) for key in look.policy.keys})
    bar = ", ".join(names) or "no key named"
    label = "profile signed by"
    if read.page == "edited":
        return gate(rule, label, "FAIL", "page edited", bar, "the words of the page are not those that were signed")
    if read.valid:
        return gate(rule, label, "PASS", plain(read.signed_by or ""), bar)
    value = _STATES.get(read.state, read.state)
    if read.state == "unknown_key" and not names:
        why = f"the policy names no key; to trust this one, add [[key]] with the public key of {read.key_id}"
        return gate(rule, label, "N/E", value, bar, why)
    return gate(rule, label, "FAIL", value, bar, read.sentence)


def age(rule: "Rule", look: GateInput) -> Gate:
    """Judge how long ago the last of it was measured; what is of the future is a clock that is wrong."""
    most, days = rule.number("days"), look.age_days
    value = counted(days, "day") if days >= 0 else "not over yet"
    return gate(rule, "profile age", passed(0 <= days <= most), value, f"{most} days at most")


def measured(rule: "Rule", look: GateInput) -> Gate:
    """Judge how much of the runs' GPU time was measured."""
    part, whole = look.work.measured
    bar = f"{rule.number('percent')}{NO_BREAK}% or more"
    value = percent_text(part, whole, rule.permille)
    if look.work.milliseconds <= 0:
        return gate(rule, "time measured", "N/E", "no GPU time", bar, "the profile has no GPU time")
    return gate(rule, "time measured", passed(at_least(part, whole, rule.permille)), value, bar)


def runs(rule: "Rule", look: GateInput) -> Gate:
    """Judge whether there is enough of it, of this team: so many runs, or so many GPU-hours."""
    own = look.work.runs
    count, milliseconds = len(own), sum(run.milliseconds for run in own)
    least, hours = rule.number("runs"), rule.number("gpu_hours")
    enough = count >= least or milliseconds >= hours * HOUR_MS
    decimals = 0 if milliseconds >= 100 * HOUR_MS else 1
    value, bar = f"{decimal(count, 0)}, {gpu_hours(milliseconds, decimals)}", f"{least}, or {hours} GPU-h"
    if not look.work.is_known:
        why = f"nobody has said whose runs these are: of {plain(look.request.team)}, or of somebody else"
        return gate(rule, "runs, GPU-hours", "N/E", "whose is not known", bar, why)
    return gate(rule, "runs, GPU-hours", passed(enough), value, bar)
