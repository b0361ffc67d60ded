"""Read many of the driver's numbered fields in one call."""

from collections.abc import Mapping

import pynvml

from agent.nvml.calls import NEVER, Calls

Field = tuple[int, int]  # field and scope
WHOLE = 0
MODULE = 1
ALL_LINKS = 0xFFFFFFFF  # the sum over the links

POWER: Field = (pynvml.NVML_FI_DEV_POWER_INSTANT, WHOLE)  # milliwatts
MODULE_POWER: Field = (pynvml.NVML_FI_DEV_POWER_INSTANT, MODULE)
ENERGY: Field = (pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, WHOLE)  # millijoules
NVLINK_TRANSMIT: Field = (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, ALL_LINKS)  # KiB
NVLINK_RECEIVE: Field = (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, ALL_LINKS)

# Nanoseconds spent below the wanted clock, by cause.
THROTTLE_POWER: tuple[Field, ...] = ((pynvml.NVML_FI_DEV_PERF_POLICY_POWER, WHOLE),)
THROTTLE_THERMAL: tuple[Field, ...] = (
    (pynvml.NVML_FI_DEV_PERF_POLICY_THERMAL, WHOLE),
    (pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN, WHOLE),
    (pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN, WHOLE),
)
THROTTLE_HARDWARE: tuple[Field, ...] = (
    (pynvml.NVML_FI_DEV_PERF_POLICY_BOARD_LIMIT, WHOLE),
    (pynvml.NVML_FI_DEV_PERF_POLICY_RELIABILITY, WHOLE),
    (pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN, WHOLE),
)
EVERY_BEAT: tuple[Field, ...] = (
    POWER,
    MODULE_POWER,
    ENERGY,
    NVLINK_TRANSMIT,
    NVLINK_RECEIVE,
    *THROTTLE_POWER,
    *THROTTLE_THERMAL,
    *THROTTLE_HARDWARE,
)

# The member of the value's union, by the driver's value type (nvmlValueType_t counts from 0).
_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


class Fields:
    """The fields of one GPU. Each value carries its own return code; those not supported leave the batch."""

    def __init__(self, calls: Calls, wanted: tuple[Field, ...] = EVERY_BEAT) -> None:
        self._calls = calls
        self._wanted = list(wanted)

    def read(self, handle: object) -> Mapping[Field, int]:
        """Return what the driver reports now, in its own units; a field without a value is left out.

        Raises:
            SourceLostError: the GPU is gone until it is reset.
            DriverChangedError: the driver was replaced under this process.
        """
        if not self._wanted:
            return {}
        answers = self._calls.ask(pynvml.nvmlDeviceGetFieldValues, handle, self._wanted)
        return {} if answers is None else self._decode(list(zip(tuple(self._wanted), answers, strict=True)))

    def _decode(self, answers: list[tuple[Field, pynvml.c_nvmlFieldValue_t]]) -> Mapping[Field, int]:
        values: dict[Field, int] = {}
        for field, answer in answers:
            if answer.nvmlReturn == pynvml.NVML_SUCCESS and answer.valueType < len(_MEMBERS):
                values[field] = int(getattr(answer.value, _MEMBERS[answer.valueType]))
            elif answer.nvmlReturn in NEVER:
                self._wanted.remove(field)
            else:
                self._calls.refused(f"field {field[0]}", answer.nvmlReturn)
        return values
