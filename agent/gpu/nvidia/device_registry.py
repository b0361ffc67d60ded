"""Which GPUs this host has: as the driver lists them, as they are remembered, and those that are missed."""

import logging
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from agent.attribution.devices import GpuProcess, Holding
from agent.errors import DriverChangedError, SourceError, SourceHungError
from agent.gpu.nvidia.gpu import Gpu, GpuReading, ListedGpu
from agent.gpu.nvidia.instruments import MOST_PROCESSES, NvmlContext
from agent.gpu.nvidia.listing import ExpectedDevices, Inventory, Listed, Listing, Silence
from agent.source import Row, Value
from agent.watchdog_thread import WatchdogThread
from agent.wire.tables import GPU_SAMPLES

# Ask the GPUs of a host in turn, each on a thread of its own, so that one that hangs keeps no other waiting.
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
    except DriverChangedError:
        raise
    except Exception as error:  # noqa: BLE001  whatever it is, it costs this GPU's reading, and no other's
        one.reading = None
        one.gpu.context.failures.note_unreadable(one.gpu.uuid, "reading", error)
        return
    one.gpu.context.failures.unreadable.pop((one.gpu.uuid, "reading"), None)
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


_LOG = logging.getLogger(__name__)


class DeviceRegistry:
    """Keeps every GPU that was ever listed, until it is forgotten, and asks for the list on a thread of its own."""

    def __init__(self, context: NvmlContext, expected_devices: ExpectedDevices) -> None:
        self.gpus: dict[str, Followed] = {}
        self._context = context
        self._expected = expected_devices
        self._inventory = Inventory()
        self._listing = Listing(context.failures, context.xid, context.seconds)
        self._lister = WatchdogThread("the NVIDIA driver", self._listing.look)
        self._listed: Listed | None = None
        self._is_new = False  # the listing is not yet settled
        self._hangs = False

    @property
    def expected(self) -> int:
        """How many GPUs this host should have."""
        return self._expected.expected

    @property
    def unlisted(self) -> Mapping[str, Silence]:
        """Why each GPU is silent that should be here and was never listed to this agent, by UUID or other name."""
        return {name: why for name, why in self._expected.absent.items() if name not in self.gpus}

    def at(self, name: str) -> str:
        """Return where a GPU that tells no name sits on the bus, in words; empty where nobody knows."""
        return self._expected.at(name)

    @property
    def lost(self) -> list[str]:
        """The UUIDs of GPUs that were seen, by this agent or one before it, and are gone."""
        lost = [uuid for uuid, one in list(self.gpus.items()) if one.gpu.lost]
        return lost + [name for name, why in self.unlisted.items() if why == "lost"]

    def prepare(self, timeout_seconds: float) -> None:
        """Ask for the first list before the first beat, which has little time for it.

        Raises:
            DriverChangedError: another driver answers.
        """
        self._lister.begin()
        try:
            self._lister.answer(timeout_seconds)
        except SourceError as error:  # the first reading will meet the same, and say so
            _LOG.info("%s", error)
        self._apply()

    def begin(self, timeout_seconds: float) -> bool:
        """Ask for the list, and return whether it came so soon. Exceptions as `finish`."""
        self._lister.begin()
        if not self._lister.ready(timeout_seconds):
            return False
        self.finish(0)
        return True

    def finish(self, timeout_seconds: float) -> None:
        """Take the list, if it comes in time; while it hangs, those that are known are still read.

        Raises:
            SourceError: the driver does not answer at all, or hangs and no GPU is known.
            DriverChangedError: another driver answers.
        """
        try:
            self._lister.answer(timeout_seconds)
            self._hangs = False
        except SourceHungError as error:
            if not self.gpus:
                raise
            if not self._hangs:
                _LOG.warning("%s; GPUs already known are still read", error)
                self._context.failures["listing is hung"] += 1
            self._hangs = True
        self._apply()

    def look_again(self) -> None:
        """Ask for the list at the next beat: a GPU went or came back, and others may have."""
        self._listing.look_again = True

    def settle(self, facts: Iterable[Row]) -> list[Row]:
        """Take what the GPUs told of themselves, and return what is new of it.

        What follows from a new list is done here: who is missed, whom the slow threads watch, what the next agent is
        told.
        """
        changed = self._inventory.changes(facts)
        if self._listed is not None and (self._is_new or changed):
            self._follow_up(self._listed)
        return changed

    def keep_energy(self) -> None:
        """Leave the energy counters to the next agent."""
        counters = {uuid: one.gpu.energy.counter for uuid, one in self.gpus.items()}
        self._context.energy.keep({uuid: counter for uuid, counter in counters.items() if counter is not None})

    def close(self) -> None:
        """End the threads; a GPU that hangs is left behind with its thread."""
        self._lister.close()
        for one in self.gpus.values():
            one.watchdog.close()
            if not one.hung:
                one.gpu.close()

    def _apply(self) -> None:
        """Let each GPU know how the driver lists it, where there is a new list."""
        listed = self._listing.newest
        if listed is None or listed is self._listed:
            return
        self._listed, self._is_new = listed, True
        for uuid, (index, handle) in listed.gpus.items():
            if uuid not in self.gpus:
                self.gpus[uuid] = follow(Gpu(uuid, self._context))
            others = tuple(other for name, (_, other) in listed.gpus.items() if name != uuid)
            self.gpus[uuid].gpu.found(ListedGpu(index, handle, others, listed.life))
        if listed.complete:  # else one is listed that cannot be told from others: each is asked by the handle it had
            for uuid in self.gpus.keys() - listed.gpus.keys():
                self.gpus[uuid].gpu.missing()

    def _follow_up(self, listed: Listed) -> None:
        self._is_new = False
        for uuid in self._expected.update(listed, self._inventory.told):
            if uuid in self.gpus:
                self.gpus.pop(uuid).watchdog.close()
        lost = self._listing.lost = frozenset(self.lost)
        gpus = {uuid: self.gpus[uuid].gpu for uuid in listed.gpus if uuid not in lost}
        self._context.pcie.follow({uuid: listed.gpus[uuid][1] for uuid, gpu in gpus.items() if not gpu.has_gpm})
        self.keep_energy()
