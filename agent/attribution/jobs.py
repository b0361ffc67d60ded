"""Which job holds which GPU: Slurm's cgroups, and the files that a scheduler's prolog writes."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, zip_longest
from pathlib import Path

from agent.attribution.devices import Devices, GpuProcess, SchedulerNumbers
from agent.attribution.evidence import Process, is_number, number, parents, plain_name, read_process, user_name
from agent.attribution.providers import GpuHold, Meant, ProviderReport
from agent.attribution.run import V2, Attribution, Authority, job
from agent.errors import SourceError
from agent.procfs import short, text

# The Slurm jobs of this host and the GPUs they were given, whether or not a process uses them.
#
# A job's cgroup lives as long as the job; what it was given is in the environment of its processes. Each job is looked
# at until it is known, a few times in its first minute and now and then later.
_JOBS_MAX = 1024
_DIRECTORIES_MAX = 256  # of one job: steps and tasks
_PROCESSES_MAX = 64  # of one job that are looked at
EAGER_READINGS = 6  # in which a job that is not yet known is looked at every time
LATER_READINGS = 30  # between two looks at a job that is still not known
_OF_THE_JOB = ("batch", "interactive", "extern")  # steps that run on the job's first host, and know its GPUs there

_MINORS = re.compile(r"\d+(?:,\d+)*")
_UUIDS = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z-]+(?:,(?:GPU|MIG)-[0-9A-Za-z-]+)*")


@dataclass(slots=True)
class _Job:
    """A job as far as it is known: without an attribution, none of its processes could be read yet.

    Where its share here is not known as a whole, `gpus` are those of the steps that were seen.
    """

    looks: int = 0
    attribution: Attribution | None = None
    gpus: tuple[str, ...] = ()
    is_whole: bool = False


class SlurmJobs:
    """Finds the jobs below Slurm's cgroups. `attribution` names the run of a process."""

    name = "slurm"
    authority: Authority = "cgroup"
    period_seconds = 0.0

    def __init__(
        self,
        attribution: Callable[[Process], Attribution],
        devices: Callable[[], Devices],
        proc: Path = Path("/proc"),
        sys: Path = Path("/sys"),
        holders: Callable[[], Iterable[GpuProcess]] = tuple,
        numbers: SchedulerNumbers | None = None,
    ) -> None:
        self._attribution = attribution
        self._devices = devices
        self._holders = holders
        self._numbers = numbers or SchedulerNumbers()
        self._proc = proc
        self._sys = sys
        self._jobs: dict[str, _Job] = {}
        self._daemons: set[Path] = set()  # the cgroup of each slurmd that had a job here

    def read(self) -> ProviderReport | None:
        """Return what each job was given, or None where no job ever had a cgroup here."""
        found = {_identity(place): place for place in _job_directories(self._sys)}
        if not found and not self._jobs:
            return None
        self._count_daemons(found.values())
        self._jobs = {identity: self._jobs.get(identity, _Job()) for identity in found}
        for identity, known in self._jobs.items():
            if not known.is_whole and (known.looks < EAGER_READINGS or known.looks % LATER_READINGS == 0):
                self._look(known, found[identity])
            known.looks += 1
        held = [
            GpuHold(uuid, known.attribution)
            for known in self._jobs.values()
            if known.attribution is not None
            for uuid in known.gpus
        ]
        return ProviderReport(tuple(held), self._names(found))

    def close(self) -> None:
        """There is nothing to give back."""

    def _count_daemons(self, places: Iterable[Path]) -> None:
        before = len(self._daemons)
        self._daemons |= {_daemon(place) for place in places}
        if before == 1 < len(self._daemons):
            self._jobs = {}  # what was read while there seemed to be but one is not sure any more

    def _look(self, known: _Job, place: Path) -> None:
        processes = list(_processes(self._proc, place))
        devices = self._devices()
        if len(self._daemons) == 1:
            self._learn(processes, devices)
        else:  # each slurmd counts its own GPUs from 0: only UUIDs are sure
            devices = Devices([])
        whole, steps = gpus_told(processes, devices)
        known.is_whole = bool(whole)
        known.gpus = tuple(dict.fromkeys(whole or [*known.gpus, *steps]))
        for process in processes:
            if process.environment or (process.slurm_job and not is_number(_job_name(place))):
                attribution = self._attribution(process)
                known.attribution = replace(attribution, member=None, rank=None, owner=process.owner)
                return

    def _learn(self, processes: Sequence[Process], devices: Devices) -> None:
        """Let a job whose processes hold GPUs tell what the numbers of its environment mean, and look at all anew."""
        pids, before = {process.pid for process in processes}, self._numbers.meaning
        held = {one.gpu_uuid for one in self._holders() if one.pid in pids}
        if held:
            self._numbers.learn(_numbers_of_job(processes), held, devices)
        if self._numbers.meaning != before:
            for known in self._jobs.values():
                known.looks, known.gpus, known.is_whole = 0, (), False

    def _names(self, found: Mapping[str, Path]) -> dict[str, Meant]:
        """Return the ids of jobs that are known to people by another one: tasks of arrays, parts of larger jobs."""
        names: dict[str, Meant] = {}
        for identity, known in self._jobs.items():
            if known.attribution is not None:
                plain = f"{known.attribution.run_id.rpartition('/')[0]}/{_job_name(found[identity])}"
                if plain != known.attribution.run_id:
                    names[plain] = Meant(known.attribution.run_id)
        return names


