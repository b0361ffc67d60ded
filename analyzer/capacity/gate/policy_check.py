"""Judge a request: every check of the policy, what would pass, verdict and choices. Pure; the clock is given."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agent.wire.units import HOUR_MS, PERMILLE
from analyzer.capacity.gate.decided import (
    SCHEMA,
    Decided,
    Evidence,
    Gate,
    Need,
    Outcome,
    Remedy,
    Waiver,
    at_length,
    headline,
    verdict_of,
)
from analyzer.capacity.gate.gates import JUDGES, GateInput, is_cheaper
from analyzer.capacity.gate.offer import (
    INPUT_KINDS,
    Loss,
    WantedWork,
    asked_of,
    fix_of,
    need_of,
    offer_of,
    options_of,
    price_of,
)
from analyzer.capacity.gate.policy import PilotRule, Policy, Rule
from analyzer.capacity.gate.request import HOURS_A_WEEK, Request
from analyzer.capacity.gate.supply import History, Supply, Work, check_known, completed, work_of
from analyzer.capacity.profile.canonical_json import canonical
from analyzer.capacity.profile.facts import Alternative, CapacityProfile
from analyzer.capacity.profile.signature import ReadProfile
from analyzer.errors import ConfigError
from analyzer.ids import LENGTH, short_id
from analyzer.text.words import counted, gpu_hours, nearest, plain

_SIZE, _LENGTH, _HISTORY, _EARLIER = "pilot_size", "pilot_length", "pilot_history", "pilot_earlier"


def _pilot_gates(request: Request, rule: PilotRule, history: History | None) -> tuple[Gate, ...]:
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


def _pilot_remedies(gates: tuple[Gate, ...], rule: PilotRule) -> tuple[Remedy, ...]:
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


def _remedies_of(gates: Sequence[Gate], look: GateInput) -> tuple[Remedy, ...]:
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


def _text(rule: Rule, look: GateInput) -> str:
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


def check_request(
    request: Request,
    read: ReadProfile | None,
    policy: Policy,
    known: Supply,
    now_us: int,
    identity: str | None = None,
) -> Decided:
    """Return what is decided on a request. `known` goes before what the profile says of prices and free GPUs.

    `identity` is the id under which it is kept, where that is longer than its usual one.

    Raises:
        ConfigError: there is no profile and no pilot is asked for, the profile is of another team or other work, or
            the request names what nobody knows.
    """
    check_known(request, read, known.names, now_us)
    if request.pilot and read is None:
        return _pilot(request, policy, known, now_us, identity or request_id(request, ""))
    if read is None:
        raise ConfigError(
            "a capacity request needs the profile of the work that it is for (--profile FILE; gpuledger capacity "
            "profile makes one); a team without history asks for a pilot: pilot = true"
        )
    if request.pilot:
        raise ConfigError("a request with a profile is not a pilot: leave 'pilot' out")
    work = work_of(request, read.profile)
    supply = completed(known, request, read.profile)
    _check_currency(supply, read.profile)
    fix = fix_of(work.runs, read.profile)
    asked = asked_of(request, work, read.profile.until_us)
    offer = offer_of(request, asked, fix, policy.step_gpus, supply)
    look = GateInput(request, read, work, policy, supply, fix, offer, now_us)
    gates = tuple(JUDGES[rule.name](rule, look) for rule in policy.rules)
    verdict = verdict_of(gates)
    decided = Decided(
        **_head(request, policy, supply, now_us, identity or request_id(request, read.sha256)),
        evidence=_evidence(look),
        verdict=verdict,
        pilot=False,
        condition=None,
        gates=gates,
        remedies=_remedies_of(gates, look),
        offer=offer,
        options=options_of(request, supply, offer, _grown(request, asked, policy, supply), _loss(work), verdict),
        missing=_missing(look),
        waits_permille=_waits(work),
    )
    return _with_sentences(decided)


def with_waivers(decided: Decided, waivers: tuple[Waiver, ...]) -> Decided:
    """Return what was decided with these waivers: the verdict that then holds, and its sentence."""
    verdict = verdict_of(decided.gates, waivers)
    now = replace(decided, waivers=waivers, verdict=verdict)
    return replace(now, headline=headline(now))


def _with_sentences(decided: Decided) -> Decided:
    """Return it with its sentences."""
    return replace(decided, headline=headline(decided), at_length=at_length(decided))


def request_id(request: Request, profile_sha256: str, length: int = LENGTH) -> str:
    """Return the id of a request with its profile: the same two have the same, wherever they are judged."""
    return short_id("q", canonical(request), profile_sha256, length=length)


def _pilot(request: Request, policy: Policy, known: Supply, now_us: int, identity: str) -> Decided:
    gates = _pilot_gates(request, policy.pilot, known.history)
    verdict = verdict_of(gates)
    decided = Decided(
        **_head(request, policy, known, now_us, identity),
        evidence=None,
        verdict=verdict,
        pilot=True,
        condition=condition(policy.pilot),
        gates=gates,
        remedies=_pilot_remedies(gates, policy.pilot),
        offer=None,
        options=options_of(request, known, None, None, None, verdict),
        missing=() if known.rate else (_no_price(request),),
    )
    return _with_sentences(decided)


def _head(request: Request, policy: Policy, supply: Supply, now_us: int, identity: str) -> dict[str, Any]:
    rate = supply.rate
    return {
        "schema": SCHEMA,
        "request_id": identity,
        "request": request,
        "decided_at": now_us,
        "policy": policy.told,
        "policy_digest": policy.digest,
        "rate": rate,
        "micros": price_of(request.gpus, request.hours, rate.micros_per_gpu_hour if rate else None),
        "headline": "",
        "at_length": "",
    }


def _check_currency(supply: Supply, profile: CapacityProfile) -> None:
    if supply.rate is not None and supply.rate.currency != profile.currency:
        raise ConfigError(
            f"prices here are in {plain(supply.rate.currency)}, the profile counts in {plain(profile.currency)}: "
            "name prices of one currency"
        )


def _evidence(look: GateInput) -> Evidence:
    profile, read = look.profile, look.read
    runs = look.work.runs
    return Evidence(
        runs=len(runs),
        run_names=tuple(sorted({run.name or run.run_id for run in runs})),
        milliseconds=sum(run.milliseconds for run in runs),
        since_us=profile.since_us,
        until_us=profile.until_us,
        timezone=profile.timezone,
        team=profile.team,
        site=profile.made.site,
        state=read.state,
        signed_by=read.signed_by,
        key_id=read.key_id,
        sha256=read.sha256,
        signature=read.sentence,
        age_days=look.age_days,
        judged=look.work.judged,
    )


def _grown(request: Request, asked: WantedWork | None, policy: Policy, supply: Supply) -> Need | None:
    if asked is None or request.growth_permille is None:
        return None
    return need_of(request, asked, 1000, policy.step_gpus, supply)


def _waits(work: Work) -> int | None:
    waits = work.of(lambda each: each.state == "starved")
    return nearest(waits * 1000, work.measured_milliseconds) if work.measured_milliseconds > 0 else None


_VERBS = {"starved": "starved", "held_idle": "idle", "communicating": "waits", "lost_work": "lost"}


def _loss(work: Work) -> Loss | None:
    """Return the largest state of what is avoidable."""
    if work.measured_milliseconds <= 0:
        return None
    lost: dict[str, int] = {}
    for each in work.booked:
        if each.klass == "avoidable":
            lost[each.state] = lost.get(each.state, 0) + each.milliseconds
    if not lost:
        return None
    state, most = max(lost.items(), key=lambda item: (item[1], item[0]))
    return Loss(nearest(most * 1000, work.measured_milliseconds), _VERBS.get(state, "wasted"))


def _missing(look: GateInput) -> tuple[str, ...]:
    request, found = look.request, []
    if look.supply.rate is None:
        found.append(_no_price(request))
    if look.supply.free is None:
        found.append(f"how many {look.sku} stand free: look it up with --store or --server")
    if look.fix is not None and look.offer is None:
        found.append(f"how many {look.sku} this work holds today: today_gpus in the request, or a run on them")
    return tuple(found)


def _no_price(request: Request) -> str:
    return f"a price of {plain(request.sku)}: --price, or the site's price file with --store or --server"


def without_the_fleet(decided: Decided) -> Decided:
    """Return what a key of some teams is told: its own work and money, and of no GPU beyond them whether it is free.

    Free GPUs are those of all teams together: who holds fewer is read off them. The API's other routes tell a team's
    key nothing of the fleet either. The verdict is the same for everybody: no gate looks at them.
    """
    offer = decided.offer
    if offer is None and all(option.to_buy is None for option in decided.options):
        return decided
    if offer is not None:
        likely, careful = (replace(need, to_buy=None) for need in (offer.likely, offer.careful))
        offer = replace(offer, likely=likely, careful=careful, free_gpus=None, free_day=None)
    # To buy no GPUs at all says nothing.
    options = tuple(replace(each, to_buy=None) if each.more else each for each in decided.options)
    hidden = f"how many {plain(decided.request.sku)} stand free in the fleet: keys of all teams see it"
    missing = (*(text for text in decided.missing if "stand free" not in text), hidden)
    return _with_sentences(replace(decided, offer=offer, options=options, missing=missing))
