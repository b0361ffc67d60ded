"""Judge a request: every gate of the policy, the verdict, the other offer and the choices. Pure; the clock is given."""

from dataclasses import replace
from typing import Any

from analyzer.capacity.gate.decided import (
    SCHEMA,
    Decided,
    Evidence,
    Need,
    Waiver,
    at_length,
    headline,
    verdict_of,
)
from analyzer.capacity.gate.gates import JUDGES, GateInput
from analyzer.capacity.gate.offer import Loss, WantedWork, asked_of, fix_of, need_of, offer_of, options_of, price_of
from analyzer.capacity.gate.policy import Policy
from analyzer.capacity.gate.remedies import condition, pilot_gates, pilot_remedies, remedies_of
from analyzer.capacity.gate.request import Request
from analyzer.capacity.gate.supply import Supply, check_known, completed
from analyzer.capacity.gate.work import Work, work_of
from analyzer.capacity.profile.canonical_json import canonical
from analyzer.capacity.profile.facts import CapacityProfile
from analyzer.capacity.profile.read import ReadProfile
from analyzer.errors import ConfigError
from analyzer.ids import LENGTH, short_id
from analyzer.text.words import nearest, plain


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
        remedies=remedies_of(gates, look),
        offer=offer,
        options=options_of(request, supply, offer, _grown(request, asked, policy, supply), _loss(work), verdict),
        missing=_missing(look),
        waits_permille=_waits(work),
    )
    return with_sentences(decided)


def with_waivers(decided: Decided, waivers: tuple[Waiver, ...]) -> Decided:
    """Return what was decided with these waivers: the verdict that then holds, and its sentence."""
    verdict = verdict_of(decided.gates, waivers)
    now = replace(decided, waivers=waivers, verdict=verdict)
    return replace(now, headline=headline(now))


def with_sentences(decided: Decided) -> Decided:
    """Return it with its sentences."""
    return replace(decided, headline=headline(decided), at_length=at_length(decided))


def request_id(request: Request, profile_sha256: str, length: int = LENGTH) -> str:
    """Return the id of a request with its profile: the same two have the same, wherever they are judged."""
    return short_id("q", canonical(request), profile_sha256, length=length)


def _pilot(request: Request, policy: Policy, known: Supply, now_us: int, identity: str) -> Decided:
    gates = pilot_gates(request, policy.pilot, known.history)
    verdict = verdict_of(gates)
    decided = Decided(
        **_head(request, policy, known, now_us, identity),
        evidence=None,
        verdict=verdict,
        pilot=True,
        condition=condition(policy.pilot),
        gates=gates,
        remedies=pilot_remedies(gates, policy.pilot),
        offer=None,
        options=options_of(request, known, None, None, None, verdict),
        missing=() if known.rate else (_no_price(request),),
    )
    return with_sentences(decided)


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
    return with_sentences(replace(decided, offer=offer, options=options, missing=missing))
