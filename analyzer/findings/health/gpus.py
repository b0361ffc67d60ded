"""GPUs to look at: narrow links, worn memory, Xids, memory in use without a run, boards that keep runs waiting, and
others' processes on what a run holds.

Sources: NVIDIA, Xid Errors (catalog, resolution buckets), https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html;
Health Validation, Xid checks, https://docs.nvidia.com/health-validation/reference/checks/xid.md; Memory Error
Management, RMA policy, https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/rma-policy-thresholds-for-row-remapping.html
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any

from agent.wire.units import HOUR_MS, WEEK_US
from analyzer.findings.finding import EvidenceLine
from analyzer.findings.health.notice import LIMITS, Notice, NoticeLimits, NoticeRule, Span, noticed, rows_of, values_of
from analyzer.ledger.coverage import Unjudged
from analyzer.measures.efficiency import efficiency_query
from analyzer.measures.efficiency.efficiency_query import Straggler, stragglers
from analyzer.queries.statements import statements
from analyzer.text.words import brief_percent, counted, some
from collector.lake.tiers import kept_from
from collector.store.session import Session

# What each Xid of the limits means, and what its remedy is.
XIDS: dict[int, tuple[str, str]] = {
    48: ("an uncorrectable memory error", "drain and reset it; if it recurs, have the board tested"),
    63: ("a row of its memory was marked for replacement", "reset it when it is next free"),
    64: ("a row of its memory could not be replaced", "drain it and have the board replaced"),
    74: ("an NVLink error", "reset it; if it recurs, have the link and its peers tested"),
    79: ("it fell off the bus", "drain the host, check power, riser and slot, and have the board tested"),
    94: ("a contained memory error, which ended one process", "reset it when it is next free"),
    95: ("an uncontained memory error, which ended whatever ran on it", "drain and reset it at once"),
}
# The order of remedies: a new board before a reset at once before a reset some time.
_BY_REMEDY = (63, 94, 74, 48, 95, 64, 79)
_SLOWED_RUNS_LEAST = 2


def _of_gpu(rule: str, row: Any, values: Mapping[str, object] | None = None, **more: Any) -> Notice:  # noqa: ANN401
    """Return a notice of the GPU of a row."""
    said = values_of(row) if values is None else values
    return noticed(rule, row.gpu_uuid, said, node=row.node, gpu_uuid=row.gpu_uuid, **more)


@dataclass(frozen=True, slots=True)
class Health:
    """What was seen of one GPU in a period; None where nobody told."""

    node: str
    gpu_uuid: str
    width: int | None = None
    width_max: int | None = None
    generation: int | None = None  # the best while it was busy
    generation_max: int | None = None
    remap_pending: bool = False
    remap_failure: bool = False
    recovery_action: str | None = None


def hardware_notices(gpus: Sequence[Health]) -> Iterator[Notice]:
    """Yield what a person should look at; a GPU that is well gives nothing."""
    for health in gpus:
        rows = "a broken row of its memory could not be replaced: have the board replaced"
        if not health.remap_failure:
            rows = "a row of its memory is replaced at the next reset: drain and reset it"
        values = values_of(health, rows=rows, action=str(health.recovery_action).replace("_", " "))
        for kind, holds in (
            ("pcie_width", _less(health.width, health.width_max)),
            ("pcie_generation", _less(health.generation, health.generation_max)),
            ("memory_rows", health.remap_failure or health.remap_pending),
            ("recovery", health.recovery_action not in (None, "none")),
        ):
            if holds:
                yield _of_gpu(f"hardware/{kind}", health, values, key=("hardware", kind, health.gpu_uuid))


def _less(now: int | None, most: int | None) -> bool:
    return now is not None and most is not None and now < most


HARDWARE = NoticeRule("hardware", "hardware.sql", Health, hardware_notices)


@dataclass(frozen=True, slots=True)
class Memory:
    """What was told of one GPU's memory errors and Xids. `corrected` is by week before the end, 0 the newest."""

    node: str
    gpu_uuid: str
    corrected: Mapping[int, int] = field(default_factory=dict)
    uncorrected: int = 0
    xids: Mapping[int, int] = field(default_factory=dict)  # intervals in which each came
    remapped: int = 0
    remapped_before: int = 0  # when the period began


