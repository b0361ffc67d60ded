"""Which changes that were recommended have been made, as far as runs and hosts show it: written down, once each."""

from typing import TYPE_CHECKING

from agent.wire.units import DAY_US
from analyzer.recommendations.lifecycle.detect import Applied, applied
from analyzer.recommendations.lifecycle.lifecycle_tables import add_applied, lifecycle_statuses, predictions
from analyzer.recommendations.lifecycle.shapes import first_drained, first_given_back, shapes
from analyzer.recommendations.lifecycle.status import AppliedChange, LifecycleStatus

if TYPE_CHECKING:
    from collector.store.session import Session

_LOOK_BACK_US = 56 * DAY_US  # eight weeks before a proposal: what ran earlier was perhaps another thing
_LOOK_ON_US = 91 * DAY_US  # a quarter after it: what nobody did by then was not done for it
_DRAINED = ("cool", "drain", "drain_sick_gpu", "scale_in")  # kinds that are made on hosts, and of no run
_RELEASE, _LOCAL_NVME = "release", "local_nvme"


def look_for_applied(session: "Session", until_us: int, now_us: int) -> int:
    """Write down which changes that nobody rejected were made by then; return how many."""
    new = 0
    last_made = {one.recommendation_id: one.span.end for one in predictions(session)}  # in order of their periods
    for one in lifecycle_statuses(session):
        if one.stage in ("proposed", "accepted") and until_us - last_made[one.id] <= _LOOK_ON_US:
            found = _find_applied(session, one, until_us)
            if found is not None:
                add_applied(session, one.id, AppliedChange(found.applied_at, found.by_run, found.seen), now_us)
                new += 1
    return new


def _find_applied(session: "Session", one: LifecycleStatus, until_us: int) -> Applied | None:
    """Return when the change that is recommended was made, as far as runs and hosts show it."""
    prediction = one.prediction
    proposed = prediction.span.end
    if prediction.kind in _DRAINED:
        drained = first_drained(session, prediction.nodes, proposed, until_us)
        return None if drained is None else Applied(*drained, f"{drained[1]} is out of its scheduler")
    if prediction.kind == _RELEASE and len(prediction.run_ids) == 1:
        (run_id,) = prediction.run_ids
        given_back = first_given_back(session, run_id, proposed, until_us)
        return None if given_back is None else Applied(given_back, run_id, "it gave back GPUs")
    start, is_about_reads = prediction.span.start - _LOOK_BACK_US, prediction.kind == _LOCAL_NVME
    placed = shapes(session, prediction.name, prediction.team, start, until_us, with_reads=is_about_reads)
    before = [shape for shape in placed if shape.started_at < proposed]
    after = [shape for shape in placed if shape.started_at >= proposed]
    return applied(prediction.kind, before, after, prediction.nodes)
