"""Runs to look at: no GPU needed, memory nearly full, idle tensor cores, stages packed together, too large a GPU, and
checkpoints at the wrong interval or never restored.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from agent.wire.units import HOUR_MS
from analyzer.findings.finding import EvidenceLine
from analyzer.findings.health.notice import (
    LIMITS,
    MIG_CAPABLE,
    Notice,
    NoticeLimits,
    NoticeRule,
    Span,
    noticed,
    rolled_until,
    rows_of,
    values_of,
)
from analyzer.ledger.coverage import Unjudged
from analyzer.measures.efficiency import efficiency_query
from analyzer.measures.efficiency.checkpoints import FAILURES_LEAST, Checkpoints, Failures, Figure, Saving, checkpoints
from analyzer.queries.statements import statements
from analyzer.states import Confidence
from analyzer.text.words import brief_percent, called, counted, gib, tenths
from collector.lake.tiers import kept_from
from collector.store.session import Session

_NO_PROCESSOR_TIME = "no CPU time of runs was reported (run_samples, process_samples)"
_STAKE_LEAST_MS = HOUR_MS  # less is not worth somebody's morning
_STAKE_LEAST_RATIO = 0.01  # of what the run held
# A run that could lose this much, and saves so often, counts on its checkpoints. Ours: nobody publishes a number, and
# with a tenth of it every team would be told every week.
_HELD_LEAST_MS = 1_000 * HOUR_MS
_SAVED_LEAST = 10


@dataclass(frozen=True, slots=True)
class OfRun:
    """The beginning of every row about one run."""

    run_id: str
    name: str | None
    team: str | None

    @property
    def subject(self) -> str:
        """What people call it."""
        return self.name or self.run_id


def _subject(run: OfRun) -> str:
    return run.subject


def _of_runs(
    rule: str,
    runs: Sequence[OfRun],
    values: dict[str, object],
    confidence: Confidence,
    kind: str = "",
    **more: Any,  # noqa: ANN401
) -> Notice:
    """Return a notice of runs of one name, which their owner can act on; `kind` tells several of one name apart."""
    first = runs[0]
    key = (rule, f"{first.subject} {kind}" if kind else first.subject)
    subject, ids = called([first.subject] * len(runs)), tuple(run.run_id for run in runs)
    about = {"run_ids": ids, "team": first.team, "confidence": confidence} | more
    return noticed(rule, subject, values, key=key, **about)


@dataclass(frozen=True, slots=True)
class _HostWork(OfRun):
    """What one run computed on one host, in the hours in which it computed anything worth the name."""

    node: str
    gpus: int  # that it held there, and left alone
    ms: int
    cpu_ms: int
    free_ms: int  # GPU time on the host meanwhile that nobody held
    runs_beside: int  # that held GPUs there in the same hours


def _cpu_only_notices(works: Sequence[_HostWork], limits: NoticeLimits = LIMITS) -> Iterator[Notice]:
    """Yield a notice where one run computed for long enough; `works` are its hosts, at least one."""
    ms, first = max(work.ms for work in works), works[0]
    if ms < limits.cpu_only_ms:
        return
    gpus, nodes = sum(work.gpus for work in works), ", ".join(work.node for work in works[:3])
    nodes += f" and {len(works) - 3} more" if len(works) > 3 else ""
    beside = max(work.runs_beside for work in works) > (1 if gpus else 0)
    values: dict[str, object] = {
        "cores": sum(work.cpu_ms * 10 // work.ms for work in works),
        "nodes": nodes,
        "ms": ms,
        "left": f"leaves the {gpus} GPUs that it holds exclusively" if gpus else "holds no GPU",
        "also": ", beside runs that need GPUs and cores" if beside else "",
        "held": f"{gpus} held, none ever busy" if gpus else "none held",
        "free_ms": sum(work.free_ms for work in works),
    }
    yield noticed(
        "fleet/cpu_only",
        first.subject,
        values,
        key=("fleet/cpu_only", first.run_id),
        actor="run" if gpus else "platform",
        confidence="high" if gpus else "medium",
        node=first.node if len(works) == 1 else None,
        run_ids=(first.run_id,),
        team=first.team,
    )


CPU_ONLY = NoticeRule(
    "fleet/cpu_only",
    "cpu_only.sql",
    _HostWork,
    _cpu_only_notices,
    lambda work: work.run_id,
    untold=_NO_PROCESSOR_TIME,
)


@dataclass(frozen=True, slots=True)
class Fullest(OfRun):
    """The fullest GPU of one run, in its whole hours of work after the first. Memory is bytes."""

    node: str
    gpu_uuid: str
    memory_bytes: int
    hours: int
    most: int
    least: int
    failed: int  # runs of this name that ended out of memory

    @property
    def full_permille(self) -> int:
        """How full it was at the most."""
        return self.most * 1000 // self.memory_bytes


def find_full_memory(session: Session, span: Span) -> Iterator[Notice | Unjudged]:
    """Yield a notice for each name of runs whose GPU memory is nearly full in steady work, by name."""
    select, told = statements("findings/health/hbm_headroom.sql")
    ((has_use, has_size),) = rows_of(session, span, told)
    if not has_use or not has_size:
        missing = "in use was reported" if not has_use else "of GPUs was reported (inventory)"
        yield span.unjudged("run/hbm_headroom", f"no memory {missing}")
        return
    runs = [Fullest(*row) for row in rows_of(session, span, select)]
    for _, of_name in groupby(runs, _subject):
        yield from full_memory_notices(list(of_name))


def full_memory_notices(runs: Sequence[Fullest], limits: NoticeLimits = LIMITS) -> Iterator[Notice]:
    """Yield a notice of the runs of one name whose memory is nearly full: the next longer batch ends them.

    What a framework sets aside at the start is full by design, and looks the same on the gauge: a line that is flat is
    no evidence, and such notices have low confidence unless runs of that name have ended out of memory.
    """
    full = [run for run in runs if run.full_permille > limits.hbm_full_permille and run.hours >= limits.hbm_hours]
    if not full:
        return
    worst = max(full, key=lambda run: (run.full_permille, run.run_id))
    is_flat = all(run.least * 1000 >= run.most * limits.hbm_flat_permille for run in full)
    values = values_of(
        worst,
        free=worst.memory_bytes - worst.most,
        full_permille=worst.full_permille,
        limit=limits.hbm_full_permille,
        course="flat: reserved or cached" if is_flat else f"from {gib(worst.least)} to {gib(worst.most)}",
    )
    confidence: Confidence = "high" if worst.failed else "low" if is_flat else "medium"
    where: dict[str, Any] = {"team": worst.team, "node": worst.node, "gpu_uuid": worst.gpu_uuid}
    yield _of_runs("run/hbm_headroom", full, values, confidence, **where)


@dataclass(frozen=True, slots=True)
class LongStart(OfRun):
    """How long the GPUs of one run were held before they began to work, and how many cores it used meanwhile."""

    gpus: int
    longest_ms: int
    starting_ms: int
    held_ms: int
    cores_milli: int | None


def find_long_starts(session: Session, span: Span) -> Iterator[Notice]:
    """Yield a notice for each name of runs that held GPUs for long before any work, by name."""
    (select,) = statements("findings/health/long_starts.sql")
    runs = [LongStart(*row) for row in rows_of(session, span, select)]
    for _, of_name in groupby(runs, _subject):
        yield from long_start_notices(list(of_name))


def long_start_notices(runs: Sequence[LongStart], limits: NoticeLimits = LIMITS) -> Iterator[Notice]:
    """Yield a notice of the runs of one name: what takes processors and no GPU can be done before GPUs are held."""
    worst = max(runs, key=lambda run: (run.longest_ms, run.run_id))
    starting_ms, held_ms = sum(run.starting_ms for run in runs), sum(run.held_ms for run in runs)
    if starting_ms * 1000 < held_ms * limits.long_start_permille:
        return
    computes = worst.cores_milli is not None and worst.cores_milli >= limits.cpu_only_millicores
    values = values_of(
        worst,
        starting_ms=starting_ms,
        meanwhile=f" while {worst.cores_milli / 1000:,.1f} cores prepared" if computes and worst.cores_milli else "",
        remedy="prepare its data once, before GPUs are held" if computes else "keep what it loads on local disks",
    )
    yield _of_runs("run/long_start", runs, values, "medium" if computes else "low")


@dataclass(frozen=True, slots=True)
class Pipes(OfRun):
    """What the pipes of one training run's GPUs did: means in permille, None where nobody told."""

    ms: int  # GPU time
    sm: int
    tensor: int
    fp32: int | None = None
    fp64: int | None = None


