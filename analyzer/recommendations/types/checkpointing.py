"""Changes of how often state is saved: what is saved is not lost, but saving takes time; and training on spot hosts.

What another cadence saves: failures come when they come, and saving costs time each time. A failure throws away what
was done since the last checkpoint, a share of the interval that chance decides. So a week's saving is a distribution:
of weeks with few failures most is spent on saving alone. Drawn with a fixed seed.

Training on spot pays where the ratio of prices is below the goodput that is left: what saving takes, what each loss of
a host throws away, and what it takes to begin again (J. W. Young, CACM 17(9), 1974, for the interval). It is proposed
only where both are known of this site.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from random import Random

from agent.wire.units import HOUR_MS
from analyzer.findings.finding import Finding
from analyzer.findings.health.notice import Notice
from analyzer.measures.efficiency.checkpoints import FAILURES_LEAST, Checkpoints, best_interval_seconds, lost_ratio
from analyzer.queries.statements import statements
from analyzer.recommendations.artefacts import on_nodes, owner, pod_patch
from analyzer.recommendations.proposal import RESTART_MS, Proposal, lines, proposal_of
from analyzer.recommendations.recommendation import (
    ASSUMED,
    Artefact,
    Constraint,
    Move,
    Range,
    Saved,
    Share,
    recovered,
    told_over_us,
)
from analyzer.recommendations.site import Placed, Site
from analyzer.recommendations.types import checks
from analyzer.text.words import brief_percent, counted
from collector.store.session import Session

_UNLOOKED = "its checkpoints were not checked"
_GRACE_SECONDS = 60  # beside the time to save: for a signal to reach every rank
# Young's interval is as good as what it rests on, a mean of few failures: half of what it promises, up to all.
_OF_STAKE = Share(500, 800, 1000)
_DRAWS = 2_000
_SEED = 1
_BACK_US = 28 * 86_400_000_000  # as far back as failures are counted
_RESTART_SECONDS = RESTART_MS / 1000
_ALL = 1000
_SPOT_GRACE_SECONDS = 120  # what AWS gives before it takes a spot instance; others give 30 s


def checkpoint(finding: Finding, site: Site) -> Proposal | None:
    """Save state more often, at the cadence that the cost of saving and the rate of failures give.

    None where that spares nothing: of runs that ran out of memory, die as they save, or never did a step. None also
    where saving more often costs more than failures would, in most weeks.
    """
    runs = [one for one in site.placed(finding.run_ids) if _spares_work(one, finding.cause)]
    if not runs:
        return None
    known = next((site.checkpoints[one.run_id] for one in runs if one.run_id in site.checkpoints), None)
    best = _better(known)
    saves = _saves(finding, runs, known, site)
    if isinstance(saves, Saved) and saves.milliseconds.p50 <= 0:
        return None
    facts = {
        "finding": finding,
        "gpus": sum(one.gpus for one in runs),
        "lost": finding.milliseconds / HOUR_MS,
        "now": _now(known, site),
        "best": _time(best),
        "sum": _sum(known),
    }
    return proposal_of(
        *(("checkpoint",) if best else ("checkpoint_at_all", "checkpoint")),
        facts=facts,
        saves=saves,
        artefacts=_lines(runs[0], known, finding.cause, site),
        move=_stays(site, runs[0]),
        constraints=(_rests_on(known, site),),
    )


def _spares_work(placed: Placed, cause: str) -> bool:
    """Whether there is work to save, and saving it is not what ends the run: what dies so dies again.

    A gang of which a rank never ran a kernel, or which drew no more power than waiting takes, has done no step.
    """
    ran_out = placed.exit_status == "out_of_memory" or (cause == "failed" and placed.memory_is_full)
    has_begun = placed.gpus == 1 or (placed.has_computed is not False and not placed.idle_ranks)
    return has_begun and not ran_out and not placed.ends_in_saves


def _saves(finding: Finding, runs: list[Placed], known: Checkpoints | None, site: Site) -> Share | Saved:
    """Return what the best cadence saves where it is known, at the finding's rate; else a share of the loss."""
    seen = [(site.checkpoints[one.run_id], one) for one in runs if one.run_id in site.checkpoints]
    week = week_of(seen, _better(known), site.end_us - site.start_us) if len(seen) == len(runs) else None
    if week is None:
        return ASSUMED["checkpoint_more"]
    stake = finding.at_stake_micros
    return Saved(week, None if stake is None else week.part(stake, max(1, finding.milliseconds)))


