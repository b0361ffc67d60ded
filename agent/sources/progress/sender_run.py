"""Whose run a sender's process is, by what the kernel says of it. What a message says of its run decides nothing."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from agent.attribution.evidence import Identity, Process, user_name
from agent.attribution.run import Attribution
from agent.sources.processes.lineage import lineage, process_of, read_stat

Whose = Callable[[int, int], tuple[Identity, Attribution] | None]  # of a pid and a user


class HostRuns:
    """Knows the processes of this host. `run_of` says whose run one is, `holders` which of them hold a GPU."""

    def __init__(
        self, proc: Path, run_of: Callable[[Process], Attribution], holders: Callable[[], Collection[int]]
    ) -> None:
        self._proc = proc
        self._run_of = run_of
        self._holders = holders

    def __call__(self, pid: int, uid: int) -> tuple[Identity, Attribution] | None:
        """Return a process and its run, or None where this user has no such process that /proc shows."""
        line = lineage(self._proc, pid)
        process = process_of(self._proc, line)
        if process is None or process.owner != user_name(uid):
            return None
        return line[0], self._attribution(line, process)

    def _attribution(self, line: Sequence[Identity], process: Process) -> Attribution:
        """Return the run of a process: of the topmost holder of a GPU above it where no scheduler knows it.

        The GPU is booked to that process, and its children speak of its work. Another user's process above it, a
        daemon that starts things for everybody, is not asked.
        """
        own = self._run_of(process)
        if own.scheduler != "process":
            return own
        holders = self._holders()
        for place in reversed([place for place, (pid, _) in enumerate(line) if pid in holders]):
            above = process_of(self._proc, line[place:])
            if above is not None and above.owner == process.owner:
                return self._run_of(above)
        return own


def one_run(run_id: str, proc: Path) -> Whose:
    """Return what says of every process that it is of this run: for a socket that nobody else can reach.

    So the last word of a command is heard that has ended before it was read.
    """

    def whose(pid: int, _: int) -> tuple[Identity, Attribution]:
        stat = read_stat(proc, pid)
        return (pid, 0 if stat is None else stat.started_ticks), Attribution(run_id, "declared")

    return whose