def find_idle_tensor_cores(session: Session, span: Span) -> Iterator[Notice | Unjudged]:
    """Yield a notice for each name of runs, by name; then the kinds of GPU that do not tell."""
    select, silent = statements("findings/health/mixed_precision.sql")
    runs = [Pipes(*row) for row in rows_of(session, span, select)]
    for _, of_name in groupby(runs, _subject):
        yield from idle_tensor_notices(list(of_name))
    skus = [sku for sku, _ in rows_of(session, span, silent)]
    if skus:
        missing = f"no SM and tensor activity of {', '.join(skus)} (GPM is Hopper's and newer)"
        yield span.unjudged("run/mixed_precision", missing)


def idle_tensor_notices(runs: Sequence[Pipes], limits: NoticeLimits = LIMITS) -> Iterator[Notice]:
    """Yield a notice of the runs of one name whose tensor cores rest; what computes in FP64 has no use for them."""
    found = [
        run
        for run in runs
        if run.ms >= limits.precision_gpu_ms
        and run.sm >= limits.precision_sm_permille
        and run.tensor <= limits.precision_tensor_permille
        and (run.fp32 is None or run.fp32 >= limits.precision_fp32_permille)
        and (run.fp64 is None or run.fp64 < limits.precision_fp32_permille)
    ]
    if not found:
        return
    ms, told = sum(run.ms for run in found), [run.fp32 for run in found if run.fp32 is not None]
    values: dict[str, object] = {
        "tensor": max(run.tensor for run in found),
        "sm": sum(run.sm * run.ms for run in found) // ms,
        "ms": ms,
        "limit": limits.precision_tensor_permille,
        "fp32": max(told) if told else None,
    }
    yield _of_runs("run/mixed_precision", found, values, "high" if len(told) == len(found) else "medium")