def _job_directories(sys: Path) -> list[Path]:
    """Return the cgroup of each Slurm job, under version 2 or any one controller of version 1, whatever its name."""
    top = sys / "fs/cgroup"
    for root, pattern in (
        *(
            (root, f"{slices}*slurmstepd*.scope/*")
            for root in (top, top / "unified")
            for slices in ("*.slice/", "*.slice/*.slice/")
        ),
        *((top / controller, "*slurm*/uid_*/*") for controller in ("memory", "cpuset", "devices", "freezer")),
    ):
        found = [path for path in islice(root.glob(pattern), _JOBS_MAX) if path.is_dir() and _is_job(root, path)]
        if found:
            return found
    return []


def _is_job(root: Path, path: Path) -> bool:
    here, below = f"/{path.relative_to(root)}", job(f"0::/{path.relative_to(root)}")
    return below is not None and below.scheduler == "slurm" and below.directories[V2] == here


def _job_name(place: Path) -> str:
    return plain_name(place.name.removeprefix("job_"))


def _daemon(job: Path) -> Path:
    return job.parent.parent if job.parent.name.startswith("uid_") else job.parent


def _identity(place: Path) -> str:
    """Return what tells a job from a later one of the same number: a requeue has a new cgroup."""
    try:
        return f"{place}:{place.stat().st_ino}"
    except OSError:
        return f"{place}:gone"


def _processes(proc: Path, place: Path) -> Iterator[Process]:
    """Yield processes of a job, by turns from each of its steps and tasks: those of one know the same."""
    told = [text(directory / "cgroup.procs") or "" for directory in islice(_directories(place), _DIRECTORIES_MAX)]
    turns = chain.from_iterable(zip_longest(*(map(int, filter(str.isdigit, pids.split())) for pids in told)))
    for pid in islice((pid for pid in turns if pid is not None), _PROCESSES_MAX):
        above = () if is_number(_job_name(place)) else parents(proc, pid)  # where else its slurmstepd tells the number
        if (process := read_process(proc, pid, 0, above)) is not None:
            yield process


def _directories(place: Path) -> Iterator[Path]:
    """Yield a cgroup and those below it; beside them lie dozens of files in each."""
    return (Path(directory) for directory, _, _ in os.walk(place))


