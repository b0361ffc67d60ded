"""Whose run a service is, where the settings do not say: that of the processes behind its port."""

import os
from collections.abc import Callable, Collection
from pathlib import Path

from agent.attribution.cgroup import V2, controller_paths, unified_root
from agent.attribution.evidence import Process, user_name
from agent.attribution.run import Attribution
from agent.errors import SourceError
from agent.sources.processes.lineage import lineage, process_of
from agent.sources.services.declared import Service
from agent.sources.services.listeners import Listener, behind, listeners
from agent.sources.sockets.cgroups import CgroupRuns


class Owners:
    """Finds the run behind a port of this host, by the cgroup of who listens.

    That is the run that a scheduler made the cgroup for; else, within a container or a unit of its own, the run of the
    GPU's holders in the same cgroup and of the same user, if it is one. `run_of` says whose run a process is,
    `run_of_cgroup` whose a cgroup is, None where no scheduler made it.
    """

    def __init__(
        self,
        node: str,
        proc: Path,
        sys: Path,
        run_of: Callable[[Process], Attribution],
        run_of_cgroup: Callable[[str], str | None],
        holders: Callable[[], Collection[int]],
        ask: Callable[[], list[Listener]] = listeners,
    ) -> None:
        self._node = node
        self._proc = proc
        self._sys = sys
        self._run_of = run_of
        self._cgroups = CgroupRuns(sys, run_of_cgroup)
        self._holders = holders
        self._ask = ask
        self._known: dict[Service, str] = {}

    def run_of(self, service: Service) -> str:
        """Return the run of a service, or a name of its own, which holds no GPU, where none can be told.

        While the kernel does not say who listens it is whose it was.
        """
        nobody = f"service/{self._node}/{service.host}:{service.port}"
        try:
            listener = behind(service.host, service.port, self._ask())
        except (SourceError, ValueError):
            return self._known.get(service, nobody)
        found = None if listener is None or listener.cgroup is None else self._run(listener, listener.cgroup)
        self._known[service] = found or nobody
        return self._known[service]

    def _run(self, listener: Listener, cgroup: int) -> str | None:
        scheduled = self._cgroups.runs({cgroup}).get(cgroup)
        if scheduled is not None:
            return scheduled
        held = {self._run_of(process).run_id for process in self._holding(listener.uid, cgroup)}
        return held.pop() if len(held) == 1 else None

    def _holding(self, uid: int, cgroup: int) -> list[Process]:
        processes = (process_of(self._proc, lineage(self._proc, pid)) for pid in self._holders())
        return [
            process
            for process in processes
            if process is not None and process.owner == user_name(uid) and self._inode(process) == cgroup
        ]

    def _inode(self, process: Process) -> int | None:
        path = controller_paths(process.cgroup).get(V2)
        try:
            return None if path is None else os.stat(f"{unified_root(self._sys)}{path}").st_ino  # noqa: PTH116  paths of the kernel's, joined as it writes them
        except OSError:
            return None