def less_often(notice: Notice, site: Site) -> Proposal | None:
    """Save state less often where saving costs more than failures would; the other way is a finding's."""
    of = [(one, site.checkpoints[one.run_id]) for one in site.placed(notice.run_ids) if one.run_id in site.checkpoints]
    off = [(one, found) for one, found in of if found.advice == "less often" and found.stake_ms]
    if not off:
        return None
    placed, known = max(off, key=lambda pair: pair[1].stake_ms or 0)
    period = site.end_us - site.start_us
    stake = sum(found.stake_ms or 0 for _, found in off)
    money = [found.stake_micros for _, found in off]
    micros = None if None in money else recovered(sum(each or 0 for each in money), period, _OF_STAKE)
    facts = {
        "best": _time(known.best_seconds.value),
        "every": _time(known.interval_seconds.value),
        "now": _now(known, site),
        "sum": _sum(known),
    }
    return proposal_of(
        "checkpoint_less",
        facts=facts,
        saves=Saved(recovered(stake, period, _OF_STAKE), micros),
        artefacts=_lines(placed, known, "often", site),
        move=_stays(site, placed),
        constraints=(_rests_on(known, site),),
    )


def _better(known: Checkpoints | None) -> float | None:
    """Return the best interval, in seconds; half of today's while failures are too few for one; None where none is."""
    if known is None:
        return None
    every = known.interval_seconds.value
    return known.best_seconds.value or (None if every is None else every / 2)


def _stays(site: Site, placed: Placed) -> Move:
    place = site.place(placed)
    return Move(place, place)


def _now(known: Checkpoints | None, site: Site) -> str:
    if known is None and not site.looks_at("checkpoints"):
        return _UNLOOKED
    if known is None:
        return "no checkpoint of it was observed or reported"
    every = known.interval_seconds.value
    if every is None:
        return f"{counted(known.count, 'checkpoint')} seen"
    took = known.save_seconds.value
    return f"a checkpoint every {_time(every)}" + (f", each {took:.0f} s" if took is not None else "")


def _sum(known: Checkpoints | None) -> str:
    if known is None or known.best_seconds.value is None:
        return ""
    between, took = known.mtbf_seconds.value or 0, known.save_seconds.value or 0
    return f": sqrt(2 x {_time(between)} between failures x {took:.0f} s to save) (Young 1974)"


def _rests_on(known: Checkpoints | None, site: Site) -> Constraint:
    if known is None:
        why = "no checkpoint observed: the time to save is unknown" if site.looks_at("checkpoints") else _UNLOOKED
        return Constraint("cadence", None, why)
    if known.best_seconds.value is None:
        return Constraint("cadence", None, known.best_seconds.because or "not known")
    return Constraint(
        "cadence", True, f"time to save from {counted(known.count, 'checkpoint')}, failures of four weeks"
    )


def _lines(placed: Placed, known: Checkpoints | None, cause: str, site: Site) -> tuple[Artefact, ...]:
    best = _better(known)
    because = (known.best_seconds.because if known else None) or _now(None, site)
    setting = f"checkpoint_interval_seconds = {round(best)}" if best else f"# how often is unknown: {because}"
    if best and known and known.best_seconds.value is None:
        setting += f"  # half of now, as the best is unknown: {because}"
    cadence = lines("cadence", placed, setting=setting)
    if cause != "preempted":
        return cadence
    took = known.save_seconds.value if known else None
    if took is None:
        return (*cadence, *lines("requeue", placed, owner=owner(placed)))
    grace = ceil(took) + _GRACE_SECONDS
    patch = pod_patch(placed, {"terminationGracePeriodSeconds": grace})
    return (*cadence, *lines("requeue_with_grace", placed, grace=grace, took=took, patch=patch))