@dataclass(frozen=True, slots=True)
class Turns(OfRun):
    """One run, minute by minute: means in permille, and the minutes of either stage."""

    minutes: int
    gpu: int
    cpu: int  # of the cores that it may use
    cpu_minutes: int  # CPUs full, GPUs idle
    gpu_minutes: int  # GPUs busy, CPUs not full
    turns: int  # from one stage to the other


def find_packed_stages(session: Session, span: Span) -> Iterator[Notice | Unjudged]:
    """Yield a notice for each name of runs, by name; over minutes where samples have expired."""
    candidates, told = statements("findings/health/packed_candidates.sql")
    if not rows_of(session, span, told)[0][0]:
        yield span.unjudged("run/packed_stages", _NO_PROCESSOR_TIME)
        return
    ids = [run_id for (run_id,) in rows_of(session, span, candidates)]
    if not ids:
        return
    (select,) = statements("findings/health/packed_stages.sql")
    expired = kept_from(session, ["gpu_samples", "run_samples"]) > span.start_us
    if expired and rolled_until(session, "gpu_samples") >= span.end_us:
        select = select.format(gpus="gpu_minutes", runs="run_minutes", length="p.measured_ms / 1e3")
    else:
        select = select.format(gpus="gpu_samples", runs="run_samples", length="(p.ended_at - p.started_at) / 1e6")
    runs = [Turns(*row) for row in rows_of(session, span, select, runs=ids)]
    for _, of_name in groupby(runs, _subject):
        yield from packed_stage_notices(list(of_name))


def packed_stage_notices(runs: Sequence[Turns], limits: NoticeLimits = LIMITS) -> Iterator[Notice]:
    """Yield a notice of the runs of one name that take turns between processors and GPUs.

    Each stage keeps the other's share idle.
    """
    found = [run for run in runs if _alternates(run, limits)]
    if not found:
        return
    minutes = sum(run.minutes for run in found)
    values: dict[str, object] = {
        "gpu": sum(run.gpu * run.minutes for run in found) // minutes,
        "cpu_share": 1000 * sum(run.cpu_minutes for run in found) // minutes,
        "gpu_share": 1000 * sum(run.gpu_minutes for run in found) // minutes,
        "turns": sum(run.turns for run in found),
        "hours": minutes // 60,
    }
    is_sure = all(run.turns >= 2 * limits.packed_turns for run in found)
    yield _of_runs("run/packed_stages", found, values, "high" if is_sure else "medium")


