"""Count XID errors: the driver tells them as events, which a thread of its own waits for."""

import ctypes
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pynvml

from agent.nvml.calls import in_words
from agent.nvml.xid_class import CLASSES, xid_class

WAIT_MILLISECONDS = 200


@dataclass(frozen=True, slots=True)
class Xids:
    """XID errors of one GPU since they were last taken; None where nobody hears them.

    `last` is the number of the newest of them, None where there was none; `last_seconds` when the newest that was ever
    heard came, in seconds since 1970.
    """

    count: int | None = None
    last: int | None = None
    last_seconds: float | None = None


class _Ear:
    """What is heard of one GPU."""

    def __init__(self) -> None:
        self.count = 0
        self.last: int | None = None
        self.last_seconds: float | None = None
        self.by_class: dict[str, int] = dict.fromkeys(CLASSES, 0)  # since the agent began

    def hear(self, number: int, seconds: float) -> None:
        """Count one error."""
        self.count, self.last, self.last_seconds = self.count + 1, number, seconds
        self.by_class[xid_class(number)] += 1


class XidWatch:
    """Waits for the XID errors of a set of GPUs and counts them until they are taken."""

    def __init__(self, failures: Counter[str], wall_seconds: Callable[[], float]) -> None:
        self._failures = failures
        self._wall_seconds = wall_seconds
        self._lock = threading.Lock()
        self._ears: dict[str, _Ear] = {}
        self._refusals: dict[str, str] = {}
        self._followed: dict[str, int] = {}
        self._deaf = False
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def follow(self, handles: Mapping[str, Any]) -> None:
        """Follow these GPUs, by UUID, from now on; also again, where waiting had failed.

        A GPU whose driver tells no XID errors stays unknown.
        """
        addresses = {uuid: _address(handle) for uuid, handle in handles.items()}
        if addresses == self._followed and not self._deaf:
            return
        self._stop.set()  # the old thread ends by itself, and what it still hears is not counted
        self._followed, self._stop, self._thread = addresses, threading.Event(), None
        events, refusals = _register(handles, self._failures)
        told = [uuid for uuid in handles if uuid not in refusals]
        with self._lock:
            self._ears = {uuid: self._ears.get(uuid) or _Ear() for uuid in told}
            self._refusals = refusals
            self._deaf = False
        if events is not None:
            names = {addresses[uuid]: uuid for uuid in told}
            arguments = (events, names, self._stop)
            self._thread = threading.Thread(target=self._run, args=arguments, name="gpuledger-xid", daemon=True)
            self._thread.start()

    def take(self, uuid: str) -> Xids:
        """Return what this GPU had since the last call."""
        with self._lock:
            ear = self._ears.get(uuid)
            if ear is None:
                return Xids()
            heard = Xids(None if self._deaf and not ear.count else ear.count, ear.last, ear.last_seconds)
            ear.count, ear.last = 0, None
            return heard

    def by_class(self) -> dict[str, dict[str, int]]:
        """Return by UUID how many errors of each class were heard since the agent began."""
        with self._lock:
            return {uuid: dict(ear.by_class) for uuid, ear in self._ears.items()}

    def refusal(self, uuid: str) -> str | None:
        """Return why nobody hears this GPU's errors, in words; None where somebody does."""
        with self._lock:
            if uuid in self._ears:
                return "the driver stopped telling events; it is asked again" if self._deaf else None
            return self._refusals.get(uuid, "the driver is not yet asked")

    def close(self) -> None:
        """End the thread; it stops within one wait."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=2 * WAIT_MILLISECONDS / 1000)

    def _run(self, events: object, names: Mapping[int, str], stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                event = pynvml.nvmlEventSetWait_v2(events, WAIT_MILLISECONDS)
            except pynvml.NVMLError as error:
                if error.value == pynvml.NVML_ERROR_TIMEOUT:
                    continue
                self._failures["nvmlEventSetWait_v2"] += 1
                with self._lock:
                    self._deaf = self._deaf or not stop.is_set()
                break  # a lost GPU or a reloaded driver makes every wait fail: the next `follow` begins anew
            with self._lock:
                ear = self._ears.get(names.get(_address(event.device), ""))
                if ear is not None and not stop.is_set():
                    ear.hear(int(event.eventData), self._wall_seconds())
        _free(events)


def _register(handles: Mapping[str, Any], failures: Counter[str]) -> tuple[object | None, dict[str, str]]:
    """Return an event set for the GPUs that tell it their XID errors, if any, and why the others do not, in words."""
    try:
        events = pynvml.nvmlEventSetCreate()
    except pynvml.NVMLError as error:
        failures["nvmlEventSetCreate"] += 1
        return None, dict.fromkeys(handles, in_words(error.value))
    refusals = {uuid: why for uuid, handle in handles.items() if (why := _refusal(handle, events, failures))}
    if len(refusals) < len(handles):
        return events, refusals
    _free(events)
    return None, refusals


def _refusal(handle: object, events: object, failures: Counter[str]) -> str | None:
    try:
        if not pynvml.nvmlDeviceGetSupportedEventTypes(handle) & pynvml.nvmlEventTypeXidCriticalError:
            return in_words(pynvml.NVML_ERROR_NOT_SUPPORTED)
        pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, events)
    except pynvml.NVMLError as error:
        failures["nvmlDeviceRegisterEvents"] += error.value != pynvml.NVML_ERROR_NOT_SUPPORTED
        return in_words(error.value)
    return None


def _free(events: object) -> None:
    try:
        pynvml.nvmlEventSetFree(events)
    except pynvml.NVMLError:
        return  # the library was closed first


def _address(handle: Any) -> int:  # noqa: ANN401  # an opaque pointer of the binding
    """Return what identifies a device: the driver's events carry its pointer, not its UUID."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
