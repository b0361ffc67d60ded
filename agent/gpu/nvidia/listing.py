"""Which GPUs the driver lists now, by which handles, what it told of each, and which others this host should have."""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pynvml

from agent.attribution.devices import kernels_gpus
from agent.errors import SourceError, SourceHungError, SourceLostError
from agent.gpu.nvidia.calls import Calls, Failures, device_count
from agent.gpu.nvidia.xid import XidWatch
from agent.gpu.source import GpuHost
from agent.procfs import short, text
from agent.source import Row, Value
from agent.watchdog_thread import WatchdogThread
from agent.wire.units import WEEK_SECONDS

# Which GPUs the driver lists now, and by which handles: asked on threads of their own, since each may hang.
_LOOK_AGAIN_SECONDS = 30.0  # asking for handles costs some 6 ms a GPU
_NAMING_SECONDS = 3.0  # for all GPUs to tell their names: less than who asks for the list waits at the start
_MOST_GPUS = 64

Silence = Literal["lost", "hangs", "unknown"]  # why a GPU that the driver counts does not tell its UUID


@dataclass(frozen=True, slots=True)
class Listed:
    """One listing: index and handle by UUID, of the `count` GPUs that the driver has, and why others have no UUID."""

    gpus: Mapping[str, tuple[int, Any]]
    count: int
    life: int  # of the driver; it ends where the driver did not answer
    silent: Mapping[int, Silence] = field(default_factory=dict)  # by index

    @property
    def complete(self) -> bool:
        """Whether each GPU was identified."""
        return len(self.gpus) == self.count


class Listing:
    """Counts the GPUs at every call, and asks for their handles now and then, and when their number changes.

    Each GPU is asked for its name on a thread of its own: one that hangs has none, and the others have theirs. `newest`
    is the last listing, also where it came too late for the beat that asked for it.
    """

    def __init__(self, failures: Failures, xid: XidWatch, seconds: Callable[[], float] = time.monotonic) -> None:
        self.newest: Listed | None = None
        self.lost: frozenset[str] = frozenset()  # GPUs that tell no events; set by who reads them
        self.look_again = False  # ask at the next call, whatever the time
        self._failures = failures
        self._askers: dict[int, WatchdogThread[tuple[str | None, Any]]] = {}
        self._xid = xid
        self._seconds = seconds
        self._count = 0
        self._life = 0
        self._looked: float | None = None

    def look(self) -> None:
        """Ask the driver.

        Raises:
            SourceError: the driver does not answer; it was opened again if it had gone away.
            DriverChangedError: another driver answers.
        """
        known, self._count = self._count, 0  # so that a driver that stopped answering is looked through anew
        try:
            self._count = count = min(device_count(), _MOST_GPUS)
        except SourceError:
            self._life += 1
            raise
        now = self._seconds()
        recent = self._looked is not None and now - self._looked < _LOOK_AGAIN_SECONDS
        late = any(asker.has_late for asker in self._askers.values())
        if count == known and recent and not self.look_again and not late:
            return
        self._looked, self.look_again = now, False
        self.newest = self._listed(count)
        self._xid.follow({uuid: handle for uuid, (_, handle) in self.newest.gpus.items() if uuid not in self.lost})

    def _listed(self, count: int) -> Listed:
        """Ask each GPU in turn, and those that are left once half of the time is gone all at once."""
        began = time.monotonic()
        for index in range(count):
            asker = self._asker(index)
            asker.begin()
            asker.ready(began + _NAMING_SECONDS / 2 - time.monotonic())
        gpus: dict[str, tuple[int, Any]] = {}
        silent: dict[int, Silence] = {}
        for index in range(count):
            asker = self._asker(index)
            try:
                uuid, handle = asker.answer(began + _NAMING_SECONDS - time.monotonic())
            except SourceLostError:
                silent[index] = "lost"
            except SourceHungError:
                silent[index] = "hangs"
            else:
                if uuid is None:
                    silent[index] = "unknown"
                else:
                    gpus[uuid] = (index, handle)
            asker.close()
        return Listed(gpus, count, self._life, silent)

    def _asker(self, index: int) -> WatchdogThread[tuple[str | None, Any]]:
        if index not in self._askers:
            calls = Calls(f"GPU {index}", self._failures, self._seconds)
            self._askers[index] = WatchdogThread(f"GPU {index}", partial(_name, calls, index))
        return self._askers[index]


def _name(calls: Calls, index: int) -> tuple[str | None, Any]:
    """Return a GPU's UUID and handle, None where the driver tells them not."""
    handle = calls.ask(pynvml.nvmlDeviceGetHandleByIndex, index)
    return (None if handle is None else calls.ask(pynvml.nvmlDeviceGetUUID, handle)), handle


# An idle link trains down and up again: told with the rest, but no reason by itself to tell the rest again.
_RESTLESS = frozenset(("pcie_generation",))
# A GPU whose MIG mode was ended has none; of every other fact None says that it could not be read now.
_PASSING = frozenset(("mig_slices_max",))


