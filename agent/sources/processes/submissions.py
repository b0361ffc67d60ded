"""Which Ray job was submitted under which name: known where the job's driver runs, and there alone.

Workers know their job by number, people by the name of its submission. The driver of `ray job submit` runs below a
`ray::JobSupervisor`, has the submission in its environment, and its number in the name of its log. Seen on Ray 2.60.
"""

import os
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from agent.attribution.declared import plain_name
from agent.attribution.evidence import Identity, user_in
from agent.attribution.holds import Meant
from agent.attribution.ray import RayWorker, ray_run_id, ray_worker
from agent.procfs import text
from agent.sources.processes.table import Stat

_SUPERVISOR = "ray::JobSupervisor"[:15]  # as the kernel cuts it
_DRIVERS_MAX = 256
_FILES_MAX = 1024  # of one driver
_ANCESTORS_MAX = 4  # the shell that the supervisor starts, and what it starts

_SUBMISSION = re.compile(r"(?:^|\0)RAY_JOB_CONFIG_JSON_ENV_VAR=[^\0]*\"job_submission_id\": *\"([^\"\0]{1,128})\"")
_LOG = re.compile(r"/python-core-driver-([0-9a-f]{8})[0-9a-f]*_\d+\.log$")


class Submissions:
    """Remembers the drivers of this host for as long as they live."""

    def __init__(self, proc: Path, cluster: str) -> None:
        self._proc = proc
        self._cluster = cluster
        self._known: dict[Identity, tuple[str, Meant]] = {}

    def names(self, processes: Mapping[int, Stat]) -> dict[str, Meant]:
        """Return of each job that was submitted here the run by its number, and the one that people know."""
        drivers = islice(_below_supervisors(processes), _DRIVERS_MAX)
        found = {key: self._known.get(key) or self._ask(lineage) for key, lineage in drivers}
        self._known = {key: names for key, names in found.items() if names is not None}
        return dict(self._known.values())

    def _ask(self, lineage: list[int]) -> tuple[str, Meant] | None:
        job, environ = self._job(lineage[0]), text(self._proc / str(lineage[0]) / "environ")
        submission = _SUBMISSION.search(environ or "")
        uid = user_in(text(self._proc / str(lineage[0]) / "status") or "")
        if job is None or submission is None or uid is None:
            return None  # a shell on the way, a driver that is not yet connected, or one that may not be read
        worker = ray_worker(self._proc, lineage) or RayWorker("", None)
        by_number = ray_run_id(worker, job, self._cluster, uid)
        by_name = ray_run_id(worker, plain_name(submission[1]), self._cluster, uid)
        return (by_number, Meant(by_name)) if by_number and by_name else None

    def _job(self, pid: int) -> str | None:
        directory = f"{self._proc}/{pid}/fd"
        try:
            for name in islice(os.listdir(directory), _FILES_MAX):  # noqa: PTH208  (names alone are needed)
                if found := _LOG.search(os.readlink(f"{directory}/{name}")):  # noqa: PTH115
                    return found[1]
        except OSError:
            return None  # ended, or another user's
        return None


def _below_supervisors(processes: Mapping[int, Stat]) -> Iterator[tuple[Identity, list[int]]]:
    supervisors = {pid for pid, stat in processes.items() if stat.name == _SUPERVISOR}
    for stat in processes.values() if supervisors else ():
        lineage = list(islice(_upwards(stat, processes), 2 * _ANCESTORS_MAX))
        if supervisors.intersection(lineage[1 : 1 + _ANCESTORS_MAX]):
            yield (stat.pid, stat.started_ticks), lineage


def _upwards(stat: Stat, processes: Mapping[int, Stat]) -> Iterator[int]:
    step: Stat | None = stat
    while step is not None:
        yield step.pid
        step = processes.get(step.parent)
