"""Ask the GPUs of a host in turn, each on a thread of its own, so that one that hangs keeps no other waiting."""

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from agent.attribution.gpu_process import GpuProcess, Holding
from agent.errors import SourceHungError
from agent.gpu.nvidia.gpu import Gpu, GpuReading
from agent.gpu.nvidia.processes import MOST_PROCESSES
from agent.source import Row, Value
from agent.watchdog_thread import WatchdogThread
from agent.wire.tables import GPU_SAMPLES

_AMOUNTS = frozenset(column.name for column in GPU_SAMPLES.columns if column.kind == "amount")
_EVENTS = frozenset(
    column.name for column in GPU_SAMPLES.columns if column.kind == "amount" and column.unit == "events"
)


@dataclass(slots=True)
class Followed:
    """A GPU, who asks it, and what is remembered of its answers. `hung` is why it has no reading now, in words."""

    gpu: Gpu
    watchdog: WatchdogThread[GpuReading]
    reading: GpuReading | None = None  # of this beat
    processes: tuple[GpuProcess, ...] = ()  # who held it when that was last said
    hung: str = ""
    quiet: bool = False  # it is left alone, as its holder asked

    @property
    def holding(self) -> Holding:
        """Who holds it, as this beat said; what was said before this beat is no answer."""
        return Holding() if self.reading is None else self.reading.holding

    def take(self, reading: GpuReading) -> None:
        """Take the reading of this beat."""
        self.reading = reading
        told = reading.holding
        self.processes = (*told.processes, *told.unanswered(self.processes))[:MOST_PROCESSES]


def follow(gpu: Gpu) -> Followed:
    """Begin to follow a GPU."""
    return Followed(gpu, WatchdogThread(gpu.uuid, gpu.read))


def ask_all(
    followed: Iterable[Followed], seconds: float | None, budget_seconds: float, quiet: Collection[str] = ()
) -> None:
    """Read each GPU for the `seconds` since the last beat, and wait at most `budget_seconds` for all of them.

    Those in `quiet`, by UUID, are not asked, and have no reading.

    One after another, since they share one driver and one interpreter, and asking side by side costs twice the CPU;
    but once half of the time is gone all that are left are asked at once.

    Raises:
        DriverChangedError: the driver was replaced under this process.
    """
    began = time.monotonic()
    asked = []
    for one in followed:
        if one.gpu.absent:
            one.take(one.gpu.lost_reading())
            continue
        if one.gpu.uuid in quiet:
            one.reading, one.quiet = None, True
            continue
        asked.append(one)
        one.gpu.seconds = seconds
        one.watchdog.begin()
        one.watchdog.ready(began + budget_seconds / 2 - time.monotonic())
    for one in asked:
        _take(one, began + budget_seconds - time.monotonic())


def _take(one: Followed, timeout_seconds: float) -> None:
    late = one.watchdog.late
    try:
        reading = one.watchdog.answer(timeout_seconds)
    except SourceHungError as error:
        one.reading, one.hung = None, str(error)
        return
    if one.watchdog.lost_answer or one.hung or one.quiet:
        reading = mended(reading, late.value if late else None)
    one.take(reading)
    one.hung, one.quiet = "", False


def mended(reading: GpuReading, late: GpuReading | None) -> GpuReading:
    """Return the first reading after a late answer or a silence: amounts are of an unknown time, no event is lost.

    Facts that came with the late answer are told now.
    """
    before = {row["gpu_uuid"]: row for row in late.rows} if late else {}
    rows = tuple(_mended(row, before.get(row["gpu_uuid"], {})) for row in reading.rows)
    return GpuReading(rows, reading.holding, reading.facts or (late.facts if late else ()))


def _mended(row: Row, before: Row) -> Row:
    kept: dict[str, Value] = {name: value for name, value in row.items() if name not in _AMOUNTS}
    for name in _EVENTS & (row.keys() | before.keys()):
        counts = [value for value in (row.get(name), before.get(name)) if isinstance(value, int)]
        kept[name] = sum(counts) if counts else None
    return kept