class Inventory:
    """Remembers the row of each GPU and MIG instance, by UUID."""

    def __init__(self) -> None:
        self.told: dict[str, Row] = {}

    def changes(self, rows: Iterable[Row]) -> list[Row]:
        """Return the rows that are new or differ from what was told; what cannot be read now is as it was told."""
        known = [_known(self.told.get(str(row["gpu_uuid"]), {}), row) for row in rows]
        changed = [row for row in known if _lasting(row) != _lasting(self.told.get(str(row["gpu_uuid"]), {}))]
        self.told.update((str(row["gpu_uuid"]), row) for row in changed)
        return changed


def _known(before: Row, row: Row) -> Row:
    return {name: before.get(name) if value is None and name not in _PASSING else value for name, value in row.items()}


def _lasting(row: Mapping[str, Value]) -> Mapping[str, Value]:
    return {name: value for name, value in row.items() if name not in _RESTLESS}


# NVIDIA's GPUs on the PCI bus, as the kernel shows them to every user: also one that its driver could not take up.
_PLACE = "bus/pci/devices"  # below /sys
_DEVICES_MAX = 4096
_NVIDIA = "0x10de"
_DISPLAY = "0x03"  # the base class of VGA and 3D controllers; NVSwitches and audio have others
_VIRTUAL_OF = "physfn"  # a function of a GPU that virtual machines share: it is no board of its own
_OFF_THE_BUS = b"\xff\xff"  # what reads of a device give that does not answer: no vendor has this number


def _fallen_gpus(sys: Path) -> list[str]:
    """Return the bus ids of GPUs that are there and that nobody can use: off the bus, or without any driver.

    One with a driver that is not NVIDIA's was given away on purpose (to a virtual machine), and one that answers its
    driver may merely not be shown to this process: neither is said to be lost.
    """
    try:
        places = sorted((sys / _PLACE).iterdir())[:_DEVICES_MAX]
    except OSError:  # no PCI bus, or none that may be seen: nothing is known of it
        return []
    return [place.name for place in places if _is_gpu(place) and _is_fallen(place)]


def _is_gpu(place: Path) -> bool:
    is_nvidias = (text(place / "vendor") or "").strip() == _NVIDIA
    return is_nvidias and (text(place / "class") or "").startswith(_DISPLAY) and not (place / _VIRTUAL_OF).exists()


def _is_fallen(place: Path) -> bool:
    driver = place / "driver"
    if not driver.is_symlink():
        return True
    head = short(str(place / "config"))
    return driver.readlink().name == "nvidia" and head is not None and head[:2] == _OFF_THE_BUS


_LOG = logging.getLogger(__name__)
# Which GPUs this host should have: those it has had, those its kernel knows, those its operator expects.
#
# A GPU that died while no agent ran is in nobody's list any more. It is remembered, so that it is missed.
SECTION = "gpus"
_FORGET_SECONDS = WEEK_SECONDS  # of the driver listing all its GPUs without one that was there
_TOLD = ("gpu_index", "sku", "pci_bus_id")
_MOST_REMEMBERED = 128


