"""Files that a scheduler's prolog writes: which job holds which GPU. Those of dcgm-exporter, and those of jobstats.

dcgm-exporter (DCGM_HPC_JOB_MAPPING_DIR): a file `3` for a GPU or `3.1` for its GPU instance 1, one job id a line.
jobstats (/run/gpustat): a file for each GPU, named by index and by UUID, holding "JOBID UID".
Source: NVIDIA/dcgm-exporter, hpc.go; PrincetonUniversity/jobstats, slurm/prolog.d.

A prolog that failed leaves old files behind, so that their word weighs no more than that of a run itself.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

from agent.attribution.declared import plain_name
from agent.attribution.devices import Devices
from agent.attribution.environment import number
from agent.attribution.evidence import user_name
from agent.attribution.holds import GpuHold, ProviderReport
from agent.attribution.run import Attribution, Authority
from agent.errors import SourceError
from agent.procfs import short

_FILES_MAX = 1024
_JOBS_MAX = 64  # on one GPU

_GPU = re.compile(r"(\d{1,4})(?:\.(\d{1,4}))?")
_SLURM = re.compile(r"\d{1,18}(?:[_+]\d{1,9})?")


_File = tuple[str, str]  # name and content


class _MappingFiles:
    """A witness that reads a directory of files, each of which speaks of one GPU."""

    name: str
    authority: Authority = "declared"
    period_seconds = 0.0

    def __init__(self, directory: Path, cluster: str, devices: Callable[[], Devices]) -> None:
        self._directory = directory
        self._cluster = cluster
        self._devices = devices

    def read(self) -> ProviderReport | None:
        """Return what the files say, or None where there is no directory.

        Raises:
            SourceError: it cannot be listed, or one of its files cannot be read.
        """
        files = _files(self._directory)
        return None if files is None else ProviderReport(tuple(self._held(files, self._devices())))

    def close(self) -> None:
        """There is nothing to give back."""

    def _held(self, files: Iterable[_File], devices: Devices) -> Iterable[GpuHold]:
        raise NotImplementedError

    def _run(self, job: str, user: str | None = None) -> Attribution:
        return Attribution(run_id(job, self._cluster), "declared", owner=user)


class DcgmMapping(_MappingFiles):
    """Reads dcgm-exporter's directory of mapping files."""

    name = "dcgm_mapping"

    def _held(self, files: Iterable[_File], devices: Devices) -> Iterator[GpuHold]:
        for name, content in files:
            if (match := _GPU.fullmatch(name)) is None:
                continue
            uuid = devices.by_index(int(match[1]), None if match[2] is None else int(match[2]))
            if uuid is not None:
                yield from (GpuHold(uuid, self._run(job)) for job in jobs(content))


class Jobstats(_MappingFiles):
    """Reads jobstats' directory of mapping files."""

    name = "jobstats"

    def _held(self, files: Iterable[_File], devices: Devices) -> Iterable[GpuHold]:
        held: dict[str, GpuHold] = {}
        for name, content in sorted(files, key=lambda file: file[0].isdigit()):  # a UUID says more than an index
            uuid = devices.by_index(int(name)) if _GPU.fullmatch(name) and name.isdigit() else name
            found = owner(content)
            if uuid is not None and found is not None and (name.isdigit() or name.startswith(("GPU-", "MIG-"))):
                job, uid = found
                held.setdefault(uuid, GpuHold(uuid, self._run(job, user_name(uid))))
        return held.values()


def jobs(content: str) -> list[str]:
    """Return the job ids of one of dcgm-exporter's files, one a line."""
    return list(dict.fromkeys(line.strip() for line in content.splitlines() if line.strip()))[:_JOBS_MAX]


def owner(content: str) -> tuple[str, int] | None:
    """Return job id and user number of one of jobstats' files, or None where it holds something else."""
    words = content.split()
    uid = number(words[1]) if len(words) == 2 else None
    return None if uid is None or uid >= 2**32 else (words[0], uid)


def run_id(job: str, cluster: str) -> str:
    """Return the run that a job id of a mapping file means: a Slurm job's where it has the form of one."""
    return f"slurm/{cluster}/{job}" if _SLURM.fullmatch(job) else f"declared/{cluster}/{plain_name(job)}"


def _files(directory: Path) -> list[_File] | None:
    try:
        return list(_read(directory))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SourceError(f"{directory} cannot be read ({error}); let the agent's user read it") from error


def _read(directory: Path) -> Iterator[_File]:
    for place in islice(sorted(directory.iterdir()), _FILES_MAX):
        if not place.is_file():
            continue
        content = short(str(place))
        if content is None and place.exists():
            raise PermissionError(f"{place} is closed")
        if content is not None:  # else taken away since it was listed: the job has ended
            yield place.name, content.decode("utf-8", "replace")
