"""Read a recurring job's history from the ledger; too few runs are a sentence."""

from typing import TYPE_CHECKING

from analyzer.errors import ConfigError
from analyzer.placement.site_reading import Reading
from analyzer.planning.history import History, Peaks
from analyzer.report.words import counted, plain
from analyzer.statements import statements

if TYPE_CHECKING:
    from collector.store.session import Session

LEAST_RUNS = 5  # fewer have no tenth: their P10 and P90 would be two runs, whatever they were
MOST_RUNS = 200  # the newest: a job of last year was another job
SECOND_US = 1_000_000


def read_history(session: "Session", name: str, gpus: int) -> History:
    """Read what runs of a name with so many GPUs took.

    Raises:
        ConfigError: there are too few to say; the sentence says what there is.
        StoreError: the store does not answer.
    """
    sizes, newest, cores = statements("planning/history.sql")
    known = {size: (completed, unfinished) for size, completed, unfinished in session.rows(sizes, {"name": name})}
    completed, unfinished = known.get(gpus, (0, 0))
    if completed < LEAST_RUNS:
        raise ConfigError(_too_few(name, gpus, {size: ended for size, (ended, _) in known.items()}))
    runs = session.rows(newest, {"name": name, "gpus": gpus, "most": MOST_RUNS})
    first, last = min(run[1] for run in runs), max(run[2] for run in runs)
    hosts = {run_id: max(1, nodes) for run_id, _, _, nodes, _ in runs}
    used = {run_id: milli / 1000 / hosts[run_id] for run_id, milli in session.rows(cores, {"runs": [*hosts]})}
    reading = Reading(session, first, last)
    on_gpus, on_hosts = reading.gpu_peaks(), reading.host_peaks()
    return History(
        name,
        gpus,
        tuple(sorted(round((end - start) / SECOND_US) for _, start, end, _, _ in runs)),
        sum(attempts > 1 for *_, attempts in runs),
        unfinished,
        first,
        last,
        Peaks(
            max(used.values(), default=None),
            max((on_hosts[run] for run in hosts if run in on_hosts), default=None),
            max((on_gpus[run] for run in hosts if run in on_gpus), default=None),
        ),
    )


def _too_few(name: str, gpus: int, completed: dict[int, int]) -> str:
    called = plain(name)
    if not any(completed.values()):
        return f"duration: history: {called}: the ledger has no completed run of this name; say how long the task takes"
    seen = ", ".join(f"{counted(runs, 'run')} with {_gpus(size)}" for size, runs in completed.items() if runs)
    enough = [size for size, runs in completed.items() if runs >= LEAST_RUNS]
    way_out = f"say gpu: {enough[0]}, or " if len(enough) == 1 else ""
    return (
        f"duration: history: {called}: {counted(completed.get(gpus, 0), 'run')} with {_gpus(gpus)} completed, and a "
        f"spread needs {LEAST_RUNS} (the ledger has {seen}); {way_out}say how long the task takes"
    )


def _gpus(count: int) -> str:
    return counted(count, "GPU") if count else "no GPU"
