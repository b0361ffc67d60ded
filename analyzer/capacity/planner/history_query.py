"""Read a recurring job's history on one kind of GPU from the ledger; too few runs there are a sentence."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.wire.units import SECOND_US
from analyzer.capacity.planner.errors import UnseenError
from analyzer.capacity.planner.history import History, Peaks
from analyzer.capacity.planner.kinds import means
from analyzer.queries.statements import statements
from analyzer.recommendations.site_query import SiteQuery
from analyzer.text.words import counted, plain

if TYPE_CHECKING:
    from collector.store.session import Session

LEAST_RUNS = 5  # fewer have no tenth: their P10 and P90 would be two runs, whatever they were
_MOST_RUNS = 200  # the newest: a job of last year was another job


@dataclass(frozen=True, slots=True)
class RunCount:
    """How many runs of a name there are with so many GPUs of one kind, on one host or spread over several."""

    sku: str | None  # None: of several kinds, or of one that nobody told; or they held no GPU
    gpus: int
    is_spread: bool
    completed: int
    unfinished: int

    @property
    def is_told(self) -> bool:
        """Whether it is known on what they ran: one host, with GPUs of one kind or none."""
        return not self.is_spread and (self.sku is not None or not self.gpus)


def read_history(session: "Session", name: str, gpus: int, sku: str | None = None) -> History:
    """Read what runs of a name with so many GPUs of a kind took; without `sku` of the one kind that there is.

    Raises:
        UnseenError: there are too few to say, or of several kinds; the sentence says what there is.
        StoreError: the store does not answer.
    """
    sizes, newest, cores = statements("capacity/planner/history.sql")
    known = [RunCount(*row) for row in session.rows(sizes, {"name": name})]
    seen = _seen_on(known, name, gpus, sku)
    runs = session.rows(newest, {"name": name, "gpus": gpus, "sku": seen.sku, "most": _MOST_RUNS})
    first, last = min(run[1] for run in runs), max(run[2] for run in runs)
    ids = [run_id for run_id, *_ in runs]
    used = [milli / 1000 for _, milli in session.rows(cores, {"runs": ids})]
    reading = SiteQuery(session, first, last)
    on_gpus, on_hosts = reading.gpu_peaks(), reading.host_peaks()
    return History(
        name,
        gpus,
        tuple(sorted(round((end - start) / SECOND_US) for _, start, end, _ in runs)),
        sum(attempts > 1 for *_, attempts in runs),
        seen.unfinished,
        first,
        last,
        Peaks(
            max(used, default=None),
            max((on_hosts[run] for run in ids if run in on_hosts), default=None),
            max((on_gpus[run] for run in ids if run in on_gpus), default=None),
        ),
        seen.sku,
    )


def _seen_on(known: Sequence[RunCount], name: str, gpus: int, sku: str | None) -> RunCount:
    """Return the runs that say how long a job of so many GPUs takes on a kind; those on other kinds never do.

    Raises:
        UnseenError: there are none, too few, or of several kinds.
    """
    called = f"duration: history: {plain(name)}{f' on {plain(sku)}' if sku is not None else ''}"
    there = [one for one in known if one.is_told and one.gpus == gpus and (sku is None or _is_of(one, sku))]
    enough = [one for one in there if one.completed >= LEAST_RUNS]
    there = (enough if sku is None else [one for one in there if one.sku == sku]) or there
    if len(there) == 1 and there[0] in enough:
        return there[0]
    if len(there) > 1 and enough:
        kinds = " and ".join(sorted(plain(one.sku or "") for one in there))
        raise UnseenError(f"{called}: its runs with {_gpus(gpus)} were on {kinds}; say which, as in sku={there[0].sku}")
    if not any(one.completed for one in known):
        raise UnseenError(f"{called}: the ledger has no completed run of this name; say how long the task takes")
    raise UnseenError(f"{called}: {_too_few(known, sum(one.completed for one in there), gpus, sku)}")


def _is_of(one: RunCount, sku: str) -> bool:
    return one.sku is not None and means(sku, one.sku)


def _too_few(known: Sequence[RunCount], completed: int, gpus: int, sku: str | None) -> str:
    seen = ", ".join(f"{counted(one.completed, 'run')} {_where(one)}" for one in known if one.completed)
    enough = {
        one.gpus for one in known if one.is_told and one.completed >= LEAST_RUNS and (sku is None or _is_of(one, sku))
    }
    way_out = f"say gpu: {next(iter(enough))}, or " if len(enough) == 1 and gpus not in enough else ""
    return (
        f"{counted(completed, 'run')} with {_gpus(gpus)} completed, and a spread needs {LEAST_RUNS} "
        f"(the ledger has {seen}); {way_out}say how long the task takes"
        + (f" there, as in {{history: NAME, {plain(sku)}: 25 h}}" if sku is not None else "")
    )


def _where(one: RunCount) -> str:
    of = f" of {plain(one.sku)}" if one.sku is not None else " of several kinds or one that is not known"
    return f"with {_gpus(one.gpus)}{of if one.gpus else ''}{' over several hosts' if one.is_spread else ''}"


def _gpus(count: int) -> str:
    return counted(count, "GPU") if count else "no GPU"
