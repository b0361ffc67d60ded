"""The way of a team without history: so small and so short that no profile is asked for, which comes afterwards."""

from agent.wire.units import HOUR_MS
from analyzer.capacity.gate.decided import Gate, Outcome, Remedy
from analyzer.capacity.gate.policy import PilotRule
from analyzer.capacity.gate.request import HOURS_A_WEEK, Request
from analyzer.capacity.gate.supply import History
from analyzer.text.words import counted, gpu_hours

_SIZE, _LENGTH, _HISTORY, _EARLIER = "pilot_size", "pilot_length", "pilot_history", "pilot_earlier"


def pilot_gates(request: Request, rule: PilotRule, history: History | None) -> tuple[Gate, ...]:
    """Return the gates of a pilot. Without a store nobody knows of any history, which passes nothing."""
    weeks = f"{request.hours // HOURS_A_WEEK} weeks" if request.hours % HOURS_A_WEEK == 0 else f"{request.hours:,} h"
    bar = f"under {rule.history_gpu_hours} GPU-h"
    return (
        _gate(_SIZE, "size of the pilot", request.gpus <= rule.gpus, f"{request.gpus:,} GPUs", f"{rule.gpus} at most"),
        _gate(_LENGTH, "its length", request.hours <= rule.weeks * HOURS_A_WEEK, weeks, f"{rule.weeks} weeks at most"),
        _history(history, rule, bar),
        _earlier(history, rule),
    )


def condition(rule: PilotRule) -> str:
    """Return the condition on which a pilot passes."""
    return (
        f"a profile of what these GPUs did, {counted(rule.need_profile_after_weeks, 'week')} after they are given; "
        "without one nothing more is given, and there is no second pilot"
    )


def pilot_remedies(gates: tuple[Gate, ...], rule: PilotRule) -> tuple[Remedy, ...]:
    """Return what would pass."""
    texts = {
        _SIZE: f"at most {rule.gpus} GPUs, or a profile of work that was done",
        _LENGTH: f"at most {rule.weeks} weeks, or a profile of work that was done",
        _HISTORY: "a profile of what the team's runs did: gpuledger profile; a pilot is for who has none",
        _EARLIER: "a profile of what the earlier pilot did: gpuledger profile",
    }
    ask = "look it up with --store or --server"
    return tuple(
        Remedy((gate.label,), ask if gate.outcome == "N/E" else texts[gate.name])
        for gate in gates
        if gate.outcome != "PASS"
    )


def _gate(name: str, label: str, is_so: bool, value: str, bar: str) -> Gate:
    outcome: Outcome = "PASS" if is_so else "FAIL"
    return Gate(name, label, outcome, value, bar, required=True, waivable=True)


def _history(history: History | None, rule: PilotRule, bar: str) -> Gate:
    label = "what the team did before"
    if history is None:
        return Gate(_HISTORY, label, "N/E", "not looked up", bar, True, True, "it takes the site's ledger")
    is_new = history.milliseconds < rule.history_gpu_hours * HOUR_MS
    return _gate(_HISTORY, label, is_new, f"{gpu_hours(history.milliseconds)} GPU-h", bar)


def _earlier(history: History | None, rule: PilotRule) -> Gate:
    label = f"pilots in {rule.within_days} days"
    if history is None or history.pilots is None:
        return Gate(_EARLIER, label, "N/E", "not looked up", "none", True, True, "it takes the site's registry")
    return _gate(_EARLIER, label, history.pilots == 0, str(history.pilots), "none")