class ExpectedDevices:
    """Remembers GPUs by UUID with their place, and since when (seconds since 1970) they are missing.

    A GPU that no agent has seen, and that cannot tell its UUID, is known by the driver's index, as a slot is that was
    bought before its GPU is known: `<node>/slot3`. `places` says where on the bus such a GPU sits, where that is plain.

    A missing GPU is forgotten when another sits in its place, when the driver lists as many GPUs as the operator
    expects, or after a week in which the driver listed all it has without it.
    """

    def __init__(self, host: GpuHost, wall_seconds: Callable[[], float]) -> None:
        self._host = host
        self._wall_seconds = wall_seconds
        self._known: dict[str, dict[str, object]] = {
            uuid: _believed(entry)
            for uuid, entry in host.state_file.section(SECTION).items()
            if isinstance(entry, dict)
        }
        self._missed: set[str] = set()
        self._listed: frozenset[str] | None = None
        self._silent: Mapping[int, Silence] = {}
        self._nameless: Mapping[str, Silence] = {}
        self.places: Mapping[str, str] = {}
        self._count = 0

    @property
    def expected(self) -> int:
        """How many GPUs this host should have."""
        known = self._known.keys() | (self._listed or frozenset())
        return max(self._host.expected_gpus, self._count, len(known) + len(self._nameless))

    @property
    def missing(self) -> Collection[str]:
        """The UUIDs of GPUs that were here once and are not listed now; none before the driver listed any."""
        listed = self._listed
        return [] if listed is None else sorted(self._known.keys() - listed)

    @property
    def absent(self) -> Mapping[str, Silence]:
        """Why each GPU is silent that should be here and does not tell its name: the missing, and the nameless.

        What the driver does not count is lost. Of several that it counts the index tells which is which.
        """
        kinds = set(self._silent.values())
        only: Silence = kinds.pop() if len(kinds) == 1 else "unknown"
        missing = {uuid: self._silence(uuid, only) if self._silent else "lost" for uuid in self.missing}
        return {**missing, **self._nameless}

    def update(self, now: Listed, facts: Mapping[str, Row]) -> Collection[str]:
        """Take what the driver lists now, with what is known of it, and return the UUIDs that are forgotten with it.

        One of the GPUs that the driver counts may be too ill to tell its UUID, which the kernel may know.
        """
        listed, count, complete = now.gpus.keys(), now.count, now.complete
        kernels = kernels_gpus(self._host.proc)
        self._count = max(count, len(kernels))
        for uuid in sorted(listed)[:_MOST_REMEMBERED]:
            told = facts.get(uuid) or self._known.get(uuid, {})
            self._known[uuid] = {**{name: told.get(name) for name in _TOLD}, "missing_since": None}
        strangers = {one.uuid: one.bus_id for one in kernels if one.uuid is not None and one.uuid not in listed}
        if len(strangers) == count - len(listed):  # else the kernel has GPUs that this process may not see
            for stranger, place in strangers.items():
                self._known.setdefault(stranger, {"pci_bus_id": place})
        self._listed, self._silent = frozenset(listed), now.silent
        forgotten = [uuid for uuid in self.missing if self._is_to_forget(uuid, self._listed, complete)]
        self._known = {uuid: entry for uuid, entry in self._known.items() if uuid not in forgotten}
        for uuid in forgotten:
            _LOG.info("%s is no longer expected", uuid)
        self._name(now, [one.bus_id for one in kernels])
        self._log_missing()
        self._host.state_file.keep(SECTION, {uuid: dict(entry) for uuid, entry in self._known.items()})
        return forgotten

    def _silence(self, uuid: str, otherwise: Silence) -> Silence:
        index = self._known[uuid].get("gpu_index")
        return self._silent.get(index, otherwise) if isinstance(index, int) else otherwise

    def _name(self, now: Listed, kernels: Sequence[str]) -> None:
        """Give a name to each GPU that tells none and is none of the missing.

        Those that the driver counts have its index; those that the bus alone shows come after all that are known.
        """
        before, self._nameless, self.places = self._nameless, {}, {}
        if 0 < self._host.expected_gpus <= len(now.gpus):
            return
        entries = [self._known[uuid] for uuid in self.missing]
        taken = {entry.get("pci_bus_id") for entry in self._known.values()}
        fallen = [place for place in _fallen_gpus(self._host.sys) if place not in taken]
        fallen = fallen[sum(entry.get("pci_bus_id") is None for entry in entries) :]  # which may be these
        counted = sorted(now.silent.keys() - {entry.get("gpu_index") for entry in entries})
        counted = counted[sum(entry.get("gpu_index") not in now.silent for entry in entries) :]
        uncounted = range(max(0, len(fallen) - len(counted)))
        first = now.count + len(entries) - (len(now.silent) - len(counted))
        silent: dict[int, Silence] = {index: now.silent[index] for index in counted}
        silent |= {first + number: "lost" for number in uncounted}
        places = sorted({*fallen, *(place for place in kernels if counted and place not in taken)})
        self._nameless = {self._slot(index): why for index, why in silent.items()}
        if len(places) == len(silent):
            self.places = dict(zip(self._nameless, places, strict=True))
        for name in self._nameless.keys() - before.keys():
            _LOG.warning(
                "GPU %s%s does not report its UUID (%s); reset it or the host",
                name,
                self.at(name),
                self._nameless[name],
            )

    def at(self, name: str) -> str:
        """Return where a GPU without a name sits on the bus, in words; empty where nobody knows."""
        return f" at {self.places[name]}" if name in self.places else ""

    def _slot(self, index: int) -> str:
        return f"{self._host.node}/slot{index}"

    def _is_to_forget(self, uuid: str, listed: Collection[str], complete: bool) -> bool:
        entry = self._known[uuid]
        places = {self._known[other].get("pci_bus_id") for other in listed if other in self._known}
        if entry.get("pci_bus_id") in places - {None} or 0 < self._host.expected_gpus <= len(listed):
            return True
        now, since = self._wall_seconds(), entry.get("missing_since")
        if not complete or not isinstance(since, (int, float)) or since > now:
            entry["missing_since"] = now if complete else None
            return False
        return now - since >= _FORGET_SECONDS

    def _log_missing(self) -> None:
        for uuid in set(self.missing) - self._missed:
            entry = self._known[uuid]
            _LOG.warning(
                "GPU lost: %s (%s at %s) was present and is no longer listed by the driver; reset it or the host, "
                "or set expected_gpus to the number that this host has",
                uuid,
                entry.get("sku"),
                entry.get("pci_bus_id"),
            )
        self._missed = set(self.missing)


def _believed(entry: Mapping[str, object]) -> dict[str, object]:
    """Return what can be used of an entry of the file, which anybody may have edited."""
    return {
        name: value for name in (*_TOLD, "missing_since") if isinstance(value := entry.get(name), (str, int, float))
    }
