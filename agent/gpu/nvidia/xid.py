"""XID errors: whose fault each is, and how many there were. The driver tells them as events."""

import contextlib
import ctypes
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import pynvml

from agent.errors import SourceHungError
from agent.gpu.nvidia.calls import Again, in_words
from agent.watchdog_thread import WatchdogThread

# Whose fault an XID error is: the program's own, the hardware's, or neither for sure.
#
# Sources: NVIDIA, Xid Errors (catalog; what is met by restarting the application, by a reset, by a new board),
# https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html; which of them leave the GPU healthy: NVIDIA,
# k8s-device-plugin, internal/rm/health.go (application errors).
_XidClass = Literal["hardware", "program", "other"]
CLASSES: tuple[_XidClass, ...] = get_args(_XidClass)

# Kernel exception, page fault, stopped channel, clean-up after another error, video processor, context switch.
PROGRAM = frozenset((13, 31, 43, 45, 68, 109))
# Memory (48, 63, 64, 94, 95), NVLink (74), off the bus (79): what the analyzer's notices call hardware as well.
HARDWARE = frozenset((48, 63, 64, 74, 79, 94, 95))


def xid_class(number: int) -> _XidClass:
    """Return the class of an XID error; what neither list has (the driver, its firmware, what is new) is other."""
    if number in HARDWARE:
        return "hardware"
    return "program" if number in PROGRAM else "other"


# Count XID errors: the driver tells them as events, which a thread of its own waits for.
_WAIT_MILLISECONDS = 200
_ASKING_SECONDS = 1.0  # for all GPUs to say whether they tell events
_HANGS = "a driver call is hung"
MOST_NUMBERS = 64  # of one GPU and one reading that are told apart; those of hardware always


@dataclass(frozen=True, slots=True)
class Xids:
    """XID errors of one GPU since they were last taken; None where nobody hears them.

    `last` is the number of the newest of them, None where there was none; `numbers` are those of all, each once, in the
    order in which they came: a clean-up error follows the one that it is about. `last_seconds` is when the newest that
    was ever heard came, in seconds since 1970.
    """

    count: int | None = None
    last: int | None = None
    numbers: tuple[int, ...] = ()
    last_seconds: float | None = None


class Ear:
    """What is heard of one GPU."""

    def __init__(self) -> None:
        self.count = 0
        self.numbers: dict[int, None] = {}
        self.last: int | None = None
        self.last_seconds: float | None = None
        self.by_class: dict[str, int] = dict.fromkeys(CLASSES, 0)  # since the agent began

    def hear(self, number: int, seconds: float) -> None:
        """Count one error."""
        self.count, self.last, self.last_seconds = self.count + 1, number, seconds
        kind = xid_class(number)
        self.by_class[kind] += 1
        if len(self.numbers) < MOST_NUMBERS or kind == "hardware":
            self.numbers[number] = None

    def take(self, is_heard: bool, *, keep: bool = False) -> Xids:
        """Return what was heard since the last call; no number of them where nobody listens and nothing was heard."""
        heard = self.count if is_heard or self.count else None
        taken = Xids(heard, self.last, tuple(self.numbers), self.last_seconds)
        if keep:
            return taken
        self.count, self.last, self.numbers = 0, None, {}
        return taken


