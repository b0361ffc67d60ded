"""The source of everything NVIDIA on this host: rows of gpu_samples and inventory, and who holds which GPU."""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from agent.attribution.devices import Device, GpuProcess, Holding, kernels_gpus, merged_holdings
from agent.errors import DriverChangedError, SourceError
from agent.gpu.nvidia.calls import Failures, close_library, driver_version, open_library
from agent.gpu.nvidia.device_registry import DeviceRegistry, ask_all
from agent.gpu.nvidia.gpu import Gpu, GpuReading, nothing, of_gpu
from agent.gpu.nvidia.instruments import NvmlContext
from agent.gpu.nvidia.links import PAUSE_SECONDS, PcieWatch
from agent.gpu.nvidia.listing import SECTION, ExpectedDevices
from agent.gpu.nvidia.power import EnergyBook
from agent.gpu.nvidia.xid import XidWatch
from agent.gpu.source import GpuHost, GpuSource
from agent.source import Reading, Row, Supported
from agent.watchdog_thread import WatchdogThread

_LOG = logging.getLogger(__name__)
_OURS = 0.8  # of the time after which a question hangs: who waits for this source must not give it up first
_OPENING_SECONDS = 5.0  # for the first list of GPUs, and the first reading: a cold driver wakes each of them
_REACH_SECONDS = 15.0  # of the driver's rings
_UNLISTED = {
    "lost": "the GPU is lost: the driver does not list it",
    "hangs": "a driver call is hung",
    "unknown": "the driver counts the GPU but does not report its UUID",
}


