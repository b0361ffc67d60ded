"""From each finding to one concrete change: from, to, why, what it saves, what it costs to move.

A run's page must come at once, however much is kept: it asks what answers the run's findings. The list of the fleet
also looks at notices, at samples, at what nobody uses, and at a plan of all runs together. What takes long is made
once a generation in a server.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Protocol, TypeVar

from agent.wire.units import SECOND_US
from analyzer.findings.finding import Finding
from analyzer.findings.health.all_notices import PeriodNotices, notices_in
from analyzer.findings.ledger_findings import findings
from analyzer.ledger.coverage import TimelinePoint, timeline
from analyzer.period import Period
from analyzer.prices.price_book import PriceBook, price_book
from analyzer.prices.rows import BY_USE, FIXED
from analyzer.queries.statements import statements
from analyzer.recommendations.fleet_plan.fleet_plan import plans
from analyzer.recommendations.lifecycle.realised import learned_shares
from analyzer.recommendations.proposal import Proposal, against, ended_together, kinds
from analyzer.recommendations.recommendation import (
    SETTING,
    Change,
    Latency,
    Moving,
    Recommendation,
    Saved,
    Share,
    calibrated,
    recommendation_id,
    recovered,
    sureness,
    told_over_us,
)
from analyzer.recommendations.rules import FINDINGS, FLEET, NOTICES
from analyzer.recommendations.run_status import SERVING, Life, gpu_milliseconds, moving, moving_words, read_life
from analyzer.recommendations.site import Site
from analyzer.recommendations.site_query import read_site
from analyzer.settings.settings import Settings
from analyzer.states import Confidence
from collector.store.session import Session

_RUNS_MOST = 20  # of one name: the newest are looked at
# What each run lost time to, as findings name it, the newest first.
_LOST = """
SELECT coalesce(r.name, l.run_id), r.team, l.cause, l.run_id, max(l.hour) AS last_at
FROM ledger l LEFT JOIN runs r USING (run_id)
WHERE l.run_id IS NOT NULL AND l.cause IS NOT NULL AND l.state NOT IN ('productive', 'unobserved', 'starting')
GROUP BY 1, 2, 3, 4 ORDER BY last_at DESC, 4
"""


def runs_of(session: Session, typed: str) -> Iterator[str]:
    """Yield the runs whose own reports may offer a recommendation of this id, the newest first."""
    meant: dict[tuple[str, str | None, str], bool] = {}
    count = 0
    for subject, team, cause, run_id, _ in session.rows(_LOST):
        key = (subject, team, cause)
        if key not in meant:
            meant[key] = any(recommendation_id(subject, team, kind, cause).startswith(typed) for kind in kinds())
        if meant[key]:
            yield run_id
            count += 1
            if count == _RUNS_MOST:
                return


# Plans the whole fleet in [start, end), microseconds UTC: the moves, each a change of its own.
_FleetPlan = Callable[["Session", Site, int, int], Sequence[Proposal]]
# What is worth a look in [start, end).
_Look = Callable[["Session", int, int], PeriodNotices]


@dataclass(frozen=True, slots=True)
class AdviceRequest:
    """Which recommendations are wanted, and by what they are made.

    `prices` is the site's book, for what the fleet does not own. `plan` is None where no plan of the fleet is wanted.
    `realised` are shares by kind that take the place of assumed ones, once enough cases show them. `look` finds
    notices, or has them.
    """

    is_of_fleet: bool = True
    prices: PriceBook = field(default_factory=PriceBook)
    plan: _FleetPlan | None = None
    realised: Mapping[str, Share] = field(default_factory=dict)
    look: _Look = notices_in


_OF_FLEET = AdviceRequest()


@dataclass(frozen=True, slots=True)
class Spent:
    """GPU time and money, and how much of either lay on GPUs that are paid by use, or nobody said how."""

    milliseconds: int = 0
    by_use_milliseconds: int = 0
    untold_milliseconds: int = 0
    micros: int = 0
    by_use_micros: int = 0

    def plus(self, other: "Spent") -> "Spent":
        """Return the sum of two."""
        return Spent(
            self.milliseconds + other.milliseconds,
            self.by_use_milliseconds + other.by_use_milliseconds,
            self.untold_milliseconds + other.untold_milliseconds,
            self.micros + other.micros,
            self.by_use_micros + other.by_use_micros,
        )


@dataclass(frozen=True, slots=True)
class Bill:
    """What runs spent by state and cause, and hosts as a whole."""

    runs: dict[str, dict[tuple[str, str], Spent]] = field(default_factory=dict)
    nodes: dict[str, Spent] = field(default_factory=dict)

    def of(self, proposal: Proposal) -> Spent:
        """Return what was spent where the loss is: by its runs in its states, else by its runs, else on its hosts."""
        own = [part for run in set(proposal.run_ids) for part in self.runs.get(run, {}).items()]
        lost = [spent for where, spent in own if where in proposal.losses]
        if own:
            return _sum(lost or (spent for _, spent in own))
        move = proposal.move
        hosts = set(move.from_.nodes) if move is not None and move.from_ is not None else {proposal.subject}
        here = [spent for node, spent in self.nodes.items() if node in hosts]
        return _sum(here or self.nodes.values())


def _sum(parts: Iterable[Spent]) -> Spent:
    total = Spent()
    for part in parts:
        total = total.plus(part)
    return total


def _read_bill(session: Session, run_ids: Collection[str], start_us: int, end_us: int) -> Bill:
    """Read how these runs' GPUs, and all hosts', are paid for, in [start_us, end_us)."""
    (of_runs,), (of_nodes,) = (
        statements("recommendations/billing.sql"),
        statements("recommendations/billing_of_nodes.sql"),
    )
    span = {"start": start_us, "end": end_us, "by_use": list(BY_USE), "fixed": list(FIXED)}
    runs: dict[str, dict[tuple[str, str], Spent]] = defaultdict(dict)
    for run, state, cause, *spent in session.rows(of_runs, span | {"runs": sorted(run_ids)}):
        runs[run][state, cause] = Spent(*spent)
    return Bill(dict(runs), {node: Spent(*spent) for node, *spent in session.rows(of_nodes, span)})


def divided(saved: Saved, spent: Spent) -> tuple[Saved | None, Saved | None]:
    """Return what is freed and what the bill falls by: together, quantile by quantile, what is saved.

    None of both where it is not known of all GPUs how they are paid for.
    """
    if spent.untold_milliseconds:
        return None, None
    time = saved.milliseconds.part(spent.by_use_milliseconds, max(1, spent.milliseconds))
    if saved.micros is None:
        return Saved(saved.milliseconds.less(time), None), Saved(time, None)
    part, whole = (
        (spent.by_use_micros, spent.micros) if spent.micros else (spent.by_use_milliseconds, spent.milliseconds)
    )
    money = saved.micros.part(part, max(1, whole))
    return Saved(saved.milliseconds.less(time), saved.micros.less(money)), Saved(time, money)


def gather(
    session: Session, site: Site, found: Sequence[Finding], start_us: int, end_us: int, wanted: AdviceRequest
) -> Iterator[Proposal]:
    """Yield every change that is proposed for a period, with what it stands on; suspicions give none.

    Of a run that is what answers its findings, and no sample is looked at.
    """
    answers = ended_together(session, list(_of_findings(found, site)), found, start_us, end_us)
    if not wanted.is_of_fleet:
        yield from answers
        return
    noticed = list(_of_notices(wanted.look(session, start_us, end_us), site))
    planned = list(against(wanted.plan(session, site, start_us, end_us), found)) if wanted.plan is not None else []
    if any(proposal.kind == "consolidate" for proposal in noticed):  # somebody waits: what lets it in goes first
        planned = [proposal for proposal in planned if proposal.kind != "consolidate"]
    moved = {(finding_id, proposal.kind) for proposal in planned for finding_id in proposal.finding_ids}
    for proposal in answers:
        if not any((finding_id, proposal.kind) in moved for finding_id in proposal.finding_ids):
            yield proposal  # else the plan says the same of it, and knows who else wants that rack
    yield from planned
    yield from noticed
    for look_at in FLEET:
        yield from look_at(session, site, start_us, end_us)


def _of_findings(found: Sequence[Finding], site: Site) -> Iterator[Proposal]:
    for finding in found:
        if finding.suspicion:
            continue
        for rule in FINDINGS:
            if (rule.state, rule.cause) == (finding.state, finding.cause):
                proposal = rule.propose(finding, site)
                if proposal is not None:
                    yield proposal.answering(finding)


def _of_notices(looked: PeriodNotices, site: Site) -> Iterator[Proposal]:
    for notice in looked.notices:
        for rule in NOTICES:
            if rule.rule == notice.rule and (proposal := rule.propose(notice, site)) is not None:
                yield proposal.noticing(notice)


_ANSWERED = frozenset((rule.state, rule.cause) for rule in FINDINGS)
_NOT_PREDICTED: tuple[Confidence, str] = ("low", "its savings are not predicted")
_NEXT_START = "none: applied at its next start"
_NOT_LOOKED = Latency(None, None, None, "not checked")
_NOT_TIMED = Latency(None, None, None, "unknown: the service does not report how long its requests wait")


@dataclass(frozen=True, slots=True)
class _Facts:
    """What all proposals of a period are priced with. `realised` has the shares that were borne out, by kind."""

    life: Life
    bill: Bill
    start_us: int
    end_us: int
    realised: Mapping[str, Share]
    looks_at_services: bool


def recommendations(
    session: Session,
    found: Sequence[Finding],
    start_us: int,
    end_us: int,
    wanted: AdviceRequest = _OF_FLEET,
) -> list[Recommendation]:
    """Return what to change for these findings, by money saved a week (P50); suspicions give none.

    No guard has looked at them yet (analyzer/recommendations/guards.py). `wanted` says whether those of the fleet are
    asked for, or what answers one run's findings.
    """
    site = read_site(session, start_us, end_us, wanted.prices, with_samples=wanted.is_of_fleet, about=found)
    proposed = list(gather(session, site, found, start_us, end_us, wanted))
    runs = {run for proposal in proposed for run in proposal.run_ids}
    restarted = {run for proposal in proposed if proposal.moving_gpu_ms for run in proposal.run_ids}
    facts = _Facts(
        read_life(session, {run: site.runs[run].gpus if run in site.runs else None for run in runs}, restarted),
        _read_bill(session, runs, start_us, end_us),
        start_us,
        end_us,
        wanted.realised,
        site.looks_at("services"),
    )
    return sorted((_recommendation(proposal, facts) for proposal in proposed), key=lambda one: one.rank)


def _recommendation(proposal: Proposal, facts: _Facts) -> Recommendation:
    saved, share = _saved(proposal, facts)
    freed, billed = divided(saved, facts.bill.of(proposal))
    confidence, because = sureness(proposal.confidence, share) if saved.milliseconds.p95 else _NOT_PREDICTED
    said = {each.name: getattr(proposal, each.name) for each in fields(Change)}
    made = Recommendation(
        **said | {"confidence": confidence, "latency": proposal.latency or _untimed(proposal, facts)},
        id=recommendation_id(proposal.key, proposal.team, proposal.kind, proposal.cause),
        saves_milliseconds=saved.milliseconds,
        saves_micros=saved.micros,
        cost_to_move_micros=None,
        sure_because=because,
        freed=freed,
        billed=billed,
        outlook=facts.life.outlook(proposal.run_ids),
        expires_at=_last_end(proposal, facts.life),
        saves_over_seconds=max(1, told_over_us(facts.end_us - facts.start_us) // SECOND_US),
    )
    return _with_cost(made, proposal, facts.life)


def _saved(proposal: Proposal, facts: _Facts) -> tuple[Saved, Share | None]:
    """Return what a proposal saves: an amount of its own, or a share (returned too) of what it stands on."""
    if isinstance(proposal.saves, Saved):
        return proposal.saves, None
    share, period_us = proposal.saves, facts.end_us - facts.start_us
    if not share.computed:  # what follows from what was measured of this run needs no others to correct it
        share = calibrated(proposal.kind, share, facts.realised)
    micros = None if proposal.micros is None else recovered(proposal.micros, period_us, share)
    return Saved(recovered(proposal.milliseconds or 0, period_us, share), micros), share


def _with_cost(made: Recommendation, proposal: Proposal, life: Life) -> Recommendation:
    """Return it with what moving costs: as measured of the runs that would be restarted, nothing where none runs."""
    running = life.running(proposal.run_ids)
    if proposal.ends_work:  # what may be lost with it is its owner's to say: no amount, and not 0
        return replace(made, takes_effect="now" if running else "next_start")
    if proposal.moving_gpu_ms == 0:
        is_setting = proposal.cost_to_move == SETTING or not running
        return replace(made, cost_to_move_micros=0, takes_effect="next_start" if is_setting else "now")
    if not running and any(run in life.runs for run in proposal.run_ids):
        return replace(made, cost_to_move=_NEXT_START, cost_to_move_micros=0)
    restarts = moving(running, life, proposal.move)
    took = proposal.moving_gpu_ms if restarts is None else gpu_milliseconds(restarts)
    return replace(
        made,
        # where nothing is known of the runs the proposal's own word stands
        cost_to_move=proposal.cost_to_move if restarts is None else moving_words(restarts, len(running)),
        cost_to_move_milliseconds=took,
        cost_to_move_micros=_price(took, proposal, made),
        moving=restarts or Moving(0, ()),
        takes_effect="now",
    )


def _price(milliseconds: int, proposal: Proposal, made: Recommendation) -> int | None:
    """Return the price of GPU time at the rate of what the change stands on; None where no price is known."""
    if proposal.milliseconds:
        return None if proposal.micros is None else proposal.micros * milliseconds // proposal.milliseconds
    if made.saves_micros is None or not made.saves_milliseconds.p50:
        return None
    return made.saves_micros.p50 * milliseconds // made.saves_milliseconds.p50


def _untimed(proposal: Proposal, facts: _Facts) -> Latency | None:
    """Return that a service's requests are not timed, or were not looked at; None of what is no service."""
    runs = facts.life.runs
    if not any(runs[run].stage == SERVING for run in proposal.run_ids if run in runs):
        return None
    return _NOT_TIMED if facts.looks_at_services else _NOT_LOOKED