def gpus_told(processes: Iterable[Process], devices: Devices) -> tuple[list[str], list[str]]:
    """Return a job's whole share of this host's GPUs, and what its steps have of it, as far as processes know them.

    SLURM_JOB_GPUS is the job's whole share, SLURM_STEP_GPUS that of one step, and the steps' shares add up. Both are
    numbers of the scheduler's. Processes on further hosts carry SLURM_JOB_GPUS of the first one along, where it counts
    nothing (seen on Slurm 22.05): there a later step may know more. Numbers in CUDA_VISIBLE_DEVICES may count from 0
    within the job, and are of no use; UUIDs, since Slurm 25.11, are.
    """
    steps: list[str] = []
    for environment, here in _environments(processes):
        if here and (whole := _listed(environment.get("SLURM_JOB_GPUS", ""), devices)):
            return whole, steps
        steps += _listed(environment.get("SLURM_STEP_GPUS", ""), devices) or _listed(
            environment.get("CUDA_VISIBLE_DEVICES", ""), devices, uuids_only=True
        )
    return [], steps


def _environments(processes: Iterable[Process]) -> Iterator[tuple[Mapping[str, str], bool]]:
    """Yield each environment that speaks of the process's own job, and whether the job's share in it is this host's."""
    for process in processes:
        environment, where = process.environment or {}, job(process.cgroup)
        if where is None or where.scheduler != "slurm":
            continue
        if environment.get("SLURM_JOB_ID") == (where.id if is_number(where.id) else process.slurm_job):
            yield environment, where.step in _OF_THE_JOB or environment.get("SLURM_JOB_NUM_NODES") == "1"


def _numbers_of_job(processes: Iterable[Process]) -> list[int]:
    """Return the numbers by which a job's environment calls its GPUs on this host."""
    told = [
        environment.get("SLURM_JOB_GPUS" if here else "SLURM_STEP_GPUS", "")
        for environment, here in _environments(processes)
    ]
    return [int(name) for names in told if _MINORS.fullmatch(names) for name in names.split(",") if is_number(name)]


def _listed(names: str, devices: Devices, *, uuids_only: bool = False) -> list[str]:
    if _UUIDS.fullmatch(names):
        uuids = [devices.by_uuid(name) for name in names.split(",")]
        return [uuid for uuid in uuids if uuid] if None not in uuids else []
    if uuids_only or not _MINORS.fullmatch(names):
        return []
    found = [devices.by_scheduler(each) for name in names.split(",") if (each := number(name)) is not None]
    whole = set(devices.whole)  # Slurm counts MIG instances too: a number then names no GPU
    return [uuid for uuid in found if uuid in whole] if None not in found else []


# Files that a scheduler's prolog writes: which job holds which GPU. Those of dcgm-exporter, and those of jobstats.
#
# dcgm-exporter (DCGM_HPC_JOB_MAPPING_DIR): a file `3` for a GPU or `3.1` for its GPU instance 1, one job id a line.
# jobstats (/run/gpustat): a file for each GPU, named by index and by UUID, holding "JOBID UID". Source:
# NVIDIA/dcgm-exporter, hpc.go; PrincetonUniversity/jobstats, slurm/prolog.d.
#
# A prolog that failed leaves old files behind, so that their word weighs no more than that of a run itself.
_FILES_MAX = 1024
_JOBS_OF_A_GPU_MAX = 64  # on one GPU

_GPU_FILE = re.compile(r"(\d{1,4})(?:\.(\d{1,4}))?")
_SLURM_JOB = re.compile(r"\d{1,18}(?:[_+]\d{1,9})?")


_UNPLACED = "jobs of mapping files whose names are of no GPU of this host: which GPUs they hold is not known"

_File = tuple[str, str]  # name and content


