"""Ask the driver, one question or many numbered fields at once, and say what each of its refusals means."""

import contextlib
import logging
import math
import struct
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pynvml

from agent.errors import DriverChangedError, SourceError, SourceLostError

T = TypeVar("T")

_LOG = logging.getLogger(__name__)

# The answer will be the same until the driver or the MIG mode changes, as a rule: it is asked for again rarely.
NEVER = frozenset(
    (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
)
# The device cannot be used until somebody resets it or the host.
_AGAIN_SECONDS = 60.0  # before the first repetition of what is not supported; then twice as long each time
_SELDOM_SECONDS = 3600.0  # between two at most
_LOST = frozenset((pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED, pynvml.NVML_ERROR_GPU_NOT_FOUND))
# Nothing is wrong, there is merely nothing to say. The binding raises NVMLError(0) for an empty list.
_NOTHING_NEW = frozenset((pynvml.NVML_SUCCESS, pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_NO_DATA))
# The driver went away below an open library; it has to be opened again.
CLOSED = frozenset((pynvml.NVML_ERROR_UNINITIALIZED, pynvml.NVML_ERROR_DRIVER_NOT_LOADED))

_UNREADABLE = -1  # no code of the driver's: it answered, and the binding could make nothing of it

_WORDS = {
    _UNREADABLE: "the driver's answer cannot be read",
    pynvml.NVML_ERROR_NOT_SUPPORTED: "the driver reports not supported",
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: "this driver is too old to report it",
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH: "this driver is too old to report it",
    pynvml.NVML_ERROR_INVALID_ARGUMENT: "this driver does not support the query",
    pynvml.NVML_ERROR_NO_PERMISSION: "the driver does not permit it for this user",
}


class Again:
    """When to put a question again that the driver says it does not support.

    Some say so for a moment (a reset, a mode that changes): a metric must not be gone for it until the driver is loaded
    anew. So it is asked for after a minute, after two more, after four, and at last once an hour.
    """

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._due: dict[Hashable, tuple[float, float]] = {}  # when it is due, and the pause before that

    def refuse(self, question: Hashable) -> None:
        """Note that it was refused."""
        _, pause = self._due.get(question, (0.0, _AGAIN_SECONDS / 2))
        pause = min(2 * pause, _SELDOM_SECONDS)
        self._due[question] = (self._seconds() + pause, pause)

    def is_due(self, question: Hashable) -> bool:
        """Return whether it is worth asking now; what was never refused is."""
        due, _ = self._due.get(question, (0.0, 0.0))
        return question not in self._due or self._seconds() >= due

    def forget(self, question: Hashable) -> None:
        """Note that it was answered."""
        self._due.pop(question, None)


class Failures(Counter[str]):
    """How often each question failed, by its name, and in `unreadable` what cannot be read now, by GPU and question.

    A name that is not UTF-8 makes the binding raise in the middle of an answer: that costs this answer, and no other.
    """

    def __init__(self) -> None:
        super().__init__()
        self.unreadable: dict[tuple[str, str], str] = {}

    def note_unreadable(self, gpu: str, question: str, error: Exception) -> None:
        """Count an answer that could not be read, and log the first of its kind."""
        self[question] += 1
        if (gpu, question) not in self.unreadable:
            _LOG.warning("%s: the answer to %s cannot be read (%r); it counts as unknown", gpu, question, error)
        self.unreadable[gpu, question] = f"the driver's answer cannot be read ({error!r})"


class Calls:
    """The questions that one GPU answers. One that fails is repeated and counted; one it does not support rarely.

    Whatever puts them raises what `ask` does.
    """

    def __init__(self, uuid: str, failures: Failures, seconds: Callable[[], float] = time.monotonic) -> None:
        self.answered = 0
        self.again = Again(seconds)
        self._uuid = uuid
        self._failures = failures
        self._codes: dict[str, int] = {}  # the newest answer to each question; 0 where there was nothing new

    def supports(self, name: str) -> bool:
        """Return whether the driver does not say that it has no such thing."""
        return self._codes.get(name) not in NEVER

    def refusal(self, name: str) -> str | None:
        """Return why a question is not answered, in words; None where it is, or was never put."""
        code = self._codes.get(name, pynvml.NVML_SUCCESS)
        return None if code == pynvml.NVML_SUCCESS else in_words(code)

    def ask(self, call: Callable[..., T], *arguments: Any) -> T | None:  # noqa: ANN401  # the binding is untyped
        """Return the driver's answer, or None where it has none.

        Raises:
            SourceLostError: the GPU is gone until it is reset.
            DriverChangedError: the driver was replaced under this process.
        """
        return self.ask_as(call.__name__, call, *arguments)

    def ask_as(self, name: str, call: Callable[..., T], *arguments: Any) -> T | None:  # noqa: ANN401  # untyped
        """Ask under a name of its own, where one call answers several questions; otherwise as `ask`."""
        codes = self._codes
        if codes.get(name) in NEVER and not self.again.is_due(name):
            return None
        try:
            answer = call(*arguments)
        except pynvml.NVMLError as error:
            self.refused(name, error.value)
            return None
        except pynvml.NVMLLibraryMismatchError:  # a plain Exception: this driver is too old for the call
            codes[name] = pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
            self.again.refuse(name)
            return None
        except Exception as error:  # noqa: BLE001  whatever it is, it costs this question of this GPU alone
            codes[name] = _UNREADABLE
            self._failures.note_unreadable(self._uuid, name, error)
            return None
        if codes.get(name) in NEVER:
            self.again.forget(name)
        elif codes.get(name) == _UNREADABLE:
            self._failures.unreadable.pop((self._uuid, name), None)
        codes[name] = pynvml.NVML_SUCCESS
        self.answered += 1
        return answer

    def refused(self, name: str, code: int) -> None:
        """Note what a refusal means, from the driver's code; the same exceptions as `ask`."""
        if code in _LOST:
            why = f"{name}: {_spelled(code)}"
            raise SourceLostError(f"{self._uuid} is not responding to the driver ({why}); reset the GPU or the host")
        if code == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
            raise DriverChangedError(_CHANGED)
        self._codes[name] = pynvml.NVML_SUCCESS if code in _NOTHING_NEW else code
        if code in NEVER:
            self.again.refuse(name)
        elif code not in _NOTHING_NEW:
            self._failures[name] += 1


def in_words(code: int) -> str:
    """Return what the driver's refusal means to a person."""
    return _WORDS.get(code) or f"the driver returned: {_spelled(code)}"


def _spelled(code: int) -> str:
    """Return the driver's own words for a code, which may be no text either."""
    try:
        return str(pynvml.NVMLError(code))
    except UnicodeError:
        return f"NVML error {code}"


_CHANGED = (
    "the NVIDIA library and the loaded kernel driver have different versions: the driver was replaced; "
    "restart the agent; if that does not help, reload the driver or reboot"
)


def open_library() -> str | None:
    """Open the driver's library; return None where it is open, else why there is none, in words.

    Raises:
        DriverChangedError: the library and the loaded driver do not fit.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
            raise DriverChangedError(_CHANGED) from error
        if error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
            return "libnvidia-ml.so.1 is not installed"
        return _spelled(error.value)
    return None


def device_count() -> int:
    """Return how many GPUs the driver lists.

    Raises:
        SourceError: the driver does not answer; it was opened again if it had gone away.
        DriverChangedError: another driver answers.
    """
    try:
        return int(pynvml.nvmlDeviceGetCount())
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
            raise DriverChangedError(_CHANGED) from error
        if error.value in CLOSED:
            open_library()
        message = f"the NVIDIA driver does not list its GPUs ({_spelled(error.value)})"
        raise SourceError(f"{message}; check that it is loaded and that this user can open it") from error


def driver_version(failures: Failures) -> str | None:
    """Return the driver's version, or None where it does not say."""
    question = pynvml.nvmlSystemGetDriverVersion
    try:
        return str(question())
    except pynvml.NVMLError:
        return None
    except UnicodeError as error:
        failures.note_unreadable("the driver", question.__name__, error)
        return None


def close_library() -> None:
    """Give the library back; a driver that is already gone is no failure."""
    with contextlib.suppress(pynvml.NVMLError):
        pynvml.nvmlShutdown()


HERTZ_PER_MEGAHERTZ = 1_000_000
MILLIWATTS_PER_WATT = 1000
MILLIJOULES_PER_JOULE = 1000
NANOSECONDS_PER_SECOND = 1_000_000_000
BYTES_PER_KILOBYTE = 1000


class Meter:
    """A counter that only grows, read once a beat as the amount since the last beat.

    A counter that went back was reset: the interval is unknown, never negative. A beat without a value makes the next
    interval unknown too, since the amount would span two; a meter of rare events (`over_silence`) counts them then
    rather than never.
    """

    def __init__(self, over_silence: bool = False) -> None:
        self._last: int | None = None
        self._over_silence = over_silence

    def amount(self, value: int | None) -> int | None:
        """Return the growth since the last call, or None at the first value, after silence and after a reset."""
        if value is None:
            if not self._over_silence:
                self._last = None
            return None
        last, self._last = self._last, value
        return None if last is None or value < last else value - last


# Read many of the driver's numbered fields in one call.
Field = tuple[int, int]  # field and scope
_WHOLE = 0
_MODULE = 1
ALL_LINKS = 0xFFFFFFFF  # the sum over the links

POWER_FIELD: Field = (pynvml.NVML_FI_DEV_POWER_INSTANT, _WHOLE)  # milliwatts
MODULE_POWER_FIELD: Field = (pynvml.NVML_FI_DEV_POWER_INSTANT, _MODULE)
ENERGY_FIELD: Field = (pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, _WHOLE)  # millijoules
MEMORY_TEMPERATURE_FIELD: Field = (pynvml.NVML_FI_DEV_MEMORY_TEMP, _WHOLE)  # degrees Celsius
NVLINK_TRANSMIT: Field = (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, ALL_LINKS)  # KiB
NVLINK_RECEIVE: Field = (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, ALL_LINKS)

# Nanoseconds spent below the wanted clock, by cause.
THROTTLE_POWER: tuple[Field, ...] = ((pynvml.NVML_FI_DEV_PERF_POLICY_POWER, _WHOLE),)
THROTTLE_THERMAL: tuple[Field, ...] = (
    (pynvml.NVML_FI_DEV_PERF_POLICY_THERMAL, _WHOLE),
    (pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN, _WHOLE),
    (pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN, _WHOLE),
)
THROTTLE_HARDWARE: tuple[Field, ...] = (
    (pynvml.NVML_FI_DEV_PERF_POLICY_BOARD_LIMIT, _WHOLE),
    (pynvml.NVML_FI_DEV_PERF_POLICY_RELIABILITY, _WHOLE),
    (pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN, _WHOLE),
)
THROTTLE_SYNC_BOOST: tuple[Field, ...] = ((pynvml.NVML_FI_DEV_PERF_POLICY_SYNC_BOOST, _WHOLE),)
EVERY_BEAT: tuple[Field, ...] = (
    POWER_FIELD,
    ENERGY_FIELD,
    MEMORY_TEMPERATURE_FIELD,
    NVLINK_TRANSMIT,
    NVLINK_RECEIVE,
    *THROTTLE_POWER,
    *THROTTLE_THERMAL,
    *THROTTLE_HARDWARE,
    *THROTTLE_SYNC_BOOST,
)

LINK_COUNT: Field = (pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT, _WHOLE)
PCIE_REPLAYS: Field = (pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER, _WHOLE)
REMAPPED_CORRECTED: Field = (pynvml.NVML_FI_DEV_REMAPPED_COR, _WHOLE)
REMAPPED_UNCORRECTED: Field = (pynvml.NVML_FI_DEV_REMAPPED_UNC, _WHOLE)
REMAP_PENDING: Field = (pynvml.NVML_FI_DEV_REMAPPED_PENDING, _WHOLE)
REMAP_FAILURE: Field = (pynvml.NVML_FI_DEV_REMAPPED_FAILURE, _WHOLE)
RECOVERY_ACTION: Field = (pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, _WHOLE)
NOW_AND_THEN: tuple[Field, ...] = (
    PCIE_REPLAYS,
    REMAPPED_CORRECTED,
    REMAPPED_UNCORRECTED,
    REMAP_PENDING,
    REMAP_FAILURE,
    RECOVERY_ACTION,
)

# Of a field this one hardly changes either: a driver that does not know its number says so.
_UNKNOWN_FIELD = pynvml.NVML_ERROR_INVALID_ARGUMENT

# nvmlFieldValue_t: field, scope, time, latency, type of value, return code, and a union of eight bytes.
_ANSWER = struct.Struct("=IIqqIi8s")
# The member of the union, by nvmlValueType_t, which counts from 0: double, unsigned int, long, long long, …
_VALUES = tuple(struct.Struct(form) for form in ("=d", "=I4x", "=Q", "=Q", "=q", "=i4x", "=H6x"))


def decoded_fields(answers: bytes) -> Iterator[tuple[Field, int, int | None]]:
    """Yield field, the driver's return code and value of each answer; None for what is no number from 0 up."""
    for number, scope, _, _, kind, code, value in _ANSWER.iter_unpack(answers):
        yield (number, scope), code, _number(kind, value) if code == pynvml.NVML_SUCCESS else None


def _number(kind: int, value: bytes) -> int | None:
    if kind >= len(_VALUES):
        return None
    number = _VALUES[kind].unpack(value)[0]
    return int(number) if math.isfinite(number) and number >= 0 else None


class Fields:
    """The fields of one GPU. Each value carries its own return code; those not supported are rarely asked for again."""

    def __init__(self, calls: Calls, wanted: Sequence[Field]) -> None:
        self._calls = calls
        self._wanted = list(wanted)
        self._refused: dict[Field, int] = {}

    def want(self, more: Sequence[Field]) -> None:
        """Read these too from now on."""
        self._wanted += [field for field in more if field not in self._wanted]

    def wants(self, field: Field) -> bool:
        """Return whether it is read: it was asked for, and the driver does not say that it has no such thing."""
        return field in self._wanted and not self._is_refused_for_good(field)

    def refusal(self, field: Field) -> str | None:
        """Return why a field has no value, in words; None where it has one, or was never asked for."""
        code = self._refused.get(field)
        return None if code is None else in_words(code)

    def read(self, handle: object) -> Mapping[Field, int]:
        """Return what the driver reports now, in its own units; a field without a value is left out.

        Raises:
            SourceLostError: the GPU is gone until it is reset.
            DriverChangedError: the driver was replaced under this process.
        """
        again, asked = self._calls.again, self._wanted
        if self._refused:
            asked = [each for each in asked if not self._is_refused_for_good(each) or again.is_due(each)]
        if not asked:
            return {}
        answers = self._calls.ask(pynvml.nvmlDeviceGetFieldValues, handle, asked)
        if answers is None:
            return {}
        values: dict[Field, int] = {}
        for field, code, value in decoded_fields(bytes(answers)):
            if code != pynvml.NVML_SUCCESS:
                self._refuse(field, code)
            elif value is not None:
                values[field] = value
        for field in self._refused.keys() & values.keys():
            del self._refused[field]
            again.forget(field)
        return values

    def _is_refused_for_good(self, field: Field) -> bool:
        code = self._refused.get(field)
        return code in NEVER or code == _UNKNOWN_FIELD

    def _refuse(self, field: Field, code: int) -> None:
        self._refused[field] = code
        if self._is_refused_for_good(field):
            self._calls.again.refuse(field)
        else:
            self._calls.refused(f"field {field[0]}", code)