def find_memory_errors(session: Session, span: Span) -> Iterator[Notice | Unjudged]:
    """Yield notices by host and GPU."""
    (first,) = session.row("SELECT min(hour) FROM ledger_hours")
    knows_weeks = first is not None and first <= span.end_us - LIMITS.weeks * WEEK_US
    yield from _untold_errors(session, span, knows_weeks)
    for memory in _memories(session, span, knows_weeks):
        yield from memory_notices(memory)


def _untold_errors(session: Session, span: Span, knows_weeks: bool) -> Iterator[Unjudged]:
    *_, told, unnamed = statements("findings/health/ecc.sql")
    (newest,) = session.row("SELECT coalesce(max(hour), 0) FROM notice_gpu_hours")
    ((corrected, uncorrected, xids, samples),) = rows_of(session, span, told, last=max(span.start_us, newest))
    if not samples:
        return
    if not corrected:
        yield span.unjudged("fleet/ecc/corrected", "no GPU reports corrected memory errors")
    elif not knows_weeks:
        yield span.unjudged(
            "fleet/ecc/corrected", f"a trend needs {LIMITS.weeks} weeks of data, and the ledger has less"
        )
    if not uncorrected:
        yield span.unjudged("fleet/ecc/uncorrected", "no GPU reports uncorrected memory errors")
    if not xids:
        yield span.unjudged("fleet/ecc/xid", "no GPU reports Xid errors")
    elif (count := rows_of(session, span, unnamed)[0][0]) > 0:
        yield span.unjudged("fleet/ecc/xid", f"{counted(count, 'Xid error')} of an unreported kind (xid_last)")
    if kept_from(session, ["gpu_samples"]) > span.start_us:
        yield span.unjudged("fleet/ecc/expired", "the samples of a part of this period have expired")


def _memories(session: Session, span: Span, knows_weeks: bool) -> list[Memory]:
    weeks, weeks_before, events, rows, *_ = statements("findings/health/ecc.sql")
    samples_from = kept_from(session, ["gpu_samples"])
    found: dict[tuple[str, str], tuple[dict[int, int], dict[int, int], list[int]]] = {}

    def of(node: str, gpu_uuid: str) -> tuple[dict[int, int], dict[int, int], list[int]]:
        return found.setdefault((node, gpu_uuid), ({}, {}, [0, 0, 0]))

    if knows_weeks:
        told = rows_of(session, span, weeks, samples_from=samples_from)
        told += rows_of(session, span, weeks_before, samples_from=samples_from) if samples_from else []
        for node, gpu, week, count in told:
            corrected = of(node, gpu)[0]
            corrected[week] = corrected.get(week, 0) + count
    for node, gpu, count, xid in rows_of(session, span, events):
        if xid:
            of(node, gpu)[1][xid] = count
        else:
            of(node, gpu)[2][0] = count
    for node, gpu, grown, remapped in rows_of(session, span, rows):
        of(node, gpu)[2][1:] = [remapped, remapped - grown]
    return [
        Memory(node, gpu, corrected, count, xids, remapped, before)
        for (node, gpu), (corrected, xids, (count, remapped, before)) in sorted(found.items())
    ]


