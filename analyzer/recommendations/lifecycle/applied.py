"""Whether a change was made: how runs were placed before and after it, and what that shows.

One pure function a kind of change says in words what differs, "" where nothing does, and None where it cannot be told:
then somebody has to say it (gpuledger recommendations accept ID --applied-at).
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from statistics import median

from agent.wire.units import DAY_US
from analyzer.queries.statements import statements
from analyzer.recommendations.lifecycle.lifecycle_tables import (
    AppliedChange,
    LifecycleStatus,
    add_applied,
    lifecycle_statuses,
    predictions,
)
from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class Shape:
    """One attempt of a run. Hosts are in the order of its ranks; None is not known."""

    run_id: str
    attempt: int
    started_at: int
    nodes: tuple[str, ...]
    racks: tuple[str | None, ...]  # of each host
    gpus: int
    skus: tuple[str, ...] = ()
    slices: int = 0  # of its GPUs that are MIG instances
    shared: int = 0  # of its GPUs that another run holds for most of its time
    cores: float | None = None  # allotted, of all its hosts
    network_read_bytes: int | None = None  # by its hosts while it ran
    local_read_bytes: int | None = None

    @property
    def crossings(self) -> int | None:
        """How often the ring of its ranks passes from one rack to another; None where a rack is not known."""
        if not self.racks or None in self.racks:
            return None
        ring = (*self.racks, self.racks[0])
        return sum(one != other for one, other in pairwise(ring))

    @property
    def rack_count(self) -> int | None:
        """How many racks it spans; None where one is not known."""
        return None if not self.racks or None in self.racks else len(set(self.racks))

    @property
    def cores_per_gpu(self) -> float | None:
        """Cores allotted for each GPU."""
        return None if self.cores is None or not self.gpus else self.cores / self.gpus

    @property
    def network_share(self) -> float | None:
        """The share of what its hosts read that came over network mounts."""
        if self.network_read_bytes is None or self.local_read_bytes is None:
            return None
        whole = self.network_read_bytes + self.local_read_bytes
        return self.network_read_bytes / whole if whole else None


def shapes(
    session: Session, name: str, team: str | None, start_us: int, end_us: int, *, with_reads: bool = False
) -> list[Shape]:
    """Return every attempt of the runs of a name and team that ran in [start_us, end_us), in order of their starts.

    What their hosts read is looked for where it is asked for: it takes their disks' samples.
    """
    (select,) = statements("recommendations/lifecycle/shapes.sql")
    rows = session.rows(select, {"name": name, "team": team, "from": start_us, "until": end_us})
    found = []
    for run_id, attempt, started_at, ended_at, nodes, racks, gpus, skus, slices, shared, cores in rows:
        if started_at < end_us:
            facts = (gpus, tuple(skus or ()), slices, shared, cores)
            found.append((ended_at, Shape(run_id, attempt, started_at, tuple(nodes), tuple(racks), *facts)))
    reads = _reads(session, found) if with_reads and found else {}
    return [_with_reads(shape, reads.get((shape.run_id, shape.attempt))) for _, shape in found]


def _with_reads(shape: Shape, read: tuple[int, int] | None) -> Shape:
    return shape if read is None else replace(shape, network_read_bytes=read[0], local_read_bytes=read[1])


def _reads(session: Session, found: Sequence[tuple[int, Shape]]) -> dict[tuple[str, int], tuple[int, int]]:
    (select,) = statements("recommendations/lifecycle/reads.sql")
    held = [(one.run_id, one.attempt, node, one.started_at, end) for end, one in found for node in one.nodes]
    columns = zip(("runs", "attempts", "nodes", "starts", "ends"), map(list, zip(*held, strict=True)), strict=True)
    asked: dict[str, object] = {**dict(columns), "from": min(one.started_at for _, one in found)}
    return {(run, attempt): (network, local) for run, attempt, network, local in session.rows(select, asked)}


def _first_given_back(session: Session, run_id: str, from_us: int, until_us: int) -> int | None:
    """Return when a run gave back the first of the GPUs that it held at a moment; None while it holds all of them."""
    (moment,) = session.row(
        "SELECT min(ended_at) FROM allocations WHERE gpu_uuid IS NOT NULL AND started_at < $from AND ended_at >= $from "
        "AND ended_at < $until "
        "AND run_id IN (SELECT $run UNION SELECT alias_run_id FROM run_aliases WHERE run_id = $run)",
        {"from": from_us, "until": until_us, "run": run_id},
    )
    return None if moment is None else int(moment)


def _first_drained(session: Session, nodes: tuple[str, ...], from_us: int, until_us: int) -> tuple[int, str] | None:
    """Return when the first of these hosts was out of its scheduler from a moment on, and which; None where none was.

    A host that had been out already before is no news.
    """
    rows = session.rows(
        "SELECT min(started_at), node FROM node_states WHERE list_contains(?::VARCHAR[], node) AND started_at >= ? "
        "AND started_at < ? AND state IN ('drained', 'down') AND node NOT IN (SELECT node FROM node_states "
        "WHERE state IN ('drained', 'down') AND started_at < ? AND ended_at >= ?) GROUP BY node ORDER BY ALL LIMIT 1",
        [list(nodes), from_us, until_us, from_us, from_us],
    )
    return (int(rows[0][0]), str(rows[0][1])) if rows else None


_BEFORE_MOST = 10  # the last runs before are what is compared with; older ones were perhaps another thing
_MORE_CORES = 1.1  # a tenth more: less is how schedulers round
_MOVED_SHARE = 0.5  # so much less of what is read comes over the network

_AppliedBy = str | None
_Test = Callable[[Sequence[Shape], Shape], _AppliedBy]


def applied(
    kind: str, before: Sequence[Shape], after: Sequence[Shape], nodes: Sequence[str] = ()
) -> AppliedChange | None:
    """Return when a change was made: with the first of the last unbroken row of runs that show it.

    `before` and `after` are in order of time; `nodes` are the hosts that the change is about. A run of which it cannot
    be told breaks no row; None where the last that can be told does not show it, or where none can.
    """
    test = TESTS.get(kind) if kind != "drain_slow_gpu" else _without(nodes)
    if test is None or not before:
        return None
    last = before[-_BEFORE_MOST:]
    told = [(shape, seen) for shape in after if (seen := test(last, shape)) is not None]
    row = list(takewhile(lambda pair: pair[1], reversed(told)))
    if not row:
        return None
    shape, seen = row[-1]
    return AppliedChange(shape.started_at, shape.run_id, seen or "")


@dataclass(frozen=True, slots=True)
class _Comparison:
    """One figure of how a run is placed, by how it must differ from the median before, and the words for it."""

    figure: Callable[[Shape], float | None]
    differs: Callable[[float, float], bool]  # now, before
    words: str
    of_some: bool = False  # whether a median of nothing says nothing

    def __call__(self, before: Sequence[Shape], now: Shape) -> _AppliedBy:
        known = [value for shape in before if (value := self.figure(shape)) is not None]
        value, then = self.figure(now), median(known) if known else None
        if value is None or then is None or (self.of_some and then == 0):
            return None
        percents = {"now_percent": 100 * value, "then_percent": 100 * then}
        return self.words.format(now=value, then=then, **percents) if self.differs(value, then) else ""


def _ordered(before: Sequence[Shape], now: Shape) -> _AppliedBy:
    """Its ring crosses once a rack, and less often than before."""
    if now.rack_count is None:
        return None
    least = now.rack_count if now.rack_count > 1 else 0
    words = "its ring crosses between racks {now} times, not {then:.0f}"
    return _Comparison(lambda shape: shape.crossings, lambda value, then: value <= least and value < then, words)(
        before, now
    )


def _other_gpu(before: Sequence[Shape], now: Shape) -> _AppliedBy:
    """Fewer GPUs, slices of them, or another kind."""
    if found := _FEWER(before, now) or _SLICED(before, now):
        return found
    then = {sku for shape in before for sku in shape.skus}
    if not then or not now.skus:
        return None
    return f"on {now.skus[0]}" if not then & set(now.skus) else ""


def _without(nodes: Sequence[str]) -> _Test | None:
    if not nodes:
        return None
    left = set(nodes)

    def test(before: Sequence[Shape], now: Shape) -> _AppliedBy:
        if not any(left & set(shape.nodes) for shape in before):
            return None
        return "" if left & set(now.nodes) else f"without {', '.join(sorted(left))}"

    return test


_FEWER = _Comparison(lambda shape: shape.gpus, operator.lt, "{now} GPUs, not {then:.0f}")
_SLICED = _Comparison(lambda shape: shape.slices, operator.gt, "{now} MIG slices")
_SHARED = _Comparison(lambda shape: shape.shared, operator.gt, "{now} of its GPUs shared with another run")
TESTS: dict[str, _Test] = {
    "reorder_ranks": _ordered,
    "co_locate": _Comparison(
        lambda shape: shape.rack_count, operator.lt, "its hosts are in {now} racks, not {then:.0f}"
    ),
    "more_cpu": _Comparison(
        lambda shape: shape.cores_per_gpu,
        lambda now, then: now >= _MORE_CORES * then,
        "{now:.0f} cores per GPU, not {then:.0f}",
    ),
    "local_nvme": _Comparison(
        lambda shape: shape.network_share,
        lambda now, then: now <= _MOVED_SHARE * then,
        "{now_percent:.0f}% of its reads come over the network, not {then_percent:.0f}%",
        of_some=True,
    ),
    "release": _FEWER,
    "right_size": _other_gpu,
    "share_mig": _SLICED,
    "pack": _SHARED,
    "share_time": _SHARED,
    "fewer_replicas": _FEWER,
}
_LOOK_BACK_US = 56 * DAY_US  # eight weeks before a proposal: what ran earlier was perhaps another thing
_LOOK_ON_US = 91 * DAY_US  # a quarter after it: what nobody did by then was not done for it
_DRAINED = ("cool", "drain", "drain_sick_gpu", "scale_in")  # kinds that are made on hosts, and of no run
_RELEASE, _LOCAL_NVME = "release", "local_nvme"


def look_for_applied(session: Session, until_us: int, now_us: int) -> int:
    """Write down which changes that nobody rejected were made by then; return how many."""
    new = 0
    last_made = {one.recommendation_id: one.span.end for one in predictions(session)}  # in order of their periods
    for one in lifecycle_statuses(session):
        if one.stage in ("proposed", "accepted") and until_us - last_made[one.id] <= _LOOK_ON_US:
            found = _find_applied(session, one, until_us)
            if found is not None:
                add_applied(session, one.id, found, now_us)
                new += 1
    return new


def _find_applied(session: Session, one: LifecycleStatus, until_us: int) -> AppliedChange | None:
    """Return when the change that is recommended was made, as far as runs and hosts show it."""
    prediction = one.prediction
    proposed = prediction.span.end
    if prediction.kind in _DRAINED:
        drained = _first_drained(session, prediction.nodes, proposed, until_us)
        return None if drained is None else AppliedChange(*drained, f"{drained[1]} is out of its scheduler")
    if prediction.kind == _RELEASE and len(prediction.run_ids) == 1:
        (run_id,) = prediction.run_ids
        given_back = _first_given_back(session, run_id, proposed, until_us)
        return None if given_back is None else AppliedChange(given_back, run_id, "it released GPUs")
    start, is_about_reads = prediction.span.start - _LOOK_BACK_US, prediction.kind == _LOCAL_NVME
    placed = shapes(session, prediction.name, prediction.team, start, until_us, with_reads=is_about_reads)
    before = [shape for shape in placed if shape.started_at < proposed]
    after = [shape for shape in placed if shape.started_at >= proposed]
    return applied(prediction.kind, before, after, prediction.nodes)