class _MappingFiles:
    """A provider that reads a directory of files, each of which speaks of one GPU."""

    name: str
    authority: Authority = "declared"
    period_seconds = 0.0

    def __init__(self, directory: Path, cluster: str, devices: Callable[[], Devices]) -> None:
        self._directory = directory
        self._cluster = cluster
        self._devices = devices
        self._unplaced: set[str] = set()  # runs of files that are of no GPU here

    def read(self) -> ProviderReport | None:
        """Return what the files say, or None where there is no directory.

        Raises:
            SourceError: it cannot be listed, or one of its files cannot be read.
        """
        files = _files(self._directory)
        if files is None:
            return None
        self._unplaced = set()
        held = tuple(self._held(files, self._devices()))
        unplaced = self._unplaced - {one.attribution.run_id for one in held}
        return ProviderReport(held, unread={_UNPLACED: len(unplaced)})

    def close(self) -> None:
        """There is nothing to give back."""

    def _held(self, files: Iterable[_File], devices: Devices) -> Iterable[GpuHold]:
        raise NotImplementedError

    def _names_no_gpu(self, jobs: Iterable[str]) -> None:
        """Note the jobs of a file that is of no GPU here."""
        self._unplaced |= {mapped_run_id(job, self._cluster) for job in jobs}

    def _run(self, job: str, user: str | None = None) -> Attribution:
        return Attribution(mapped_run_id(job, self._cluster), "declared", owner=user)


class DcgmMapping(_MappingFiles):
    """Reads dcgm-exporter's directory of mapping files."""

    name = "dcgm_mapping"

    def _held(self, files: Iterable[_File], devices: Devices) -> Iterator[GpuHold]:
        for name, content in files:
            uuid = None
            if match := _GPU_FILE.fullmatch(name):
                uuid = devices.by_scheduler(int(match[1]), None if match[2] is None else int(match[2]))
            if uuid is not None:
                yield from (GpuHold(uuid, self._run(job)) for job in dcgm_jobs(content))
            else:
                self._names_no_gpu(job for job in dcgm_jobs(content) if match or _SLURM_JOB.fullmatch(job))


class Jobstats(_MappingFiles):
    """Reads jobstats' directory of mapping files."""

    name = "jobstats"

    def _held(self, files: Iterable[_File], devices: Devices) -> Iterable[GpuHold]:
        held: dict[str, GpuHold] = {}
        for name, content in sorted(files, key=lambda file: file[0].isdigit()):  # a UUID says more than a number
            uuid, found = None, jobstats_owner(content)
            if name.isdigit() and _GPU_FILE.fullmatch(name):
                uuid = devices.by_scheduler(int(name))
            elif _UUIDS.fullmatch(name):
                uuid = devices.by_uuid(name)
            if uuid is not None and found is not None:
                job, uid = found
                held.setdefault(uuid, GpuHold(uuid, self._run(job, user_name(uid))))
            elif found is not None:
                self._names_no_gpu([found[0]])
        return held.values()


def dcgm_jobs(content: str) -> list[str]:
    """Return the job ids of one of dcgm-exporter's files, one a line."""
    return list(dict.fromkeys(line.strip() for line in content.splitlines() if line.strip()))[:_JOBS_OF_A_GPU_MAX]


def jobstats_owner(content: str) -> tuple[str, int] | None:
    """Return job id and user number of one of jobstats' files, or None where it holds something else."""
    words = content.split()
    uid = number(words[1]) if len(words) == 2 else None
    return None if uid is None or uid >= 2**32 else (words[0], uid)


def mapped_run_id(job: str, cluster: str) -> str:
    """Return the run that a job id of a mapping file means: a Slurm job's where it has the form of one."""
    return f"slurm/{cluster}/{job}" if _SLURM_JOB.fullmatch(job) else f"declared/{cluster}/{plain_name(job)}"


def _files(directory: Path) -> list[_File] | None:
    try:
        return list(_read(directory))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SourceError(f"{directory} cannot be read ({error}); make it readable for the agent's user") from error


def _read(directory: Path) -> Iterator[_File]:
    for place in islice(sorted(directory.iterdir()), _FILES_MAX):
        if not place.is_file():
            continue
        content = short(str(place))
        if content is None and place.exists():
            raise PermissionError(f"{place} is closed")
        if content is not None:  # else taken away since it was listed: the job has ended
            yield place.name, content.decode("utf-8", "replace")