def memory_notices(memory: Memory, limits: NoticeLimits = LIMITS) -> Iterator[Notice]:
    """Yield what of one GPU's memory and Xids needs a hand; a GPU that is well gives nothing."""
    xids = [xid for xid in limits.hardware_xids if memory.xids.get(xid)]
    if xids:
        said = "; ".join(f"Xid {xid}, {XIDS[xid][0]}" for xid in xids)
        remedy = XIDS[max(xids, key=_BY_REMEDY.index)][1]
        lines = [EvidenceLine(f"Xid {xid}", counted(memory.xids[xid], "time"), XIDS[xid][0]) for xid in xids]
        yield _of_gpu("fleet/ecc/xid", memory, {"xids": said, "remedy": remedy}, evidence=lines)
    if memory.uncorrected and not {48, 94, 95} & set(memory.xids):
        yield _of_gpu("fleet/ecc/uncorrected", memory)
    if memory.remapped > memory.remapped_before and memory.remapped >= limits.remapped_rows:
        grown = memory.remapped - memory.remapped_before
        yield _of_gpu("fleet/ecc/remapped", memory, values_of(memory, grown=grown))
    counts = [memory.corrected.get(week, 0) for week in range(limits.weeks)]
    rises = all(new >= limits.corrected_factor * old for new, old in pairwise(counts))
    if counts[0] >= limits.corrected_per_week and rises and counts[1]:
        lines = [
            EvidenceLine(f"{week} weeks before" if week else "this week", f"{count:,}")
            for week, count in enumerate(counts)
        ]
        yield _of_gpu("fleet/ecc/corrected", memory, {"newest": counts[0], "before": counts[1]}, evidence=lines)


@dataclass(frozen=True, slots=True)
class Replays:
    """PCIe packets that one GPU sent again."""

    node: str
    gpu_uuid: str
    worst_hour: int
    replays: int
    hours: int  # in which there were any


def replay_notices(gpus: Sequence[Replays], limits: NoticeLimits = LIMITS) -> Iterator[Notice]:
    """Yield a notice where an hour had more replays than is recommended."""
    for gpu in gpus:
        if gpu.worst_hour >= limits.replays_per_hour:
            values = values_of(gpu, most=limits.replays_per_hour)
            yield _of_gpu("fleet/links/pcie", gpu, values, confidence="high" if gpu.hours > 1 else "medium")


@dataclass(frozen=True, slots=True)
class Unheld:
    """One GPU in the hours in which nobody held it and its memory was never empty."""

    node: str
    gpu_uuid: str
    ms: int  # of nobody's, within those hours
    bytes: int  # the least that was in use
    utilization: int | None  # the most, permille
    first_hour: int
    worked: int | None = None  # the least of these hours' own utilization, permille


def unheld_memory_notices(gpus: Sequence[Unheld], limits: NoticeLimits = LIMITS) -> Iterator[Notice]:
    """Yield a notice where enough memory was in use for long enough."""
    for unheld in gpus:
        is_context = unheld.bytes < limits.zombie_bytes and (unheld.worked or 0) < limits.zombie_utilization_permille
        if unheld.ms < limits.zombie_ms or is_context:
            continue
        is_working = unheld.utilization is not None and unheld.utilization > 0
        todo = (
            "find whose process it is and ask the owner to end it, which loses what it holds; if there is no "
            "process, reset it"
        )
        at_most = "not told" if unheld.utilization is None else f"{brief_percent(unheld.utilization)} at most"
        yield _of_gpu(
            "fleet/zombie_memory",
            unheld,
            values_of(
                unheld, at_most=at_most, todo="find who computes there outside the scheduler" if is_working else todo
            ),
            confidence="medium" if is_working else "high",
        )


UNHELD_MEMORY = NoticeRule(
    "fleet/zombie_memory",
    "zombie_memory.sql",
    Unheld,
    unheld_memory_notices,
    untold="no GPU memory usage was reported",
)


def find_slow_gpus(session: Session, span: Span) -> Iterator[Notice]:
    """Yield the GPUs for which several runs waited, the dearest first."""
    yield from slow_gpu_notices(stragglers(efficiency_query.waited(session, span.start_us, span.end_us)))


