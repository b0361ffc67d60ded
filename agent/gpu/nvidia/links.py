"""What goes over the links of a GPU, PCIe and NVLink, and what they could carry."""

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import pynvml

from agent.errors import DriverChangedError, SourceLostError
from agent.gpu.nvidia.calls import (
    ALL_LINKS,
    BYTES_PER_KILOBYTE,
    LINK_COUNT,
    NVLINK_RECEIVE,
    NVLINK_TRANSMIT,
    Calls,
    Failures,
    Field,
    Fields,
    Meter,
)
from agent.source import Value
from agent.wire.units import KIB


class PcieLink:
    """Generation and width, asked for now and then, and again when the GPU begins or ceases to work.

    An idle link trains down to a lower generation to save power and up again under load: a generation below the most
    is a fact only while the GPU works, so that one read while idle must not be repeated then. A width is always one.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._busy = False
        self._most: Mapping[str, Value] = {}
        self._now: Mapping[str, Value] = {}

    def look(self, handle: object) -> None:
        """Ask the driver; exceptions as `Calls.ask`."""
        ask = self._calls.ask
        self._most = {
            "pcie_generation_max": ask(pynvml.nvmlDeviceGetMaxPcieLinkGeneration, handle),
            "pcie_width_max": ask(pynvml.nvmlDeviceGetMaxPcieLinkWidth, handle),
        }
        self._look_now(handle)

    def read(self, handle: object, utilization: float | None) -> Mapping[str, Value]:
        """Return the columns of the link; exceptions as `Calls.ask`."""
        busy = bool(utilization)
        if busy != self._busy:
            self._busy = busy
            self._look_now(handle)
        return {**self._most, **self._now}

    def _look_now(self, handle: object) -> None:
        ask = self._calls.ask
        self._now = {
            "pcie_generation": ask(pynvml.nvmlDeviceGetCurrPcieLinkGeneration, handle),
            "pcie_width": ask(pynvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
        }


# NVLink traffic from the driver's counters, in whichever form this architecture has them.
#
# Up to Hopper fields 138 and 139 count KiB over all links. Blackwell has fields 202 and 204 instead, in bytes, for each
# link, and in newer drivers summed over the links too. Without any of them GPM tells rates.
_RECEIVED = pynvml.NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES
_TRANSMITTED = pynvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES
_MOST_LINKS = int(pynvml.NVML_NVLINK_MAX_LINKS)


@dataclass(frozen=True, slots=True)
class Form:
    """Which fields hold the traffic, to be added up, and the bytes of their unit."""

    receive: Sequence[Field]
    transmit: Sequence[Field]
    unit: int

    @property
    def fields(self) -> tuple[Field, ...]:
        """All of them."""
        return (*self.receive, *self.transmit)


_KIBIBYTES = Form((NVLINK_RECEIVE,), (NVLINK_TRANSMIT,), KIB)
_BYTES = Form(((_RECEIVED, ALL_LINKS),), ((_TRANSMITTED, ALL_LINKS),), 1)


def _each_link(count: int) -> Form:
    """Return the form of so many links, each counted by itself, in bytes."""
    links = range(min(count, _MOST_LINKS))
    return Form([(_RECEIVED, link) for link in links], [(_TRANSMITTED, link) for link in links], 1)


class NvLink:
    """Follows the counters of one GPU, in the first form that its driver knows."""

    def __init__(self, fields: Fields) -> None:
        self._fields = fields
        self._form = _KIBIBYTES
        self._known = False
        self._meters: dict[Field, Meter] = {}

    @property
    def refusal(self) -> str | None:
        """Why there are no counters, in words; None where there are."""
        return None if self._known else self._fields.refusal(NVLINK_RECEIVE)

    def read(self, values: Mapping[Field, int]) -> Mapping[str, int | None]:
        """Return the bytes of the interval by column; no column where the counters have no value now."""
        form = self._form
        if not any(field in values for field in form.fields):
            self._meters.clear()
            return {}
        self._known = True
        return {
            "nvlink_receive_bytes": self._sum(form.receive, values, form.unit),
            "nvlink_transmit_bytes": self._sum(form.transmit, values, form.unit),
        }

    def look(self, calls: Calls, handle: object) -> None:
        """Where the driver refused this form, look for another that it answers; exceptions as `Calls.ask`."""
        if self._known or not all(self._fields.refusal(field) for field in self._form.fields):
            return
        form = _answered(_BYTES, calls, handle)
        if not form.fields:
            links = Fields(calls, (LINK_COUNT,)).read(handle).get(LINK_COUNT, _MOST_LINKS)
            form = _answered(_each_link(links), calls, handle)
        if form.fields:
            self._form = form
            self._fields.want(form.fields)

    def _sum(self, fields: Sequence[Field], values: Mapping[Field, int], unit: int) -> int | None:
        """Return the growth over the links that count, in bytes; unknown where that of one is."""
        counting = [field for field in fields if field in values or self._still_counts(field)]
        amounts = [self._meters.setdefault(field, Meter()).amount(values.get(field)) for field in counting]
        known = [amount for amount in amounts if amount is not None]
        return sum(known) * unit if amounts and len(known) == len(amounts) else None

    def _still_counts(self, field: Field) -> bool:
        return field in self._meters and self._fields.wants(field)


def _answered(form: Form, calls: Calls, handle: object) -> Form:
    """Return what the driver answers of a form."""
    found = Fields(calls, form.fields).read(handle)
    receive, transmit = ([field for field in half if field in found] for half in (form.receive, form.transmit))
    return Form(receive, transmit, form.unit)


# PCIe traffic of GPUs without GPM, measured on slow threads: each question blocks for 20 ms.
PAUSE_SECONDS = 2.0  # between two measurements of a GPU: the driver is asked for 2% of the time
_UNSUPPORTED_PAUSE_SECONDS = 30.0  # of a GPU that has no such counter; it is asked again rarely
_STALE_SECONDS = 15.0  # after which the newest rate no longer speaks for now


class _Mean:
    """The mean of the rates since it was last taken, else the newest one; None before the first and once stale."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._sum = 0.0
        self._count = 0
        self._newest: float | None = None
        self._measured = 0.0

    def add(self, rate: float | None) -> None:
        self._newest, self._measured = rate, self._seconds()
        if rate is not None:
            self._sum, self._count = self._sum + rate, self._count + 1

    def take(self) -> float | None:
        fresh = self._seconds() - self._measured < _STALE_SECONDS
        mean = self._sum / self._count if self._count else self._newest
        self._sum, self._count = 0.0, 0
        return mean if fresh else None


