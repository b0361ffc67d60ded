"""Changes of how often state is saved: what is saved is not lost, and what is saved too often is not worked."""

from math import ceil

from analyzer.findings.finding import Finding
from analyzer.findings.health.notice import Notice
from analyzer.measures.efficiency.checkpoints import Checkpoints
from analyzer.recommendations.artefacts import kubernetes, slurm
from analyzer.recommendations.artefacts.owner import for_scheduler
from analyzer.recommendations.proposal import Proposal, Saved
from analyzer.recommendations.recommendation import Artefact, Constraint, Move
from analyzer.recommendations.saving import ASSUMED, Share, recovered
from analyzer.recommendations.site import Placed, Site
from analyzer.recommendations.types.failure_odds import week_of
from analyzer.text.wording import counted

_UNLOOKED = "its checkpoints were not looked at here"
_GRACE_SECONDS = 60  # beside the time to save: for a signal to reach every rank
# Young's interval is as good as what it rests on, a mean of few failures: half of what it promises, up to all.
_OF_STAKE = Share(500, 800, 1000)


def checkpoint(finding: Finding, site: Site) -> Proposal | None:
    """Save state more often, at the cadence that the cost of saving and the rate of failures give.

    None where it was memory that ran out: what dies so dies again, however often it saves. None also where saving more
    often costs more than failures would, in most weeks.
    """
    runs = [one for one in site.placed(finding.run_ids) if one.exit_status != "out_of_memory"]
    if not runs:
        return None
    gpus = sum(one.gpus for one in runs)
    known = next((site.checkpoints[one.run_id] for one in runs if one.run_id in site.checkpoints), None)
    best = _better(known)
    saves = _saves(finding, runs, known, site)
    if isinstance(saves, Saved) and saves.milliseconds.p50 <= 0:
        return None
    lost = f"{finding.milliseconds / 3_600_000:,.1f} GPU-hours since the last checkpoint seen"
    return Proposal(
        kind="checkpoint",
        title=f"save its state every {_time(best)}" if best else "save its state more often",
        from_=f"{finding.subject} on {counted(gpus, 'GPU')}: {lost}; {_now(known, site)}",
        to=f"a checkpoint every {_time(best)}"
        if best
        else "checkpoints at all: every sqrt(2 x time between failures x time to save), once both are seen",
        why=f"what is saved is not lost{_sum(known)}",
        saves=saves,
        artefacts=_lines(runs[0], known, finding.cause, site),
        losers="each step, by the time that saving takes",
        move=_stays(site, runs[0]),
        constraints=(_rests_on(known, site),),
    )


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
    best = known.best_seconds.value
    return Proposal(
        kind="checkpoint",
        title=f"save its state every {_time(best)}, not {_time(known.interval_seconds.value)}",
        from_=_now(known, site),
        to=f"a checkpoint every {_time(best)}",
        why=f"the GPUs stand still to save more than failures would cost{_sum(known)}",
        saves=Saved(recovered(stake, period, _OF_STAKE), micros),
        artefacts=_lines(placed, known, "often", site),
        losers="whoever restarts after a failure: a little more is lost then",
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
        return "no checkpoint of it was seen, and none was named by it"
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
    if known is None and not site.looks_at("checkpoints"):
        return Constraint("cadence", None, _UNLOOKED)
    if known is None:
        return Constraint("cadence", None, "no checkpoint seen: how long saving takes is not known")
    if known.best_seconds.value is None:
        return Constraint("cadence", None, known.best_seconds.because or "not known")
    return Constraint(
        "cadence", True, f"time to save from {counted(known.count, 'checkpoint')}, failures of four weeks"
    )


def _lines(placed: Placed, known: Checkpoints | None, cause: str, site: Site) -> tuple[Artefact, ...]:
    best = _better(known)
    because = (known.best_seconds.because if known else None) or _now(None, site)
    said = f"checkpoint_interval_seconds = {round(best)}" if best else f"# how often is not known: {because}"
    if best and known and known.best_seconds.value is None:
        said += f"  # half of now, as the best is not known: {because}"
    lines = [Artefact("config", f"# in the run's own settings, by whatever name its trainer has for it\n{said}")]
    if cause != "preempted":
        return tuple(lines)
    took = known.save_seconds.value if known else None
    if took is None:
        return (*lines, *for_scheduler(placed, lambda: slurm.options("requeue"), lambda: _no_grace(placed)))
    grace = ceil(took) + _GRACE_SECONDS
    note = f"a signal {grace} s before it ends: {took:.0f} s to save, and a minute"
    signal = for_scheduler(
        placed,
        lambda: slurm.options("requeue", f"signal=B:TERM@{grace}", note=note),
        lambda: kubernetes.patch(placed, {"terminationGracePeriodSeconds": grace}),
    )
    return (*lines, *signal)


def _no_grace(placed: Placed) -> Artefact:
    return kubernetes.text(
        f"# {kubernetes.owner(placed)}: how long saving takes is not known, and so no grace period is"
    )


def _time(seconds: float | None) -> str:
    minutes = round((seconds or 0) / 60)
    if minutes == 0:
        return f"{seconds or 0:.0f} s"
    return f"{minutes // 60} h {minutes % 60:02} min" if minutes >= 60 else f"{minutes} min"