def slow_gpu_notices(found: Iterable[Straggler]) -> Iterator[Notice]:
    """Yield a notice for each GPU that cost two runs or more an hour of GPU time together.

    A slow rank is its run's finding; the same GPU in several runs is a sick board.
    """
    for gpu in found:
        if gpu.gpu_uuid is None or len(gpu.run_ids) < _SLOWED_RUNS_LEAST or gpu.milliseconds < HOUR_MS:
            continue
        yield _of_gpu("slow_gpu", gpu, values_of(gpu, runs=len(gpu.run_ids)), run_ids=gpu.run_ids)


@dataclass(frozen=True, slots=True)
class ForeignProcess:
    """What one other run, mostly a process that no scheduler knows, did on a GPU while `run_id` held and used it."""

    run_id: str
    name: str | None
    team: str | None
    foreign_run: str
    foreign_team: str | None
    node: str
    gpu_uuid: str
    is_own: bool  # of the same user
    beside_ms: int
    ms: int  # that it was seen there in these hours
    told_ms: int | None  # of `beside_ms`, where the driver told shares of SM time
    taken_ms: int | None  # SM time, of `told_ms`
    cpu_ms: int | None
    memory: int | None
    utilization: int | None  # of the GPU in its busiest hour, whoever worked, permille

    def computes(self, limits: NoticeLimits) -> bool | None:
        """Return whether it computes on the GPU: by its shares, else by what it keeps and drives. None: not known."""
        if self.told_ms:
            return (self.taken_ms or 0) * 1000 >= limits.foreign_sm_permille * self.told_ms
        if (self.memory is not None and self.memory < limits.zombie_bytes) or self.utilization == 0:
            return False
        return None if self.cpu_ms is None else self.cpu_ms * 1000 >= limits.foreign_cpu_millicores * self.ms


def find_foreign_processes(session: Session, span: Span) -> Iterator[Notice | Unjudged]:
    """Yield a notice for each run beside whose processes those of others computed, by name."""
    are_several, select = statements("findings/health/foreign_processes.sql")
    if not session.row(are_several)[0]:
        return
    found = [ForeignProcess(*row) for row in rows_of(session, span, select)]
    if any(process.computes(LIMITS) is None for process in found):
        missing = "neither SM shares nor CPU time of processes beside runs were reported"
        yield span.unjudged("fleet/foreign_processes", missing)
    for _, of_run in groupby(found, lambda process: (process.run_id, process.is_own)):
        yield from foreign_process_notices(list(of_run))


def foreign_process_notices(beside: Sequence[ForeignProcess], limits: NoticeLimits = LIMITS) -> Iterator[Notice]:
    """Yield a notice where others computed long enough on what one run holds; `beside` are one user's, or others'."""
    found = [process for process in beside if process.computes(limits)]
    ms = sum(process.beside_ms for process in found)
    if ms < limits.foreign_ms:
        return
    first, names = found[0], sorted({process.foreign_run for process in found})
    teams = sorted({process.foreign_team for process in found if process.foreign_team is not None})
    told_ms, taken_ms = (sum(getattr(process, amount) or 0 for process in found) for amount in ("told_ms", "taken_ms"))
    taken = f"took {taken_ms / HOUR_MS:,.1f} GPU-hours of its SM time"
    if told_ms < ms:
        taken = f"{taken} and more" if told_ms else "took a part: the driver does not report how much"
    values: dict[str, object] = {
        "others": len(names),
        "names": some(names, 2),
        "whose": f" of {some(teams)}" if teams else "",
        "gpus": len({process.gpu_uuid for process in found}),
        "nodes": some(sorted({process.node for process in found})),
        "ms": ms,
        "taken": taken,
        "seen": f"{taken_ms / HOUR_MS:,.1f} GPU-hours" if told_ms else "not told",
    }
    rule = "fleet/foreign_processes/own" if first.is_own else "fleet/foreign_processes"
    yield noticed(
        rule,
        first.name or first.run_id,
        values,
        key=(rule, first.run_id),
        confidence="high" if told_ms == ms else "medium",
        node=first.node if len({process.node for process in found}) == 1 else None,
        run_ids=(first.run_id, *names),
        team=first.team,
    )
