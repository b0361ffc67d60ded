"""Memory errors and their trend, rows that were replaced, and Xids that mean hardware.

Sources: NVIDIA, Xid Errors (catalog, resolution buckets), https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html;
Health Validation, Xid checks, https://docs.nvidia.com/health-validation/reference/checks/xid.md; Memory Error
Management, RMA policy, https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/rma-policy-thresholds-for-row-remapping.html
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from agent.wire.units import WEEK_US
from analyzer.findings.finding import EvidenceLine
from analyzer.findings.health.limits import LIMITS, NoticeLimits
from analyzer.findings.health.notice import Notice, Span, notice_id
from analyzer.ledger.unjudged import Unjudged
from analyzer.queries.statements import statements
from analyzer.text.wording import counted
from collector.lake.tiers.retained import kept_from

if TYPE_CHECKING:
    from collector.store.session import Session

_RULE = "fleet/ecc"

# What each Xid of the limits means, and what its remedy is.
XIDS: dict[int, tuple[str, str]] = {
    48: ("an uncorrectable memory error", "drain and reset it; if it comes again, have the board tested"),
    63: ("a row of its memory was marked for replacement", "reset it when it is next free"),
    64: ("a row of its memory could not be replaced", "drain it and have the board replaced"),
    74: ("an NVLink error", "reset it; if it comes again, have the link and its peers tested"),
    79: ("it fell off the bus", "drain the host, see power, riser and slot, and have the board tested"),
    94: ("a contained memory error, which ended one process", "reset it when it is next free"),
    95: ("an uncontained memory error, which ended whatever ran on it", "drain and reset it at once"),
}


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


def find_notices(session: "Session", span: Span) -> Iterator[Notice | Unjudged]:
    """Yield notices by host and GPU."""
    (first,) = session.row("SELECT min(hour) FROM ledger_hours")
    knows_weeks = first is not None and first <= span.end_us - LIMITS.weeks * WEEK_US
    yield from _unjudged(session, span, knows_weeks)
    for memory in _memories(session, span, knows_weeks):
        yield from notices_of(memory)


def _unjudged(session: "Session", span: Span, knows_weeks: bool) -> Iterator[Unjudged]:
    *_, told, unnamed = statements("findings/health/ecc.sql")
    (newest,) = session.row("SELECT coalesce(max(hour), 0) FROM notice_gpu_hours")
    values: dict[str, object] = {"last": max(span.start_us, newest), "end": span.end_us}
    corrected, uncorrected, xids, samples = session.row(told, values)
    if not samples:
        return
    if not corrected:
        yield span.unjudged(f"{_RULE}/corrected", "no GPU told of corrected memory errors")
    elif not knows_weeks:
        yield span.unjudged(f"{_RULE}/corrected", f"a trend needs {LIMITS.weeks} weeks, and the ledger has less")
    if not uncorrected:
        yield span.unjudged(f"{_RULE}/uncorrected", "no GPU told of uncorrected memory errors")
    if not xids:
        yield span.unjudged(f"{_RULE}/xid", "no GPU told of Xid errors")
    elif (count := session.row(unnamed, {"start": span.start_us, "end": span.end_us})[0]) > 0:
        yield span.unjudged(f"{_RULE}/xid", f"{counted(count, 'Xid error')} of a kind that was not told (xid_last)")
    if kept_from(session, ["gpu_samples"]) > span.start_us:
        yield span.unjudged(f"{_RULE}/expired", "the samples of a part of this period have expired")


def _memories(session: "Session", span: Span, knows_weeks: bool) -> list[Memory]:
    weeks, weeks_before, events, rows, *_ = statements("findings/health/ecc.sql")
    samples_from = kept_from(session, ["gpu_samples"])
    found: dict[tuple[str, str], tuple[dict[int, int], dict[int, int], list[int]]] = {}

    def of(node: str, gpu_uuid: str) -> tuple[dict[int, int], dict[int, int], list[int]]:
        return found.setdefault((node, gpu_uuid), ({}, {}, [0, 0, 0]))

    if knows_weeks:
        values: dict[str, object] = {"end": span.end_us, "weeks": LIMITS.weeks, "samples_from": samples_from}
        told = session.rows(weeks, values)
        told += session.rows(weeks_before, values) if samples_from else []
        for node, gpu, week, count in told:
            corrected = of(node, gpu)[0]
            corrected[week] = corrected.get(week, 0) + count
    for node, gpu, count, xid in session.rows(events, {"start": span.start_us, "end": span.end_us}):
        if xid:
            of(node, gpu)[1][xid] = count
        else:
            of(node, gpu)[2][0] = count
    for node, gpu, grown, remapped in session.rows(rows):
        of(node, gpu)[2][1:] = [remapped, remapped - grown]
    return [
        Memory(node, gpu, corrected, count, xids, remapped, before)
        for (node, gpu), (corrected, xids, (count, remapped, before)) in sorted(found.items())
    ]


def notices_of(memory: Memory, limits: NoticeLimits = LIMITS) -> Iterator[Notice]:
    """Yield what of one GPU's memory and Xids needs a hand; a GPU that is well gives nothing."""
    yield from _xids(memory, limits)
    if memory.uncorrected and not {48, 94, 95} & set(memory.xids):
        times = counted(memory.uncorrected, "uncorrected memory error")
        yield _notice(
            "uncorrected",
            memory,
            f"{times}: reset it when it is next free, and have it tested if there are more",
            (EvidenceLine("uncorrected errors", f"{memory.uncorrected:,}"),),
            "the counter was set anew with the driver",
        )
    if memory.remapped > memory.remapped_before and memory.remapped >= limits.remapped_rows:
        yield _notice(
            "remapped",
            memory,
            f"{memory.remapped} rows of its memory replaced, {memory.remapped - memory.remapped_before} of them now: "
            "have it tested before its spare rows run out",
            (EvidenceLine("replaced rows", f"{memory.remapped}", f"{memory.remapped_before} before"),),
            "they lie in many banks, each of which has eight to spare",
        )
    yield from _trend(memory, limits)


