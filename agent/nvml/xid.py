"""Count XID errors: the driver tells them as events, which a thread of its own waits for."""

import ctypes
import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pynvml

WAIT_MILLISECONDS = 200


class XidWatch:
    """Waits for the XID errors of a set of GPUs and counts them until they are taken."""

    def __init__(self, failures: Counter[str]) -> None:
        self._failures = failures
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
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
        events, told = _register(handles, self._failures)
        with self._lock:
            self._counts = {uuid: self._counts.get(uuid, 0) for uuid in told}
            self._deaf = False
        if events is not None:
            names = {addresses[uuid]: uuid for uuid in told}
            arguments = (events, names, self._stop)
            self._thread = threading.Thread(target=self._run, args=arguments, name="gpuledger-xid", daemon=True)
            self._thread.start()

    def take(self, uuid: str) -> int | None:
        """Return how many XID errors this GPU had since the last call, or None where nobody hears them."""
        with self._lock:
            count = self._counts.get(uuid)
            if count:
                self._counts[uuid] = 0
            return None if self._deaf and not count else count

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
            uuid = names.get(_address(event.device))
            with self._lock:
                if uuid in self._counts and not stop.is_set():
                    self._counts[uuid] += 1
        _free(events)


def _register(handles: Mapping[str, Any], failures: Counter[str]) -> tuple[object | None, list[str]]:
    """Return an event set and the GPUs that tell their XID errors to it; no set where there are none."""
    try:
        events = pynvml.nvmlEventSetCreate()
    except pynvml.NVMLError:
        failures["nvmlEventSetCreate"] += 1
        return None, []
    told = []
    for uuid, handle in handles.items():
        try:
            if pynvml.nvmlDeviceGetSupportedEventTypes(handle) & pynvml.nvmlEventTypeXidCriticalError:
                pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, events)
                told.append(uuid)
        except pynvml.NVMLError as error:
            failures["nvmlDeviceRegisterEvents"] += error.value != pynvml.NVML_ERROR_NOT_SUPPORTED
    if told:
        return events, told
    _free(events)
    return None, []


def _free(events: object) -> None:
    try:
        pynvml.nvmlEventSetFree(events)
    except pynvml.NVMLError:
        return  # the library was closed first


def _address(handle: Any) -> int:  # noqa: ANN401  # an opaque pointer of the binding
    """Return what identifies a device: the driver's events carry its pointer, not its UUID."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