def _last_end(proposal: Proposal, life: Life) -> int | None:
    """Return when the last of its runs reaches its time limit; None where one has none, or runs of its name come again.

    A guard lets every recommendation end some days after its period.
    """
    outlook = life.outlook(proposal.run_ids)
    running = life.running(proposal.run_ids)
    limits = [run.limit_at for run in running if run.limit_at is not None and run.limit_at > life.now]
    if outlook is None or outlook.recurs or not limits or len(limits) < len(running):
        return None
    return max(limits)


@dataclass(frozen=True, slots=True)
class LossSource:
    """What was found, what is advised (no guard has looked at it yet), and how a run went over time.

    What is advised follows from the findings, and from what is wanted: what answers a run's, or the fleet's whole list.
    """

    findings: Callable[[Session, int, int, str | None], list[Finding]]
    recommendations: Callable[[Session, list[Finding], int, int, AdviceRequest], list[Recommendation]]
    timeline: Callable[[Session, str, int], Sequence[TimelinePoint]]

    @classmethod
    def own(cls) -> "LossSource":
        """Return the analyzer's own."""
        return cls(findings, recommendations, timeline)


T = TypeVar("T")
_Recommend = Callable[["Session", list[Finding], int, int, AdviceRequest], list[Recommendation]]


class Once(Protocol):
    """Makes what is asked for unless it is made already."""

    def __call__(self, what: Hashable, make: Callable[[], T], /) -> T:
        """Return what bears this name."""


