"""See from how runs were placed, before and after, whether a change was made. Pure: one function a kind of change.

Each says in words what differs, "" where nothing does, and None where it cannot be told: then somebody has to say it
(gpuledger accept ID --applied-at).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from statistics import median

from analyzer.recommendations.lifecycle.shape import Shape

_BEFORE_MOST = 10  # the last runs before are what is compared with; older ones were perhaps another thing
_MORE_CORES = 1.1  # a tenth more: less is how schedulers round
_MOVED_SHARE = 0.5  # so much less of what is read comes over the network

AppliedBy = str | None
_Test = Callable[[Sequence[Shape], Shape], AppliedBy]


@dataclass(frozen=True, slots=True)
class Applied:
    """When a change was made, by which run it is seen, and what is seen."""

    applied_at: int
    by_run: str
    seen: str


def applied(kind: str, before: Sequence[Shape], after: Sequence[Shape], nodes: Sequence[str] = ()) -> Applied | None:
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
    return Applied(shape.started_at, shape.run_id, seen or "")


def _median(shapes: Sequence[Shape], what: Callable[[Shape], float | None]) -> float | None:
    known = [value for shape in shapes if (value := what(shape)) is not None]
    return median(known) if known else None


def _ordered(before: Sequence[Shape], now: Shape) -> AppliedBy:
    crossings, racks = now.crossings, now.rack_count
    then = _median(before, lambda shape: shape.crossings)
    if crossings is None or racks is None or then is None:
        return None
    least = racks if racks > 1 else 0
    if crossings > least or crossings >= then:
        return ""
    return f"its ring crosses between racks {crossings} times, not {then:.0f}"


def _together(before: Sequence[Shape], now: Shape) -> AppliedBy:
    then = _median(before, lambda shape: shape.rack_count)
    if now.rack_count is None or then is None:
        return None
    return f"its hosts are in {now.rack_count} racks, not {then:.0f}" if now.rack_count < then else ""


def _more_cores(before: Sequence[Shape], now: Shape) -> AppliedBy:
    then = _median(before, lambda shape: shape.cores_per_gpu)
    if now.cores_per_gpu is None or then is None:
        return None
    return f"{now.cores_per_gpu:.0f} cores a GPU, not {then:.0f}" if now.cores_per_gpu >= _MORE_CORES * then else ""


def _local(before: Sequence[Shape], now: Shape) -> AppliedBy:
    then = _median(before, lambda shape: shape.network_share)
    if now.network_share is None or then is None or then == 0:
        return None
    if now.network_share > _MOVED_SHARE * then:
        return ""
    return f"{100 * now.network_share:.0f} % of its reads come over the network, not {100 * then:.0f} %"


def _fewer(before: Sequence[Shape], now: Shape) -> AppliedBy:
    then = _median(before, lambda shape: shape.gpus)
    return f"{now.gpus} GPUs, not {then:.0f}" if then is not None and now.gpus < then else ""


def _other_gpu(before: Sequence[Shape], now: Shape) -> AppliedBy:
    """Fewer GPUs, slices of them, or another kind."""
    if found := _fewer(before, now) or _sliced(before, now):
        return found
    then = {sku for shape in before for sku in shape.skus}
    if not then or not now.skus:
        return None
    return f"on {now.skus[0]}" if not then & set(now.skus) else ""


def _sliced(before: Sequence[Shape], now: Shape) -> AppliedBy:
    then = _median(before, lambda shape: shape.slices)
    return f"{now.slices} MIG slices" if now.slices > (then or 0) else ""


def _packed(before: Sequence[Shape], now: Shape) -> AppliedBy:
    then = _median(before, lambda shape: shape.shared)
    return f"{now.shared} of its GPUs shared with another run" if now.shared > (then or 0) else ""


def _without(nodes: Sequence[str]) -> _Test | None:
    if not nodes:
        return None
    left = set(nodes)

    def test(before: Sequence[Shape], now: Shape) -> AppliedBy:
        if not any(left & set(shape.nodes) for shape in before):
            return None
        return "" if left & set(now.nodes) else f"without {', '.join(sorted(left))}"

    return test


TESTS: dict[str, _Test] = {
    "reorder_ranks": _ordered,
    "co_locate": _together,
    "more_cpu": _more_cores,
    "local_nvme": _local,
    "release": _fewer,
    "right_size": _other_gpu,
    "share_mig": _sliced,
    "pack": _packed,
    "share_time": _packed,
    "fewer_replicas": _fewer,
}
