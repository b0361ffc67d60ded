"""The way of a team without history, and what would make gates pass that failed or could not be evaluated."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.wire.units import HOUR_MS, PERMILLE
from analyzer.capacity.gate.decided import Gate, Outcome, Remedy
from analyzer.capacity.gate.gates import GateInput, is_cheaper
from analyzer.capacity.gate.offer import INPUT_KINDS
from analyzer.capacity.gate.policy import PilotRule
from analyzer.capacity.gate.request import HOURS_A_WEEK, Request
from analyzer.capacity.gate.supply import History
from analyzer.capacity.profile.facts import Alternative
from analyzer.text.words import counted, gpu_hours, nearest, plain

if TYPE_CHECKING:
    from analyzer.capacity.gate.policy import Rule

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
        f"a profile of what these GPUs did, {counted(rule.need_profile_after_weeks, 'week')} after they are granted; "
        "without one no more GPUs are granted, and there is no second pilot"
    )


def pilot_remedies(gates: tuple[Gate, ...], rule: PilotRule) -> tuple[Remedy, ...]:
    """Return what would pass."""
    texts = {
        _SIZE: f"no more than {rule.gpus} GPUs, or a profile of completed work",
        _LENGTH: f"no more than {rule.weeks} weeks, or a profile of completed work",
        _HISTORY: "a profile of the team's runs: gpuledger capacity profile; a pilot is for teams that have none",
        _EARLIER: "a profile of the earlier pilot: gpuledger capacity profile",
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


_IDLE_KINDS = frozenset({"release", "right_size", "share_mig", "share_time", "pack", "fewer_replicas"})


def remedies_of(gates: Sequence[Gate], look: GateInput) -> tuple[Remedy, ...]:
    """Return what would pass, in the order of the gates; one entry for all gates that the fix answers."""
    open_ones = [gate for gate in gates if gate.outcome != "PASS"]
    by_fix = [gate for gate in open_ones if _is_answered(gate.name, look)]
    made = []
    for gate in open_ones:
        if gate not in by_fix:
            text = _text(look.policy.rule(gate.name), look)  # type: ignore[arg-type] # a gate's own name
            made.append(Remedy((gate.label,), text if gate.required else f"{text}, or an override (optional check)"))
        elif gate is by_fix[0]:
            made.append(Remedy(tuple(each.label for each in by_fix), _fix_text(by_fix, look)))
    return tuple(made)


def _is_answered(name: str, look: GateInput) -> bool:
    if look.fix is None:
        return False
    kind = look.fix.advice.kind
    known = {"waiting": kind in INPUT_KINDS, "idle": kind in _IDLE_KINDS}
    return name in ("useful", "recommendations") or known.get(name, False)


def _fix_text(gates: Sequence[Gate], look: GateInput) -> str:
    if (fix := look.fix) is None:
        raise AssertionError("BUG: no fix answers a gate where there is none")
    again = f"run {fix.name} once"
    if fix.hours_to_prove is not None:
        again += f": {counted(fix.hours_to_prove, 'hour')}"
    short = [text for gate in gates if (text := _short_of(gate.name, look))]
    rest = f"; {' and '.join(short)}, so more is needed: gpuledger findings" if short else ""
    return f"apply {fix.in_short}, {again}{rest}"


def _short_of(name: str, look: GateInput) -> str | None:
    """Say what a share comes to after the fix where that is still on the wrong side of its bar.

    The same useful time in less time altogether: what is saved is taken from what is lost.
    """
    work, fix = look.work, look.fix
    if fix is None or work.measured_milliseconds <= 0 or name not in ("useful", "waiting"):
        return None
    speed, whole = fix.advice.speedup_permille.p50, work.measured_milliseconds
    rule = look.policy.rule("useful" if name == "useful" else "waiting")
    if name == "useful":
        after = nearest(work.of(lambda each: each.klass == "useful") * speed, whole)
        return f"useful is then about {after // 10}%" if after < rule.permille else None
    waits = work.of(lambda each: each.state == "starved")
    after = max(0, nearest(waits * speed - (speed - PERMILLE) * whole, whole))
    return f"input starvation is then about {after // 10}%" if after > rule.permille else None


# What would pass a gate, by its name and, where there is more than one way, its case.
_TEXTS = {
    "signed": "a profile that a collector signed: gpuledger capacity profile",
    "signed, unknown key": "a [[key]] with the public key of {key_id} in the policy, once its holder is known",
    "signed, edited": "the profile as gpuledger wrote it, unchanged",
    "age": "a profile of the last {days} days: gpuledger capacity profile",
    "age, future": "a profile of a period that is over; or a correct clock",
    "measured": "agents on every host of the runs, then such runs again: gpuledger admin doctor shows what is missing",
    "runs": "a profile of {runs} runs of {work}, or of {gpu_hours} GPU-hours of them",
    "runs, not known": "a teams file whose rules say whose runs of {work} are, then: gpuledger capacity profile --team",
    "idle": "runs that give back what they do not use: gpuledger findings names them",
    "memory": "a price for a smaller choice than {sku} in the profile, or a run that needs its memory",
    "scaling": "one run of at least {hours} h on {sizes} that reports its steps or tokens",
    "scaling, no size": "gpus_per_run in the request",
    "scaling, bad": "runs of {better} GPUs, where they scale better: ask for that size",
    "useful": "less lost time: gpuledger findings shows where it goes, gpuledger recommendations what to change",
    "waiting": "faster input: gpuledger findings shows what limits it",
    "recommendations": "do what is recommended ({advice}), or reject it with a reason: "
    "gpuledger recommendations reject",
    "cheaper": "one run of at least {hours} h on {cheaper}",
    "team_idle": "use the team's own idle {sku} first",
    "alone": "a profile of runs of {work} alone: gpuledger capacity profile --runs",
}


def _text(rule: "Rule", look: GateInput) -> str:
    size, sizes = look.run_gpus, {each.gpus for each in look.profile.scaling}
    open_ones = [one for one in _cheaper(look) if one.fits is not False]
    cheaper = f"{look.policy.step_gpus} {plain(open_ones[0].sku.partition('-')[0])}" if open_ones else "a cheaper kind"
    words = {
        "key_id": look.read.key_id,
        "work": plain(", ".join(look.request.work)),
        "sku": look.sku,
        "sizes": f"fewer than {size} GPUs" if size in look.sizes else f"{size} GPUs",
        "better": look.profile.knee_gpus or min(sizes, default=None),
        "advice": ", ".join(plain(each.id) for each in look.advice[:3]),
        "cheaper": cheaper,
    }
    return _TEXTS[_case(rule.name, look)].format(**dict(rule.numbers), **words)


def _case(name: str, look: GateInput) -> str:
    """Return which text says what would pass a gate; the first that holds counts."""
    size, sizes = look.run_gpus, {each.gpus for each in look.profile.scaling}
    cases = (
        ("signed, unknown key", look.read.state == "unknown_key"),
        ("signed, edited", "edited" in (look.read.state, look.read.page)),
        ("age, future", look.age_days < 0),
        ("runs, not known", not look.work.is_known),
        ("scaling, no size", size is None),
    )
    alone = {
        "memory": look.is_beside_others,
        "scaling": look.is_scaling_of_others,
        "cheaper": not look.is_whole and any(one.tried for one in _cheaper(look)),
    }
    found = next((case for case, is_so in cases if is_so and case.partition(",")[0] == name), None)
    if found is not None:
        return found
    if alone.get(name):
        return "alone"
    is_bad = name == "scaling" and size in sizes and any(gpus < (size or 0) for gpus in sizes)
    return "scaling, bad" if is_bad else name


def _cheaper(look: GateInput) -> list[Alternative]:
    return [one for one in look.profile.alternatives if is_cheaper(one, look)]