def _each_time(_: Hashable, make: Callable[[], T], /) -> T:
    return make()


@dataclass(frozen=True, slots=True)
class AdviceOptions:
    """Makes what readings of recommendations ask for; `once` keeps it where several readings ask for the same."""

    settings: Settings
    once: Once = _each_time

    def advised(
        self, recommend: _Recommend, session: Session, found: list[Finding], period: Period, *, of_run: bool
    ) -> list[Recommendation]:
        """Return what `recommendations` makes of these findings: of one run, or of the fleet.

        Raises:
            ConfigError: the price file cannot be read.
        """
        if of_run and not any((one.state, one.cause) in _ANSWERED and not one.suspicion for one in found):
            return []
        wanted = self.of_run(session) if of_run else self.of_fleet(session)
        what = ("advice", of_run, period.start, period.end, tuple(found))
        return self.once(what, lambda: recommend(session, found, period.start, period.end, wanted))

    def of_run(self, session: Session) -> AdviceRequest:
        """Return what a run's page asks for: what answers its findings, without samples, notices or a plan."""
        return AdviceRequest(is_of_fleet=False, realised=self.realised(session))

    def of_fleet(self, session: Session) -> AdviceRequest:
        """Return what the list of the fleet asks for.

        Raises:
            ConfigError: the price file cannot be read.
        """
        seconds = self.settings.advising.plan_seconds
        plan = partial(plans, seconds=seconds) if seconds else None
        return AdviceRequest(True, price_book(self.settings), plan, self.realised(session), self.looked)

    def looked(self, session: Session, start_us: int, end_us: int) -> PeriodNotices:
        """Return what is worth a look in a period: the list of notices and the advice both ask."""
        return self.once(name_of_notices(start_us, end_us), lambda: notices_in(session, start_us, end_us))

    def realised(self, session: Session) -> Mapping[str, Share]:
        """Return the shares that realised savings show, by kind; none where the settings do not want them used."""
        if not self.settings.advising.learn_shares:
            return {}
        return self.once("shares", lambda: learned_shares(session))


def name_of_notices(start_us: int, end_us: int) -> Hashable:
    """Return by what name the notices of a period are made once."""
    return ("notices", start_us, end_us)