def _xids(memory: Memory, limits: NoticeLimits) -> Iterator[Notice]:
    found = [xid for xid in limits.hardware_xids if memory.xids.get(xid)]
    if not found:
        return
    said = "; ".join(f"Xid {xid}, {XIDS[xid][0]}" for xid in found)
    worst = max(found, key=_weight)
    yield _notice(
        "xid",
        memory,
        f"{said}: {XIDS[worst][1]}",
        tuple(EvidenceLine(f"Xid {xid}", counted(memory.xids[xid], "time"), XIDS[xid][0]) for xid in found),
        "a reset or a driver upgrade was tried there on purpose",
    )


def _weight(xid: int) -> int:
    """Return the order of remedies: a new board before a reset at once before a reset some time."""
    return [63, 94, 74, 48, 95, 64, 79].index(xid)


def _trend(memory: Memory, limits: NoticeLimits) -> Iterator[Notice]:
    counts = [memory.corrected.get(week, 0) for week in range(limits.weeks)]
    rises = all(new >= limits.corrected_factor * old for new, old in pairwise(counts))
    if counts[0] >= limits.corrected_per_week and rises and counts[1]:
        yield _notice(
            "corrected",
            memory,
            f"{counts[0]:,} corrected memory errors this week, {counts[1]:,} the week before: they double, "
            "which often goes before an uncorrected one; have it tested when it is next free",
            tuple(
                EvidenceLine(f"{week} weeks before" if week else "this week", f"{n:,}") for week, n in enumerate(counts)
            ),
            "it was used more each week",
            is_sure=False,
        )


def _notice(
    kind: str, memory: Memory, sentence: str, evidence: tuple[EvidenceLine, ...], wrong_if: str, *, is_sure: bool = True
) -> Notice:
    rule = f"{_RULE}/{kind}"
    return Notice(
        notice_id(rule, memory.gpu_uuid),
        rule,
        memory.gpu_uuid,
        sentence,
        "platform",
        "high" if is_sure else "medium",
        node=memory.node,
        gpu_uuid=memory.gpu_uuid,
        evidence=evidence,
        wrong_if=wrong_if,
    )