def _alternates(run: Turns, limits: NoticeLimits) -> bool:
    least = run.minutes * limits.packed_share_permille
    return (
        run.minutes >= limits.packed_minutes
        and run.gpu <= limits.packed_gpu_permille
        and 1000 * run.cpu_minutes >= least
        and 1000 * run.gpu_minutes >= least
        and run.turns >= limits.packed_turns
    )


@dataclass(frozen=True, slots=True)
class Use(OfRun):
    """What one run made of its GPUs while it worked. Shares are permille; None where nobody told."""

    sku: str | None  # None where it had several kinds
    gpu_bytes: int | None
    gpus: int
    held_ms: int  # GPU time
    utilization: int
    sm: int | None
    tensor: int | None
    dram: int | None
    memory: int  # the most that was in use
    millicores_per_gpu: int | None
    host_bytes_per_gpu: int | None


@dataclass(frozen=True, slots=True)
class FleetKind:
    """A kind of GPU that the fleet owns."""

    sku: str
    memory_bytes: int


def find_too_large(session: Session, span: Span) -> Iterator[Notice | Unjudged]:
    """Yield a notice for each name of runs that a smaller GPU would do, by name."""
    select, kinds, told = statements("findings/health/too_large.sql")
    if not rows_of(session, span, told)[0][0]:
        yield span.unjudged("run/too_large", "no GPU utilization was reported")
        return
    uses = [use for row in rows_of(session, span, select) if _is_small(use := Use(*row), LIMITS)]
    owned = [FleetKind(*row) for row in rows_of(session, span, kinds)]
    for _, of_name in groupby(uses, lambda use: (use.subject, use.sku)):
        yield from too_large_notices(list(of_name), owned)


def too_large_notices(
    uses: Sequence[Use], owned: Sequence[FleetKind], limits: NoticeLimits = LIMITS
) -> Iterator[Notice]:
    """Yield a notice of the runs of one name that are small in every respect; the others are left out.

    Never from the memory gauge alone, and only where the fleet has something smaller.
    """
    small = [use for use in uses if _is_small(use, limits)]
    instead = _smaller(small[0], owned, limits) if small else None
    if instead is None:
        return
    values: dict[str, object] = {
        "busiest": max(use.utilization for use in small),
        "most": max(use.memory for use in small),
        "sku": small[0].sku,
        "held_ms": sum(use.held_ms for use in small),
        "instead": instead,
    }
    is_sure = all(use.sm is not None and use.dram is not None for use in small)
    confidence: Confidence = "high" if is_sure else "medium"
    lines = list(_use_evidence(small))
    yield _of_runs("run/too_large", small, values, confidence, kind=small[0].sku or "", evidence=lines)


def _is_small(use: Use, limits: NoticeLimits) -> bool:
    within = (
        (use.sm, limits.large_utilization_permille),
        (use.tensor, limits.large_tensor_permille),
        (use.dram, limits.large_dram_permille),
        (use.millicores_per_gpu, limits.large_millicores_per_gpu),
        (use.host_bytes_per_gpu, limits.large_host_bytes_per_gpu),
    )
    return (
        use.sku is not None
        and use.held_ms >= limits.large_gpu_ms
        and use.held_ms >= limits.large_run_ms * use.gpus
        and 0 < use.utilization <= limits.large_utilization_permille
        and use.memory <= limits.large_memory_bytes
        and all(seen is None or seen <= most for seen, most in within)
    )


def _smaller(use: Use, owned: Sequence[FleetKind], limits: NoticeLimits) -> str | None:
    """Return what would do: the smallest kind that holds its memory, else a slice; None where there is neither."""
    for kind in owned:
        is_half = use.gpu_bytes is not None and kind.memory_bytes * limits.small_sku_factor <= use.gpu_bytes
        if is_half and kind.memory_bytes > use.memory:
            return f"{kind.sku}, which the fleet has,"
    model = (use.sku or "").split("-")[0].upper()
    return "a MIG slice of it" if model in MIG_CAPABLE and use.gpus == 1 else None