class XidWatch:
    """Waits for the XID errors of a set of GPUs and counts them until they are taken.

    A GPU that is followed no longer, since it is lost, may still be heard; what it told before that is told.
    """

    def __init__(
        self, failures: Counter[str], wall_seconds: Callable[[], float], seconds: Callable[[], float] = time.monotonic
    ) -> None:
        self._failures = failures
        self._wall_seconds = wall_seconds
        self._again = Again(seconds)
        self._lock = threading.Lock()
        self._ears: dict[str, Ear] = {}
        self._refusals: dict[str, str] = {}
        self._followed: dict[str, int] = {}
        self._heard: dict[int, str] = {}  # by address, as the events of the present set bear it
        self._events: _Events | None = None
        self._hanging: dict[str, WatchdogThread[str | None]] = {}  # GPUs whose question for events has no answer yet
        self._deaf = False
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def follow(self, handles: Mapping[str, Any]) -> None:
        """Follow these GPUs, by UUID, from now on; also again, where waiting had failed.

        A GPU whose driver tells no XID errors stays unknown; it is asked again, rarely.
        """
        addresses = {uuid: _address(handle) for uuid, handle in handles.items()}
        before, self._followed = self._followed, addresses
        came = {uuid for uuid, address in addresses.items() if before.get(uuid) != address}
        due = {uuid for uuid in addresses.keys() & self._refusals.keys() if self._again.is_due(uuid)}
        if self._deaf:
            self._leave()
            self._ask(handles)
        elif came or due:  # one that came back after a reset too; what others told meanwhile is still heard
            self._ask({uuid: handles[uuid] for uuid in came | due})

    def _leave(self) -> None:
        """Leave the set of events with which every wait fails; its thread ends by itself."""
        self._stop.set()
        with self._lock:
            self._stop, self._thread, self._events = threading.Event(), None, None
            self._heard, self._refusals, self._deaf = {}, {}, False

    def _ask(self, handles: Mapping[str, Any]) -> None:
        """Let the driver tell the events of these GPUs too, and note why it does not, in words."""
        events, new = self._events, self._events is None
        if events is None:
            events = _event_set(self._failures)
        none: dict[str, str | None] = dict.fromkeys(handles, "the driver reports no events")
        refusals = none if events is None else self._put(handles, events)
        told = [uuid for uuid, why in refusals.items() if why is None]
        with self._lock:
            self._ears.update({uuid: Ear() for uuid in told if uuid not in self._ears})
            for address in [address for address, uuid in self._heard.items() if uuid in handles]:
                del self._heard[address]
            self._heard.update((_address(handles[uuid]), uuid) for uuid in told)
            for uuid, why in refusals.items():
                self._note(uuid, why)
        if new and events is not None and told:
            self._events = events
            arguments = (events, self._heard, self._stop)
            self._thread = threading.Thread(target=self._run, args=arguments, name="gpuledger-xid", daemon=True)
            self._thread.start()
        elif new and events is not None:
            events.free()

    def _put(self, handles: Mapping[str, Any], events: "_Events") -> dict[str, str | None]:
        """Ask each GPU on a thread of its own, so that one that hangs stops no other, and return why it refuses."""
        began, found = time.monotonic(), dict[str, str | None]()
        askers: dict[str, WatchdogThread[str | None]] = {}
        for uuid, handle in handles.items():
            if uuid in self._hanging and not self._hanging[uuid].has_late:
                found[uuid] = _HANGS
                continue
            self._hanging.pop(uuid, None)
            question = partial(_refusal, handle, events.handle, self._failures)
            askers[uuid] = asker = WatchdogThread(f"the question for events to {uuid}", question)
            asker.begin()
            asker.ready(began + _ASKING_SECONDS / 2 - time.monotonic())
        for uuid, asker in askers.items():
            try:
                found[uuid] = asker.answer(began + _ASKING_SECONDS - time.monotonic())
            except SourceHungError:
                found[uuid], self._hanging[uuid], events.is_in_use = _HANGS, asker, True
            asker.close()
        return found

    def _note(self, uuid: str, why: str | None) -> None:
        if why is None:
            self._refusals.pop(uuid, None)
            self._again.forget(uuid)
        else:
            self._refusals[uuid] = why
            self._again.refuse(uuid)

    def take(self, uuid: str, *, keep: bool = False) -> Xids:
        """Return what this GPU had since the last call, which the next call returns too where it is to `keep`."""
        with self._lock:
            ear = self._ears.get(uuid)
            return Xids() if ear is None else ear.take(not self._deaf and uuid in self._heard.values(), keep=keep)

    def by_class(self) -> dict[str, dict[str, int]]:
        """Return by UUID how many errors of each class were heard since the agent began."""
        with self._lock:
            return {uuid: dict(ear.by_class) for uuid, ear in self._ears.items()}

    def refusal(self, uuid: str) -> str | None:
        """Return why nobody hears this GPU's errors, in words; None where somebody does."""
        with self._lock:
            if uuid in self._heard.values():
                return "the driver stopped reporting events; subscribing again" if self._deaf else None
            return self._refusals.get(uuid, "not yet subscribed to the driver")

    def close(self) -> None:
        """End the thread; it stops within one wait."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=2 * _WAIT_MILLISECONDS / 1000)

    def _run(self, events: "_Events", names: Mapping[int, str], stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                event = pynvml.nvmlEventSetWait_v2(events.handle, _WAIT_MILLISECONDS)
            except pynvml.NVMLError as error:
                if error.value == pynvml.NVML_ERROR_TIMEOUT:
                    continue
                self._failures["nvmlEventSetWait_v2"] += 1
                with self._lock:
                    self._deaf = self._deaf or not stop.is_set()
                break  # a lost GPU or a reloaded driver makes every wait fail: the next `follow` begins anew
            with self._lock:
                ear = self._ears.get(names.get(_address(event.device), ""))  # of this set, not of one begun meanwhile
                if ear is not None and not stop.is_set():
                    ear.hear(int(event.eventData), self._wall_seconds())
        events.free()


@dataclass(slots=True)
class _Events:
    """A set of events. One that a question hangs with may be used by the driver at any time: it is not given back."""

    handle: Any
    is_in_use: bool = False

    def free(self) -> None:
        """Give it back to the driver."""
        with contextlib.suppress(pynvml.NVMLError):  # the library was closed first
            if not self.is_in_use:
                pynvml.nvmlEventSetFree(self.handle)


def _event_set(failures: Counter[str]) -> _Events | None:
    try:
        return _Events(pynvml.nvmlEventSetCreate())
    except pynvml.NVMLError:
        failures["nvmlEventSetCreate"] += 1
        return None


def _refusal(handle: object, events: object, failures: Counter[str]) -> str | None:
    """Return why a GPU does not tell its XID errors to this set of events, in words; None where it does."""
    try:
        if not pynvml.nvmlDeviceGetSupportedEventTypes(handle) & pynvml.nvmlEventTypeXidCriticalError:
            return in_words(pynvml.NVML_ERROR_NOT_SUPPORTED)
        pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, events)
    except pynvml.NVMLError as error:
        failures["nvmlDeviceRegisterEvents"] += error.value != pynvml.NVML_ERROR_NOT_SUPPORTED
        return in_words(error.value)
    return None


def _address(handle: Any) -> int:  # noqa: ANN401  # an opaque pointer of the binding
    """Return what identifies a device: the driver's events carry its pointer, not its UUID."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
