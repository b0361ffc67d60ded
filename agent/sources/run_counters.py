"""What a run's cgroup says of it, under cgroup v2 and v1."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from agent.attribution.evidence import list_length
from agent.attribution.run import V2, unified_root
from agent.procfs import number, text
from agent.sources.host import PRESSURES, stalled_microseconds
from agent.wire.units import SECOND_US

_NANOSECONDS_PER_MICROSECOND = 1000


@dataclass(frozen=True, slots=True)
class RunCounters:
    """What a run has used since its cgroup was made; None is what this kernel or this cgroup does not count."""

    read_bytes: int | None = None
    written_bytes: int | None = None
    cpu_microseconds: int | None = None
    throttled_microseconds: int | None = None
    memory_used_bytes: int | None = None
    stalled_microseconds: Mapping[str, int | None] = field(default_factory=dict)


def io_bytes(io_stat: str, disks: Set[str]) -> tuple[int, int]:
    """Return bytes read and written of a cgroup v2 `io.stat`, over these disks ("8:0").

    Other devices are left out: a volume of LVM shows again what its disks show. No line means that nothing moved.
    Source: Documentation/admin-guide/cgroup-v2.rst.
    """
    read = written = 0
    for line in io_stat.splitlines():
        device, _, rest = line.partition(" ")
        if device in disks:
            fields = dict(field.split("=", 1) for field in rest.split() if "=" in field)
            read += int(fields.get("rbytes", 0))
            written += int(fields.get("wbytes", 0))
    return read, written


def blkio_bytes(service_bytes: str, disks: Set[str]) -> tuple[int, int]:
    """Return bytes read and written of a cgroup v1 `blkio.throttle.io_service_bytes_recursive`."""
    moved = {"Read": 0, "Write": 0}
    for fields in map(str.split, service_bytes.splitlines()):
        if len(fields) == 3 and fields[0] in disks and fields[1] in moved:
            moved[fields[1]] += int(fields[2])
    return moved["Read"], moved["Write"]


def stat_fields(stat: str | None) -> dict[str, int]:
    """Return the "name value" lines of a cgroup's `cpu.stat`."""
    pairs = (line.partition(" ") for line in (stat or "").splitlines())
    return {name: int(value) for name, _, value in pairs if value.isdigit()}


def run_counters(sys: Path, directories: Mapping[str, str], disks: Set[str]) -> RunCounters:
    """Return the counters of the run whose cgroups these are, by controller.

    Where no disk of the host is known none of its bytes are: 0 would be told, and then all that it ever moved.
    """
    if V2 in directories:
        found = _unified(_below(unified_root(sys), directories[V2]), disks)
        if found.cpu_microseconds is not None:
            return found
    return _legacy(sys, directories, disks)


def _unified(cgroup: Path, disks: Set[str]) -> RunCounters:
    io_stat, cpu = text(cgroup / "io.stat"), stat_fields(text(cgroup / "cpu.stat"))
    read, written = io_bytes(io_stat, disks) if io_stat is not None and disks else (None, None)
    return RunCounters(
        read_bytes=read,
        written_bytes=written,
        cpu_microseconds=cpu.get("usage_usec"),
        throttled_microseconds=cpu.get("throttled_usec"),
        memory_used_bytes=number(cgroup / "memory.current"),
        stalled_microseconds={what: stalled_microseconds(text(cgroup / f"{what}.pressure")) for what in PRESSURES},
    )


def _legacy(sys: Path, directories: Mapping[str, str], disks: Set[str]) -> RunCounters:
    def at(controller: str, file: str) -> Path | None:
        path = directories.get(controller)
        return None if path is None else _below(sys / "fs/cgroup" / controller, path) / file

    def counted(controller: str, file: str) -> int | None:
        place = at(controller, file)
        return None if place is None else number(place)

    blkio, cpu = at("blkio", "blkio.throttle.io_service_bytes_recursive"), at("cpu", "cpu.stat")
    service_bytes = text(blkio) if blkio else None
    read, written = blkio_bytes(service_bytes, disks) if service_bytes is not None and disks else (None, None)
    throttled = stat_fields(text(cpu)).get("throttled_time") if cpu else None
    return RunCounters(
        read_bytes=read,
        written_bytes=written,
        cpu_microseconds=_microseconds(counted("cpuacct", "cpuacct.usage")),
        throttled_microseconds=_microseconds(throttled),
        memory_used_bytes=counted("memory", "memory.usage_in_bytes"),
    )


def cores_allotted(sys: Path, paths: Mapping[str, str], affinity: int | None) -> float | None:
    """Return how many cores a process in these cgroups may use: its cpuset, or less where a quota binds sooner.

    `affinity` is how many cores the process itself may run on, for where the cpuset cannot be read. Quotas bind
    from above too: the smallest on the way up counts.
    """
    quotas = [quota for directory in _upwards(sys, paths, V2, "cpu") if (quota := _quota(directory)) is not None]
    cpusets = (_cpuset(directory) for directory in _upwards(sys, paths, V2, "cpuset"))
    cores = next((count for count in cpusets if count is not None), affinity)
    limits = [*quotas, *([] if cores is None else [float(cores)])]
    return min(limits, default=None)


def _upwards(sys: Path, paths: Mapping[str, str], *controllers: str) -> list[Path]:
    found: list[Path] = []
    for controller in controllers:
        if (path := paths.get(controller)) is not None:
            root = unified_root(sys) if controller == V2 else sys / "fs/cgroup" / controller
            inner = PurePosixPath(path.strip("/"))
            found += [root / step for step in (inner, *inner.parents)]
    return found


def _quota(cgroup: Path) -> float | None:
    quota, _, period = (text(cgroup / "cpu.max") or "").strip().partition(" ")
    if quota.isdigit() and period.isdigit():
        return int(quota) / int(period)
    v1_quota, v1_period = number(cgroup / "cpu.cfs_quota_us"), number(cgroup / "cpu.cfs_period_us")
    # v1 writes -1 where there is no quota.
    return v1_quota / v1_period if v1_quota and v1_period and v1_quota > 0 else None


def _cpuset(cgroup: Path) -> int | None:
    for name in ("cpuset.cpus.effective", "cpuset.effective_cpus"):
        if content := (text(cgroup / name) or "").strip():
            return list_length(content)
    return None


def _below(root: Path, path: str) -> Path:
    return root / path.strip("/")


def _microseconds(nanoseconds: int | None) -> int | None:
    return None if nanoseconds is None else nanoseconds // _NANOSECONDS_PER_MICROSECOND


def seconds(microseconds: int | None) -> float | None:
    """Return microseconds as seconds."""
    return None if microseconds is None else microseconds / SECOND_US
