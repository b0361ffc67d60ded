"""From each finding to one concrete change: from, to, why, what it saves, what it costs to move."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.wire.units import SECOND_US
from analyzer.findings.finding import Finding
from analyzer.recommendations.advice_request import OF_FLEET, AdviceRequest
from analyzer.recommendations.billing import Bill, divided, read_bill
from analyzer.recommendations.fleet_plan.moving import gpu_milliseconds, moving, moving_words
from analyzer.recommendations.gather import gather
from analyzer.recommendations.latency import Latency
from analyzer.recommendations.proposal import SETTING, Proposal
from analyzer.recommendations.recommendation import Moving, Recommendation, Saved, Takes
from analyzer.recommendations.recommended_runs import recommendation_id
from analyzer.recommendations.run_status import SERVING, Life, read_life
from analyzer.recommendations.saving import Share, calibrated, recovered, sureness, told_over_us
from analyzer.recommendations.site import read_site
from analyzer.recommendations.trigger import Trigger
from analyzer.states import Confidence

if TYPE_CHECKING:
    from collector.store.session import Session

_NOT_PREDICTED: tuple[Confidence, str] = ("low", "what it saves is not predicted")
_NEXT_START = "none: from its next start on"
_NOT_LOOKED = Latency(None, None, None, "not looked at here")
_NOT_TIMED = Latency(None, None, None, "not known: the service does not tell how long its requests wait")


@dataclass(frozen=True, slots=True)
class _Facts:
    """What all proposals of a period are priced with. `realised` has the shares that were borne out, by kind."""

    life: Life
    bill: Bill
    start_us: int
    end_us: int
    realised: Mapping[str, Share]
    looks_at_services: bool


@dataclass(frozen=True, slots=True)
class _Cost:
    """What moving costs: in words, in GPU time and money (None: no price), and what has to be restarted."""

    words: str
    milliseconds: int
    micros: int | None
    moving: Moving | None
    takes_effect: Takes


def recommendations(
    session: "Session",
    found: Sequence[Finding],
    start_us: int,
    end_us: int,
    wanted: AdviceRequest = OF_FLEET,
) -> list[Recommendation]:
    """Return what to change for these findings, by money saved a week (P50); suspicions give none.

    No guard has looked at them yet (analyzer/recommendations/guards.py). `wanted` says whether those of the fleet are
    asked for, or what answers one run's findings.
    """
    site = read_site(session, start_us, end_us, wanted.prices, with_samples=wanted.is_of_fleet, about=found)
    proposed = list(gather(session, site, found, start_us, end_us, wanted))
    runs = {run for trigger, _ in proposed for run in trigger.run_ids}
    restarted = {run for trigger, proposal in proposed if proposal.moving_gpu_ms for run in trigger.run_ids}
    facts = _Facts(
        read_life(session, {run: site.runs[run].gpus if run in site.runs else None for run in runs}, restarted),
        read_bill(session, runs, start_us, end_us),
        start_us,
        end_us,
        wanted.realised,
        site.looks_at("services"),
    )
    advised = [_recommendation(trigger, proposal, facts) for trigger, proposal in proposed]
    return sorted(
        advised, key=lambda r: (-(r.saves_micros.p50 if r.saves_micros else 0), -r.saves_milliseconds.p50, r.id)
    )


def _recommendation(trigger: Trigger, proposal: Proposal, facts: _Facts) -> Recommendation:
    saved, share = _saved(trigger, proposal, facts)
    freed, billed = divided(saved, facts.bill.of(trigger, proposal.move))
    cost = _cost(trigger, proposal, saved, facts.life)
    confidence, because = sureness(trigger.confidence, share) if saved.milliseconds.p95 else _NOT_PREDICTED
    return Recommendation(
        id=recommendation_id(trigger.key, trigger.team, proposal.kind, trigger.cause),
        finding_ids=trigger.finding_ids,
        kind=proposal.kind,
        subject=trigger.subject,
        team=trigger.team,
        actor=proposal.actor or trigger.actor,
        title=proposal.title,
        from_=proposal.from_,
        to=proposal.to,
        why=proposal.why,
        saves_milliseconds=saved.milliseconds,
        saves_micros=saved.micros,
        cost_to_move=cost.words,
        cost_to_move_micros=cost.micros,
        artefacts=proposal.artefacts,
        losers=proposal.losers,
        winners=proposal.winners,
        notice_ids=trigger.notice_ids,
        run_ids=trigger.run_ids,
        cause=trigger.cause,
        confidence=confidence,
        sure_because=because,
        freed=freed,
        billed=billed,
        cost_to_move_milliseconds=cost.milliseconds,
        takes_effect=cost.takes_effect,
        moving=cost.moving,
        outlook=facts.life.outlook(trigger.run_ids),
        move=proposal.move,
        constraints=proposal.constraints,
        latency=proposal.latency or _untimed(trigger, facts),
        expires_at=_last_end(trigger, facts.life),
        saves_over_seconds=max(1, told_over_us(facts.end_us - facts.start_us) // SECOND_US),
        ends_work=proposal.ends_work,
    )


def _saved(trigger: Trigger, proposal: Proposal, facts: _Facts) -> tuple[Saved, Share | None]:
    """Return what a proposal saves: an amount of its own, or a share (returned too) of what it stands on."""
    if isinstance(proposal.saves, Saved):
        return proposal.saves, None
    share, period_us = proposal.saves, facts.end_us - facts.start_us
    if not share.computed:  # what follows from what was measured of this run needs no others to correct it
        share = calibrated(proposal.kind, share, facts.realised)
    micros = None if trigger.micros is None else recovered(trigger.micros, period_us, share)
    return Saved(recovered(trigger.milliseconds or 0, period_us, share), micros), share


def _cost(trigger: Trigger, proposal: Proposal, saved: Saved, life: Life) -> _Cost:
    """Return what moving costs: as measured of the runs that would be restarted, nothing where none runs any more."""
    running = life.running(trigger.run_ids)
    if proposal.ends_work:  # what may be lost with it is its owner's to say: no amount, and not 0
        return _Cost(proposal.cost_to_move, 0, None, None, "now" if running else "next_start")
    if proposal.moving_gpu_ms == 0:
        is_setting = proposal.cost_to_move == SETTING or not running
        return _Cost(proposal.cost_to_move, 0, 0, None, "next_start" if is_setting else "now")
    known = [run for run in trigger.run_ids if run in life.runs]
    if known and not running:
        return _Cost(_NEXT_START, 0, 0, None, "next_start")
    cost = moving(running, life, proposal.move)
    if cost is None:  # nothing is known of the runs: the proposal's own word stands
        took = proposal.moving_gpu_ms
        return _Cost(proposal.cost_to_move, took, _price(took, trigger, saved), Moving(0, ()), "now")
    took = gpu_milliseconds(cost)
    return _Cost(moving_words(cost, len(running)), took, _price(took, trigger, saved), cost, "now")


def _price(milliseconds: int, trigger: Trigger, saved: Saved) -> int | None:
    """Return the price of GPU time at the rate of what the change stands on; None where no price is known."""
    if trigger.milliseconds:
        return None if trigger.micros is None else trigger.micros * milliseconds // trigger.milliseconds
    if saved.micros is None or not saved.milliseconds.p50:
        return None
    return saved.micros.p50 * milliseconds // saved.milliseconds.p50


def _untimed(trigger: Trigger, facts: _Facts) -> Latency | None:
    """Return that a service's requests are not timed, or were not looked at; None of what is no service."""
    runs = facts.life.runs
    if not any(runs[run].stage == SERVING for run in trigger.run_ids if run in runs):
        return None
    return _NOT_TIMED if facts.looks_at_services else _NOT_LOOKED


def _last_end(trigger: Trigger, life: Life) -> int | None:
    """Return when the last of its runs reaches its time limit; None where one has none, or runs of its name come again.

    A guard lets every recommendation end some days after its period.
    """
    outlook = life.outlook(trigger.run_ids)
    running = life.running(trigger.run_ids)
    limits = [run.limit_at for run in running if run.limit_at is not None and run.limit_at > life.now]
    if outlook is None or outlook.recurs or not limits or len(limits) < len(running):
        return None
    return max(limits)