def _time(seconds: float | None) -> str:
    minutes = round((seconds or 0) / 60)
    if minutes == 0:
        return f"{seconds or 0:.0f} s"
    return f"{minutes // 60} h {minutes % 60:02} min" if minutes >= 60 else f"{minutes} min"


@dataclass(frozen=True, slots=True)
class _Odds:
    """One run in the span: how many failures are expected, what they throw away less each, what saving costs more.

    Of one failure it is GPU-seconds in the whole interval, of which chance takes a share.
    """

    failures: float
    each: float
    overhead: float


def week_of(runs: Sequence[tuple[Checkpoints, Placed]], best: float | None, period_us: int) -> Range | None:
    """Return the GPU-milliseconds saved by saving every `best` seconds, in the span that savings are told of, or None.

    None is where too little is known for it. Each run fails and pays for saving by itself. Where failures are too few
    for a mean time between them, the one that is known of each run counts for the period. A quantile is below 0 where
    saving more often costs more than failures would have.
    """
    known = [_odds(checkpoints, placed, best, period_us) for checkpoints, placed in runs]
    odds = [each for each in known if each is not None]
    if not odds or len(odds) < len(known):
        return None
    failures = sum(one.failures for one in odds)
    each = sum(one.failures * one.each for one in odds) / failures
    overhead = sum(one.overhead for one in odds)
    random = Random(_SEED)  # noqa: S311 (no secret; the same input gives the same answer)
    drawn = sorted(each * _lost(random, failures) - overhead for _ in range(_DRAWS))
    p5, p20, p50, p80, p95 = (round(1_000 * drawn[_DRAWS * share // 100]) for share in (5, 20, 50, 80, 95))
    return Range(p20, p50, p80, p5, p95)


def _odds(known: Checkpoints, placed: Placed, best: float | None, period_us: int) -> _Odds | None:
    every, save = known.interval_seconds.value, known.save_seconds.value
    if every is None or best is None or save is None or not placed.held_ms or period_us <= 0:
        return None
    gpu_seconds = placed.held_ms / 1_000 * (told_over_us(period_us) / period_us)
    runs_seconds = gpu_seconds / max(1, placed.gpus)
    between = known.mtbf_seconds.value or max(1.0, placed.held_ms / 1_000 / max(1, placed.gpus))
    return _Odds(runs_seconds / between, (every - best) * placed.gpus, gpu_seconds * save * (1 / best - 1 / every))


def _lost(random: Random, failures: float) -> float:
    """Return what all failures of a week throw away, in intervals: each a share of one, their number by Poisson."""
    lost, moment = 0.0, random.expovariate(1.0)
    while moment < failures:
        lost += random.random()
        moment += random.expovariate(1.0)
    return lost


@dataclass(frozen=True, slots=True)
class Spot:
    """The fleet's own spot hosts of one kind: how often runs were taken off them, in how many microseconds of hosts."""

    sku: str
    taken: int
    node_us: int

    def mtbf_seconds(self, nodes: int) -> float | None:
        """Return the mean time between two losses of a run on so many hosts; None where too few were seen."""
        return self.node_us / self.taken / nodes / 1_000_000 if self.taken >= FAILURES_LEAST else None


def find_spot_changes(session: Session, site: Site, _start_us: int, end_us: int) -> Iterator[Proposal]:
    """Yield a change for each run that saves its state, is paid by use, and would be cheaper on spot; by run."""
    (select,) = statements("recommendations/spot.sql")
    spots = {row[0]: Spot(*row) for row in session.rows(select, {"start": end_us - _BACK_US, "end": end_us})}
    for placed in site.runs.values():
        spot = spots.get(site.sku_of(placed) or "")
        if spot is not None and placed.is_open and _is_paid_by_use(site, placed):
            proposal = _on_spot(site, placed, spot)
            if proposal is not None:
                yield proposal


def _is_paid_by_use(site: Site, placed: Placed) -> bool:
    """Say whether the bill would fall: what is owned or reserved is paid for whoever uses it."""
    return all(host.purchase_option == "on_demand" for host in site.of_run(placed)) and bool(site.of_run(placed))


def ratio_permille(site: Site, sku: str) -> int | None:
    """Return spot's price over that on demand; None where the site's book, or its ledger, does not have both."""
    prices = []
    for option in ("spot", "on_demand"):
        told = site.prices.price(sku, option, max(0, site.end_us - 1))
        is_own = told is not None and told.option == option
        prices.append(told.micros_per_gpu_hour if told is not None and is_own else site.rate(sku, option))
    spot, on_demand = prices
    return None if spot is None or not on_demand else _ALL * spot // on_demand


def goodput(mtbf: float, save: float) -> float:
    """Return the share of time that is left for work on hosts that are taken away so often; all in seconds."""
    return max(0.0, 1 - lost_ratio(best_interval_seconds(mtbf, save), mtbf, save) - _RESTART_SECONDS / mtbf)


def _on_spot(site: Site, placed: Placed, spot: Spot) -> Proposal | None:
    known = site.checkpoints.get(placed.run_id)
    save = known.save_seconds.value if known else None
    mtbf = spot.mtbf_seconds(len(placed.hosts))
    ratio = ratio_permille(site, spot.sku)
    if save is None or mtbf is None or ratio is None:
        return None
    left = goodput(mtbf, save)
    if ratio >= _ALL * left:
        return None
    # half and twice as many losses: the mean of a few is no better known than that
    careful, likely, lucky = (_saved(ratio, goodput(times * mtbf, save)) for times in (0.5, 1.0, 2.0))
    every = best_interval_seconds(mtbf, save)
    hosts = [host.node for host in site.hosts.values() if host.purchase_option == "spot" and host.sku == spot.sku]
    facts = {
        "placed": placed,
        "minutes": every / 60,
        "ratio": ratio,
        "left": round(_ALL * left),
        "mtbf_hours": mtbf / 3600,
        "save": save,
        "longer": 100 / max(left, 0.01) - 100,
    }
    patch = pod_patch(placed, on_nodes(hosts) | {"terminationGracePeriodSeconds": _SPOT_GRACE_SECONDS})
    chosen = hosts[: len(placed.hosts)]
    return proposal_of(
        "spot",
        facts=facts,
        saves=checks.money_of_runs([placed], site, Share(careful, likely, lucky)),
        artefacts=lines("spot", placed, grace=_SPOT_GRACE_SECONDS, nodes=chosen, every=round(every), patch=patch),
        move=Move(site.place(placed), site.place_on(chosen, placed.gpus, spot.sku)),
        constraints=(
            Constraint(
                "price", True, f"{brief_percent(ratio)} of on demand, below {brief_percent(round(_ALL * left))}"
            ),
            Constraint(
                "losses of hosts", True, f"{spot.taken} in {spot.node_us / 3.6e9:,.0f} host-hours of its own spot hosts"
            ),
            Constraint("checkpoints", True, f"seen: {save:.0f} s each"),
            Constraint("room on spot", None, "the provider's capacity is unknown"),
            checks.UNTOLD,
        ),
        subject=placed.called,
        team=placed.team,
        cause="spot",
        run_ids=(placed.run_id,),
    )


def _saved(ratio: int, left: float) -> int:
    return max(0, _ALL - round(ratio / left)) if left > 0 else 0
