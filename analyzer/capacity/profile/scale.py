"""How the work scales: what it came to at each size that was seen, and up to which size more GPUs pay."""

from dataclasses import dataclass
from itertools import pairwise

from analyzer.capacity.profile.facts import Scale
from analyzer.capacity.profile.work import HeldRun, Work
from analyzer.measures.efficiency.efficiency_query import NOT_TRAINING, labels
from analyzer.measures.efficiency.of_run import Subject, scaling_of
from analyzer.measures.efficiency.scaling import Scaling
from collector.store.session import Session

# A size pays while each of its GPUs does so much of what one does in the smallest run: the bar that capacity gates
# propose (speed-up tables are asked for by ARCHER's technical assessment and ACCESS Maximize; the number is ours).
_PAYS_RATIO = 0.70
_NAMES_MOST = 3  # of the runs that held most, by name: which of them have been at several sizes


@dataclass(frozen=True, slots=True)
class Scaled:
    """The table, smallest first; `because` says why there is none or what is not in it, `of` of which runs it is."""

    table: tuple[Scale, ...]
    knee_gpus: int | None
    of: str | None
    because: str | None = None


def read_scale(session: Session, work: Work) -> Scaled:
    """Return the table of the runs that held most and were seen at several sizes."""
    by_name: dict[str, HeldRun] = {}
    for run in work.runs:
        if run.stage not in NOT_TRAINING:
            by_name.setdefault(run.name or run.run_id, run)
    because = "none of the runs makes steps that could be compared"
    for run in list(by_name.values())[:_NAMES_MOST]:
        found = scaling_of(session, _subject(run, work), labels(session, run.run_id))
        if found.unit is not None:
            return _scaled(run, found)
        because = found.because or because
    return Scaled((), None, None, because)


def _scaled(run: HeldRun, found: Scaling) -> Scaled:
    table = tuple(
        Scale(size.gpus, size.runs, round(size.per_second, 6), found.unit or "", round(size.efficiency, 6))
        for size in found.sizes
    )
    return Scaled(table, knee(table), run.name, found.because)


def knee(table: tuple[Scale, ...]) -> int | None:
    """Return the largest size that pays before one that does not; None where all sizes that were seen pay."""
    for before, size in pairwise(table):
        if size.efficiency_ratio < _PAYS_RATIO:
            return before.gpus
    return None


def _subject(run: HeldRun, work: Work) -> Subject:
    moments = (work.period.start, work.period.end, None, run.started_at, run.ended_at)
    return Subject(run.run_id, run.name, run.stage, run.gpus, run.sku, *moments)
