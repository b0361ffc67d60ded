"""What a command did by its recording, and its host meanwhile: CPU, memory, disks, links, its own processes."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.wire.recording import RecordingEnd, RecordingHeader
from agent.wire.units import SECOND_US
from collector.store.session import Session

if TYPE_CHECKING:
    from analyzer.reports.run import RunDocument

_DEVICES_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Device:
    """One disk, mount or link: bytes in and out, its fastest second in bytes a second, and its busiest."""

    device: str
    kind: str | None
    read_bytes: int | None
    written_bytes: int | None
    fastest_bytes_per_second: int | None
    busy_ratio: float | None


@dataclass(frozen=True, slots=True)
class HostSide:
    """Means over the run, weighted by time; None where the host did not report it."""

    cores: int | None
    cpu_busy_ratio: float | None
    cpu_busy_ratio_max: float | None
    cpu_iowait_ratio: float | None
    memory_used_bytes_max: int | None
    disks: tuple[Device, ...]
    links: tuple[Device, ...]
    workers_max: int | None
    workers_busiest_cpu_ratio: float | None
    process_cpu_seconds: float | None


@dataclass(frozen=True, slots=True)
class RecordingReport:
    """One command: how long it took, what its GPUs did (None where none was seen), and the host meanwhile.

    `ended` is None where the watcher was killed before the command ended; `refused` says why batches were not taken,
    `not_judged` why nothing is said of where the time went or what to change: empty where it is.
    """

    file: str
    header: RecordingHeader
    ended: RecordingEnd | None
    until: int
    run: "RunDocument | None"
    host: HostSide
    refused: tuple[str, ...]
    not_judged: str

    @property
    def microseconds(self) -> int:
        """How long it took, or was watched."""
        return max(0, self.until - self.header.started_at)

    @property
    def gpus(self) -> int:
        """How many GPUs it held: not those on which others' processes alone ran."""
        return self.header.gpus - (self.ended.foreign_gpus if self.ended else 0)


def host_side(session: Session, run_id: str, start_us: int, end_us: int) -> HostSide:
    """Return what the host did between two instants."""
    span = [start_us, end_us]
    weight = "(ended_at - started_at)"
    busy, busiest, waiting, memory = session.row(
        f"SELECT sum(cpu_busy_ratio * {weight}) / sum({weight}) FILTER (cpu_busy_ratio IS NOT NULL), "
        f"max(cpu_busy_ratio), sum(cpu_iowait_ratio * {weight}) / sum({weight}) FILTER (cpu_iowait_ratio IS NOT NULL), "
        "max(memory_used_bytes) FROM host_samples WHERE ended_at > ? AND started_at < ?",
        span,
    )
    cores = session.row("SELECT max(cpu_cores) FROM inventory WHERE gpu_uuid IS NULL")[0]
    workers, worker, cpu = session.row(
        "SELECT max(workers), "
        f"sum(workers_busiest_cpu_ratio * {weight}) / sum({weight}) FILTER (workers_busiest_cpu_ratio IS NOT NULL), "
        "sum(cpu_seconds) FROM process_samples "
        "WHERE run_id = ? OR run_id IN (SELECT alias_run_id FROM run_aliases WHERE run_id = ?)",
        [run_id, run_id],
    )
    disks = _devices(session, "disk_samples", "mount_kind", "read_bytes", "written_bytes", "max(busy_ratio)", span)
    links = _devices(session, "network_samples", "link_kind", "receive_bytes", "transmit_bytes", "NULL", span)
    return HostSide(cores, busy, busiest, waiting, memory, disks, links, workers, worker, cpu)


def _devices(
    session: Session, table: str, kind: str, inward: str, outward: str, busy: str, span: list[int]
) -> tuple[Device, ...]:
    a_second = f"{SECOND_US} // greatest(1, ended_at - started_at)"
    rows = session.rows(
        f"SELECT device, any_value({kind}), sum({inward}), sum({outward}), "
        f"max((coalesce({inward}, 0) + coalesce({outward}, 0)) * {a_second}), {busy} "
        f"FROM {table} WHERE ended_at > ? AND started_at < ? GROUP BY device "
        f"HAVING coalesce(sum({inward}), 0) + coalesce(sum({outward}), 0) > 0 "
        f"ORDER BY coalesce(sum({inward}), 0) + coalesce(sum({outward}), 0) DESC LIMIT {_DEVICES_SHOWN}",
        span,
    )
    return tuple(Device(*row) for row in rows)