class NvmlSource:
    """Every GPU of this host, once a beat. A GPU that was seen once has a row for ever, up or lost; so has one that was
    lost before anybody saw it, by its slot.

    One that hangs has none, nor has one in `quiet`: silence is a gap. `failures` counts questions that failed, by name.
    """

    name = "gpu"
    period_seconds = 0.0

    def __init__(
        self,
        host: GpuHost,
        seconds: Callable[[], float] = time.monotonic,
        wall_seconds: Callable[[], float] = time.time,
        pcie_pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        self._quiet = host.quiet
        self.failures = Failures()
        pcie, xid = PcieWatch(self.failures, pcie_pause_seconds), XidWatch(self.failures, wall_seconds, seconds)
        energy = EnergyBook(host.state_file, host.proc)
        self._context = NvmlContext(
            self.failures,
            seconds,
            wall_seconds,
            pcie,
            xid,
            energy,
            host.proc,
            host.sys,
            driver_version(self.failures),
            host.process_seconds,
        )
        self._devices = DeviceRegistry(self._context, ExpectedDevices(host, wall_seconds))
        self._budget = _OURS * host.hang_seconds
        self._last_read: float | None = None
        self._fails = False  # the driver did not answer at all when it was last asked
        self._warned = False
        self._devices.prepare(_OPENING_SECONDS)

    @property
    def lost(self) -> list[str]:
        """The UUIDs of GPUs that were seen, by this agent or one before it, and are gone."""
        return self._devices.lost

    @property
    def expected(self) -> int:
        """How many GPUs this host should have."""
        return self._devices.expected

    @property
    def was_read(self) -> bool:
        """Whether there was a reading: before it nobody knows who holds what."""
        return self._last_read is not None

    @property
    def seen(self) -> int:
        """How many GPUs answered at the last reading, or are left alone since; none where the driver failed whole."""
        if self._fails:
            return 0
        found = list(self._devices.gpus.values())
        readings = [one.reading for one in found if one.reading is not None]
        return sum(reading.rows[0]["up"] is True for reading in readings) + sum(one.quiet for one in found)

    def processes(self) -> list[GpuProcess]:
        """Return who held which GPU when that was last said: a GPU that hangs, or is lost, is still held."""
        return [process for one in list(self._devices.gpus.values()) for process in one.processes]

    def holding(self) -> Holding:
        """Return who holds which GPU as the last reading said it, and of which GPUs it said it."""
        return merged_holdings(one.holding for one in list(self._devices.gpus.values()))

    def devices(self) -> list[Device]:
        """Return how each GPU and MIG instance is named, at the last reading."""
        return [device for one in list(self._devices.gpus.values()) for device in one.gpu.devices()]

    def xids(self) -> Mapping[str, Mapping[str, int]]:
        """Return by GPU how many XID errors of each class were heard. May be called from any thread."""
        return self._context.xid.by_class()

    def unreadable(self) -> Mapping[str, str]:
        """Return which answers of the driver cannot be read now, by GPU and question, and why."""
        return {f"{gpu}: {question}": why for (gpu, question), why in sorted(self.failures.unreadable.items())}

    def supported(self) -> Sequence[Supported]:
        """Return what each GPU tells, and why not. Asks the driver nothing, and may be called from any thread."""
        found: list[Supported] = []
        for uuid, one in list(self._devices.gpus.items()):
            if one.gpu.lost:
                found += nothing(uuid, "the GPU is lost: it is not responding to the driver")
            elif one.quiet:
                found += nothing(uuid, "the GPU is not read, at its holder's request")
            else:
                found += nothing(uuid, "a driver call is hung") if one.hung else of_gpu(one.gpu)
        for name, why in self._devices.unlisted.items():
            found += nothing(name, _UNLISTED[why] + self._devices.at(name))
        return found

    def read(self) -> Reading:
        """Return gpu_samples for every GPU and MIG instance, and inventory where something is new.

        Raises:
            SourceError: the driver does not answer at all.
            DriverChangedError: the driver was replaced under this process; only a new process can load the new one.
        """
        try:
            reading = self._read()
        except SourceError:
            self._fails = True
            for one in self._devices.gpus.values():
                one.reading = None
            raise
        self._fails = False
        return reading

    def _read(self) -> Reading:
        began, now = time.monotonic(), self._context.seconds()
        budget = _OPENING_SECONDS if self._last_read is None else self._budget
        listed = self._devices.begin(budget / 4)
        seconds = None if self._last_read is None else now - self._last_read
        self._warn_of_long_beats(seconds)
        lost, hung = self.lost, self._hung()
        quiet = self._quiet()
        self._context.pcie.leave_alone(quiet)
        ask_all(self._devices.gpus.values(), seconds, began + budget - time.monotonic(), quiet)
        self._last_read = now
        if not listed:
            self._devices.finish(began + budget - time.monotonic())
        self._note_hangs(self._hung() - hung)
        if self.lost != lost:
            self._devices.look_again()
        return self._reading(is_first=seconds is None)

    def close(self) -> None:
        """End the threads and give the driver its memory back; what hangs in the driver is left behind."""
        self._devices.keep_energy()
        self._context.pcie.close()
        self._context.xid.close()
        self._devices.close()
        if not self._hung():
            close_library()

    def _reading(self, *, is_first: bool) -> Reading:
        told = [one.reading.facts for one in self._devices.gpus.values() if one.reading is not None]
        changed = self._devices.settle(fact for facts in told for fact in facts)
        found = list(self._devices.gpus.values())
        rows: list[Row] = [row for one in found for row in self._with_xids(one.gpu, one.reading, is_first)]
        silent = self._devices.unlisted.items()
        rows += [{"gpu_uuid": name, "up": False if why == "lost" else None} for name, why in silent if why != "hangs"]
        return {"gpu_samples": rows, "inventory": changed} if changed else {"gpu_samples": rows}

    def _with_xids(self, gpu: Gpu, reading: GpuReading | None, is_first: bool) -> Sequence[Row]:
        """Add the XID errors, which come from a watch of their own; of a lost or silent GPU only where there were some.

        What is wrong with a GPU that hangs must not wait until it answers. A first reading measures no interval and is
        told to nobody: its errors are those of the next one too.
        """
        xids = self._context.xid.take(gpu.uuid, keep=is_first)
        if xids.count:
            gpu.instruments.look_soon()
        elif gpu.lost or reading is None:
            return reading.rows if reading is not None else ()
        told: Row = {
            "xid_events": xids.count,
            "xid_last": xids.last,
            "xid_numbers": ",".join(map(str, xids.numbers)) or None,
            "xid_last_timestamp_seconds": xids.last_seconds,
        }
        rows: Sequence[Row] = reading.rows if reading is not None else ({"gpu_uuid": gpu.uuid, "up": None},)
        return [{**rows[0], **told}, *rows[1:]]

    def _hung(self) -> set[str]:
        return {uuid for uuid, one in self._devices.gpus.items() if one.hung}

    def _note_hangs(self, new: Collection[str]) -> None:
        for uuid in sorted(new):
            self.failures["reading is hung"] += 1
            _LOG.warning("%s", self._devices.gpus[uuid].hung)

    def _warn_of_long_beats(self, seconds: float | None) -> None:
        if seconds is None or seconds <= _REACH_SECONDS or self._warned:
            return
        self._warned = True
        _LOG.warning(
            "GPUs are read every %.0f s, but the driver keeps only about %.0f s: earlier samples are lost; "
            "set beat_seconds to 10 s or less",
            seconds,
            _REACH_SECONDS,
        )


def open_nvml(made: Callable[[], NvmlSource]) -> tuple[NvmlSource | None, str]:
    """Open the driver and return the source that is `made` of it; or None and why there is none, in words.

    Raises:
        DriverChangedError: the library and the loaded driver do not fit.
    """
    reason = open_library()
    return (made(), "") if reason is None else (None, reason)


# A host whose driver is not there yet, or hangs when it is opened: the agent reads it once it answers.
#
# A GPU that is ill can keep the first call into the driver for ever. So it is made on a thread of its own, as every
# other: the rest of the host is read meanwhile, and an order to end is obeyed.
_TRY_AGAIN_SECONDS = 60.0
_OPENING_DRIVER_SECONDS = 20.0  # a host whose driver rests wakes its GPUs one after another
_HANGS = "the NVIDIA driver is not responding: opening it is hung"


class WaitingNvml:
    """The GPU source from the moment its driver can be opened; before that it reads nothing, which is no failure.
    While opening it hangs, so does a reading.

    `no_gpu` is why there was no driver at the start, in words; empty where there was. `expected` is how many GPUs this
    host should have, as far as that is known without a driver.

    Raises:
        DriverChangedError: the library and the loaded driver do not fit.
    """

    name = "gpu"
    period_seconds = 0.0

    def __init__(
        self,
        try_to_open: Callable[[], tuple[NvmlSource | None, str]],
        seconds: Callable[[], float] = time.monotonic,
        opening_seconds: float = _OPENING_DRIVER_SECONDS,
        expected: Callable[[], int] = lambda: 0,
    ) -> None:
        self._expected = expected
        self._seconds = seconds
        self._source: NvmlSource | None = None
        self._opener = WatchdogThread("the NVIDIA driver", try_to_open)
        self._opening = True
        self._opener.begin()
        self.no_gpu = self._opened() if self._opener.ready(opening_seconds) else _HANGS
        self._tried = seconds()

    def read(self) -> Reading:
        """Return what the GPUs say, nothing while there is no driver.

        Raises:
            SourceError: the driver does not answer.
            DriverChangedError: the library and the loaded driver do not fit.
        """
        if self._source is None and (self._opening or self._seconds() - self._tried >= _TRY_AGAIN_SECONDS):
            self._open_again()
        return {} if self._source is None else self._source.read()

    def processes(self) -> Sequence[GpuProcess]:
        """Return who held which GPU when that was last said."""
        return self._source.processes() if self._source else []

    def holding(self) -> Holding | None:
        """Return who holds which GPU as the last reading said it; None while no GPU has been read yet.

        A driver that cannot be opened says nothing of anybody.
        """
        if self._source is None:
            return None if self._opening else Holding()
        return self._source.holding() if self._source.was_read else None

    def devices(self) -> Sequence[Device]:
        """Return how each GPU and MIG instance is named."""
        return self._source.devices() if self._source else []

    def xids(self) -> Mapping[str, Mapping[str, int]]:
        """Return by GPU how many XID errors of each class were heard; nothing without a driver."""
        return self._source.xids() if self._source else {}

    def unreadable(self) -> Mapping[str, str]:
        """Return which answers of the driver cannot be read now; nothing without a driver."""
        return self._source.unreadable() if self._source else {}

    def supported(self) -> Sequence[Supported]:
        """Return what each GPU tells, and why not."""
        return self._source.supported() if self._source else []

    @property
    def counts(self) -> tuple[int, int] | None:
        """How many GPUs are expected and seen; None where there is no driver, and nobody knows of a GPU."""
        if self._source is not None:
            return self._source.expected, self._source.seen
        expected = self._expected()
        return (expected, 0) if expected else None

    def close(self) -> None:
        """Give the driver back, where there is one."""
        self._opener.close()
        if self._source is not None:
            self._source.close()

    def _open_again(self) -> None:
        self._tried = self._seconds()
        if not self._opening:
            self._opening = True
            self._opener.begin()
        self._opened()  # the same refusal as before is no news
        if self._source is not None:
            _LOG.info("the NVIDIA driver is available now: reading its GPUs")

    def _opened(self) -> str:
        """Wait until the driver was opened or refused, and return why there is none, in words."""
        while not self._opener.ready(_TRY_AGAIN_SECONDS):
            pass  # who reads this source has long gone on without it
        self._opening = False
        self._source, why = self._opener.answer(0)
        return why


def open_nvidia(host: GpuHost, *, alone: bool = False) -> GpuSource:
    """Return the source of this host's GPUs, whether their driver answers yet or not.

    `alone` is whether one command is watched: that goes on without its GPUs where the library does not fit the driver.

    Raises:
        DriverChangedError: the GPU library and the loaded driver do not fit.
    """

    def opened() -> tuple[NvmlSource | None, str]:
        try:
            return open_nvml(lambda: NvmlSource(host))
        except DriverChangedError as error:
            if alone:
                return None, str(error)
            raise

    def expected() -> int:
        return max(host.expected_gpus, len(host.state_file.section(SECTION)), len(kernels_gpus(host.proc)))

    return WaitingNvml(opened, expected=expected)
