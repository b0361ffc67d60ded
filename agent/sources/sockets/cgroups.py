"""The run behind a cgroup's number, as sockets bear it: the inode of its cgroup v2 directory."""

import os
from collections.abc import Callable, Iterator, Set
from pathlib import Path

from agent.attribution.cgroup import V2, job, unified_root

DIRECTORIES_MAX = 8192  # looked at in one search


class CgroupRuns:
    """Finds the runs of cgroups by number, and remembers them for as long as they are asked for.

    `run_of` turns the text of a /proc/<pid>/cgroup into a run id, None where no scheduler made the cgroup.
    The tree is searched only when a number is asked for that is not yet known: numbers are never used again.
    `cut_short` is whether the last search met more directories than it looks at.
    """

    def __init__(self, sys: Path, run_of: Callable[[str], str | None]) -> None:
        self.cut_short = False
        self._sys = sys
        self._run_of = run_of
        self._known: dict[int, str | None] = {}

    def runs(self, cgroups: Set[int]) -> dict[int, str]:
        """Return the run of each of these cgroups that belongs to one."""
        if not cgroups <= self._known.keys():
            self._known = self._search(cgroups)
        self._known = {cgroup: self._known.get(cgroup) for cgroup in cgroups}
        return {cgroup: run for cgroup, run in self._known.items() if run is not None}

    def coverage(self) -> list[str]:
        """Return what of this host's runs cannot be found, in words."""
        lines = []
        if not (self._sys / "fs/cgroup/cgroup.controllers").exists():
            lines.append("connections of jobs under cgroup v1 are unattributed: the kernel names sockets by cgroup v2")
        if self.cut_short:
            lines.append(f"there are more than {DIRECTORIES_MAX} cgroups; some jobs' connections are unattributed")
        return lines

    def _search(self, wanted: Set[int]) -> dict[int, str | None]:
        """Return what was known and what was found; a number that was not found is of no run.

        What a run's own sockets bore stays its own after its cgroup has gone.
        """
        found: dict[int, str | None] = {}
        names: dict[str, str | None] = {}
        seen = 0
        for path, number in _directories(str(unified_root(self._sys))):
            seen += 1
            if seen > DIRECTORIES_MAX:
                break
            if number in wanted and (here := job(f"0::{path}")) is not None:
                directory = here.directories[V2]
                if directory not in names:
                    names[directory] = self._run_of(f"0::{directory}")
                found[number] = names[directory]
        self.cut_short = seen > DIRECTORIES_MAX
        return self._known | found


def _directories(root: str) -> Iterator[tuple[str, int]]:
    """Yield path below the root and inode of every directory; one that vanishes meanwhile has nothing below it."""
    pending = [""]
    while pending:
        above = pending.pop()
        try:
            with os.scandir(root + above) as entries:
                inner = [(f"{above}/{entry.name}", entry.inode()) for entry in entries if entry.is_dir()]
        except OSError:
            continue
        yield from inner
        pending.extend(path for path, _ in inner)