class _Follower:
    """Measures one GPU on a thread of its own, so that one that hangs keeps no other waiting."""

    def __init__(self, uuid: str, handle: object, failures: Failures, pause_seconds: float) -> None:
        self.handle = handle
        self.received, self.transmitted = _Mean(time.monotonic), _Mean(time.monotonic)
        self.calls = Calls(uuid, failures)
        self.lock = threading.Lock()
        self.stop = threading.Event()
        self.quiet = False
        self._pause_seconds = pause_seconds
        self.thread = threading.Thread(target=self._run, name="gpuledger-pcie", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while not self.stop.is_set():
            if self.quiet:
                self.stop.wait(self._pause_seconds)
                continue
            received = self._rate(pynvml.NVML_PCIE_UTIL_RX_BYTES)
            transmitted = self._rate(pynvml.NVML_PCIE_UTIL_TX_BYTES)
            with self.lock:
                self.received.add(received)
                self.transmitted.add(transmitted)
            is_supported = self.calls.supports(pynvml.nvmlDeviceGetPcieThroughput.__name__)
            self.stop.wait(self._pause_seconds if is_supported else _UNSUPPORTED_PAUSE_SECONDS)

    def _rate(self, direction: int) -> float | None:
        try:
            kilobytes = self.calls.ask(pynvml.nvmlDeviceGetPcieThroughput, self.handle, direction)
        except (SourceLostError, DriverChangedError):  # the beat sees the same and says so
            return None
        return None if kilobytes is None else float(kilobytes * BYTES_PER_KILOBYTE)


class PcieWatch:
    """Follows a set of GPUs. What it knows of a GPU is the mean rate of some 20 ms windows: an estimate."""

    def __init__(self, failures: Failures, pause_seconds: float = PAUSE_SECONDS) -> None:
        self._failures = failures
        self._pause_seconds = pause_seconds
        self._followers: dict[str, _Follower] = {}

    def follow(self, handles: Mapping[str, object]) -> None:
        """Follow these GPUs, by UUID, from now on, and no others."""
        known = self._followers
        self._followers = {uuid: self._follower(uuid, handle) for uuid, handle in handles.items()}
        for uuid in known.keys() - handles.keys():
            known[uuid].stop.set()

    def leave_alone(self, quiet: Collection[str]) -> None:
        """Do not question these GPUs, by UUID, until the next call."""
        for uuid, follower in self._followers.items():
            follower.quiet = uuid in quiet

    def take(self, uuid: str) -> tuple[float | None, float | None]:
        """Return the bytes per second received and transmitted by this GPU since the last call, None where unknown."""
        follower = self._followers.get(uuid)
        if follower is None:
            return None, None
        with follower.lock:
            return follower.received.take(), follower.transmitted.take()

    def refusal(self, uuid: str) -> str | None:
        """Return why this GPU is not measured, in words; None where it is."""
        follower = self._followers.get(uuid)
        return None if follower is None else follower.calls.refusal(pynvml.nvmlDeviceGetPcieThroughput.__name__)

    def close(self) -> None:
        """End the threads; each stops within one question."""
        for follower in self._followers.values():
            follower.stop.set()
        for follower in self._followers.values():
            follower.thread.join(timeout=0.2)

    def _follower(self, uuid: str, handle: object) -> _Follower:
        known = self._followers.get(uuid)
        if known is None:
            return _Follower(uuid, handle, self._failures, self._pause_seconds)
        known.handle = handle
        return known
