"""Clocks and heat of one GPU, and the time that limits cost it."""

from collections.abc import Mapping

import pynvml

from agent.gpu.nvidia import fields
from agent.gpu.nvidia.calls import Calls
from agent.gpu.nvidia.fields import Field, Fields
from agent.gpu.nvidia.meter import Meter
from agent.gpu.nvidia.units import HERTZ_PER_MEGAHERTZ, NANOSECONDS_PER_SECOND
from agent.source import Value

_THROTTLES = {
    "throttle_power_seconds": fields.THROTTLE_POWER,
    "throttle_thermal_seconds": fields.THROTTLE_THERMAL,
    "throttle_hardware_seconds": fields.THROTTLE_HARDWARE,
    "throttle_sync_boost_seconds": fields.THROTTLE_SYNC_BOOST,
}
_MEMORY_CLOCK = "nvmlDeviceGetClockInfo(memory)"


class Clocks:
    """Clocks now, and what they could be: the highest clock is the reference, which limits are below."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._highest: int | None = None

    def look(self, handle: object) -> None:
        """Ask for the highest clock again; exceptions as `read`."""
        self._highest = self._calls.ask(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_SM)

    def read(self, handle: object, values: Mapping[Field, int]) -> Mapping[str, Value]:
        """Return clocks in hertz and temperatures in degrees Celsius.

        Raises:
            SourceLostError: the GPU is gone until it is reset.
            DriverChangedError: the driver was replaced under this process.
        """
        ask = self._calls.ask
        celsius = ask(pynvml.nvmlDeviceGetTemperatureV, handle, pynvml.NVML_TEMPERATURE_GPU)
        if celsius is None:
            celsius = ask(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU)
        memory_celsius = values.get(fields.MEMORY_TEMPERATURE)
        memory = self._calls.ask_as(_MEMORY_CLOCK, pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_MEM)
        return {
            "sm_clock_hertz": _hertz(ask(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM)),
            "sm_clock_reference_hertz": _hertz(self._highest),
            "memory_clock_hertz": _hertz(memory),
            "temperature_celsius": None if celsius is None else float(celsius),
            # A board without the sensor reports 0 here.
            "memory_temperature_celsius": float(memory_celsius) if memory_celsius else None,
        }

    @property
    def refusal(self) -> str | None:
        """Why there is no SM clock, in words; None where there is."""
        return self._calls.refusal(pynvml.nvmlDeviceGetClockInfo.__name__)


class Throttles:
    """Time below the wanted clock, by cause, from the driver's cumulative counters."""

    def __init__(self, batch: Fields) -> None:
        self._batch = batch
        self._meters = {field: Meter() for causes in _THROTTLES.values() for field in causes}

    def read(self, values: Mapping[Field, int]) -> Mapping[str, Value]:
        """Return the seconds of the interval by cause."""
        return {name: self._longest(values, causes) for name, causes in _THROTTLES.items()}

    @property
    def refusal(self) -> str | None:
        """Why no cause at all is counted, in words; None where one is."""
        refusals = [self._batch.refusal(field) for field in self._meters]
        return refusals[0] if all(refusals) else None

    def _longest(self, values: Mapping[Field, int], causes: tuple[Field, ...]) -> float | None:
        """Return the seconds of the longest of several counters. They overlap in time: a sum would count twice."""
        amounts = [self._meters[cause].amount(values.get(cause)) for cause in causes]
        nanoseconds = max((amount for amount in amounts if amount is not None), default=None)
        return None if nanoseconds is None else nanoseconds / NANOSECONDS_PER_SECOND


def _hertz(megahertz: int | None) -> float | None:
    return None if megahertz is None else float(megahertz * HERTZ_PER_MEGAHERTZ)
