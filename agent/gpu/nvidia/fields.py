"""Read many of the driver's numbered fields in one call."""

import math
import struct
from collections.abc import Iterator, Mapping, Sequence

import pynvml

from agent.gpu.nvidia.calls import NEVER, Calls, in_words

Field = tuple[int, int]  # field and scope
_WHOLE = 0
_MODULE = 1
ALL_LINKS = 0xFFFFFFFF  # the sum over the links

POWER: Field = (pynvml.NVML_FI_DEV_POWER_INSTANT, _WHOLE)  # milliwatts
MODULE_POWER: Field = (pynvml.NVML_FI_DEV_POWER_INSTANT, _MODULE)
ENERGY: Field = (pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, _WHOLE)  # millijoules
MEMORY_TEMPERATURE: Field = (pynvml.NVML_FI_DEV_MEMORY_TEMP, _WHOLE)  # degrees Celsius
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
    POWER,
    ENERGY,
    MEMORY_TEMPERATURE,
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


def decoded(answers: bytes) -> Iterator[tuple[Field, int, int | None]]:
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
        for field, code, value in decoded(bytes(answers)):
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