def _use_evidence(uses: Sequence[Use]) -> Iterator[EvidenceLine]:
    yield EvidenceLine(
        "utilization", f"{brief_percent(max(use.utilization for use in uses))} at most, as the mean of a run"
    )
    for what, seen in (
        ("SM activity", [use.sm for use in uses]),
        ("tensor cores", [use.tensor for use in uses]),
        ("HBM bandwidth", [use.dram for use in uses]),
    ):
        known = [share for share in seen if share is not None]
        verdict = "" if known else "bounded by utilization"
        yield EvidenceLine(what, brief_percent(max(known)) if known else "not told", verdict)
    yield EvidenceLine("memory in use", f"{gib(max(use.memory for use in uses))} at most")
    cores = [use.millicores_per_gpu for use in uses if use.millicores_per_gpu is not None]
    yield EvidenceLine("processors", f"{tenths(max(cores) // 100)} cores per GPU" if cores else "not told")


def find_checkpoints(session: Session, span: Span) -> Iterator[Notice | Unjudged]:
    """Yield what is to be looked at, by name of run; one notice for all runs of a name."""
    savings = efficiency_query.savings(session, span.start_us, span.end_us)
    if savings:
        yield from checkpoint_notices(savings, efficiency_query.failures(session, span.end_us), span)


def checkpoint_notices(savings: Iterable[Saving], failures: Failures, span: Span) -> Iterator[Notice | Unjudged]:
    """Yield a notice for each name of which a run saves at the wrong interval, or none was ever restored."""
    names: dict[str, list[tuple[Saving, Checkpoints]]] = {}
    for saving in savings:
        found = checkpoints(saving, failures)
        if found is not None:
            names.setdefault(saving.name or saving.run_id, []).append((saving, found))
    if names and failures.failures < FAILURES_LEAST:
        seen = f"{counted(failures.failures, 'failure')} of training in four weeks, {FAILURES_LEAST} are needed"
        yield Unjudged(span.start_us, "fleet", "checkpoint_cadence", seen)
    for name, runs in sorted(names.items()):
        yield from _cadence(name, runs)
        yield from _restore(name, runs)


def _cadence(name: str, runs: list[tuple[Saving, Checkpoints]]) -> Iterator[Notice]:
    off = [(saving, found) for saving, found in runs if _matters(saving, found)]
    if not off:
        return
    saving, found = max(off, key=lambda pair: (pair[1].stake_ms or 0, pair[0].run_id))
    values: dict[str, object] = {
        "now": _length(found.interval_seconds),
        "best": _length(found.best_seconds),
        "advice": found.advice,
        "stake_ms": sum(one.stake_ms or 0 for _, one in off),
        "save_seconds": found.save_seconds.value or 0,
        "mtbf": _length(found.mtbf_seconds),
        "nodes": saving.nodes,
    }
    yield _of_savings("checkpoint_cadence", name, [saving for saving, _ in off], values)


def _matters(saving: Saving, found: Checkpoints) -> bool:
    if found.advice not in ("more often", "less often") or found.stake_ms is None:
        return False
    return found.stake_ms >= max(_STAKE_LEAST_MS, _STAKE_LEAST_RATIO * saving.held_ms)


def _restore(name: str, runs: list[tuple[Saving, Checkpoints]]) -> Iterator[Notice]:
    long = [pair for pair in runs if pair[0].held_ms >= _HELD_LEAST_MS and pair[1].count >= _SAVED_LEAST]
    if not long or any(saving.restored_at is not None for saving, _ in runs):
        return
    held = sum(saving.held_ms for saving, _ in long) / HOUR_MS
    values: dict[str, object] = {"count": sum(found.count for _, found in long), "held_hours": held}
    yield _of_savings("restore_never_seen", name, [saving for saving, _ in long], values)


def _of_savings(rule: str, name: str, savings: list[Saving], values: dict[str, object]) -> Notice:
    teams = {saving.team for saving in savings}
    run_ids = tuple(sorted(saving.run_id for saving in savings))
    return noticed(rule, name, values, run_ids=run_ids, team=teams.pop() if len(teams) == 1 else None)


def _length(seconds: Figure) -> str:
    minutes = round((seconds.value or 0) / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min"
