"""The instruments of one GPU: what is read of it at every beat, and what the next beat subtracts from."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pynvml

from agent.nvml import fields
from agent.nvml.fields import Field, Fields
from agent.nvml.memory import memory
from agent.nvml.meter import EnergyMeter, Meter
from agent.nvml.utilization import UtilizationRing

if TYPE_CHECKING:
    from agent.nvml.calls import Calls
    from agent.nvml.gpm import Gpm
    from agent.nvml.surroundings import Surroundings
    from agent.source import Value

HERTZ_PER_MEGAHERTZ = 1_000_000
MILLIWATTS_PER_WATT = 1000
NANOSECONDS_PER_SECOND = 1_000_000_000
BYTES_PER_KIB = 1024

LINKS = {"nvlink_receive_bytes": fields.NVLINK_RECEIVE, "nvlink_transmit_bytes": fields.NVLINK_TRANSMIT}
THROTTLES = {
    "throttle_power_seconds": fields.THROTTLE_POWER,
    "throttle_thermal_seconds": fields.THROTTLE_THERMAL,
    "throttle_hardware_seconds": fields.THROTTLE_HARDWARE,
}


class Instruments:
    """Made anew after a loss or a change of mode, since nothing measured before it may be subtracted from.

    Only the energy meter outlives that: it sees by itself whether the driver's counter started anew.
    """

    def __init__(self, uuid: str, calls: "Calls", energy: EnergyMeter, around: "Surroundings") -> None:
        self.gpm: Gpm | None = None
        self._uuid = uuid
        self._ask = calls.ask
        self._calls = calls
        self._around = around
        self._fields = Fields(calls)
        self._ring = UtilizationRing(calls)
        self._energy = energy
        self._ecc = Meter(over_silence=True)
        self._links = {name: Meter() for name in LINKS}
        self._throttles = {field: Meter() for causes in THROTTLES.values() for field in causes}
        energy.read(None)

    def row(self, handle: Any, seconds: float | None) -> Mapping[str, "Value"]:  # noqa: ANN401  # an opaque pointer
        """Return the columns of gpu_samples for the `seconds` since the last call, None where it is the first.

        Raises:
            SourceLostError: the GPU is gone until it is reset.
            DriverChangedError: the driver was replaced under this process.
        """
        values = self._fields.read(handle)
        ring = self._ring.read(handle)
        return {
            "utilization_ratio": ring.ratio,
            "utilization_zero_ratio": ring.zero_ratio,
            "utilization_low_ratio": ring.low_ratio,
            "utilization_high_ratio": ring.high_ratio,
            **memory(self._calls, handle),
            **self._power(handle, values),
            **self._clocks(handle),
            **{name: self._longest(values, causes) for name, causes in THROTTLES.items()},
            **self._errors(handle),
            **self._traffic(handle, values, seconds),
        }

    def close(self) -> None:
        """Give the activity meter's memory back."""
        if self.gpm is not None:
            self.gpm.close()
            self.gpm = None

    def _power(self, handle: object, values: Mapping[Field, int]) -> Mapping[str, "Value"]:
        """Power now (field 186); the driver's average over a second where there is none, then the whole module's."""
        milliwatts = values.get(fields.POWER)
        if milliwatts is None:
            milliwatts = self._ask(pynvml.nvmlDeviceGetPowerUsage, handle)
        if milliwatts is None:
            milliwatts = values.get(fields.MODULE_POWER)
        millijoules = values.get(fields.ENERGY)
        if millijoules is None:
            millijoules = self._ask(pynvml.nvmlDeviceGetTotalEnergyConsumption, handle)
        energy = self._energy.read(millijoules)
        return {
            "power_watts": None if milliwatts is None else milliwatts / MILLIWATTS_PER_WATT,
            "energy_joules": energy.joules,
            "energy_joules_total": energy.joules_total,
            "energy_epoch": energy.epoch,
        }

    def _clocks(self, handle: object) -> Mapping[str, "Value"]:
        """Clocks and heat. The reference is the highest clock: what limits it below that is what throttling means."""
        now = self._ask(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM)
        highest = self._ask(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_SM)
        celsius = self._ask(pynvml.nvmlDeviceGetTemperatureV, handle, pynvml.NVML_TEMPERATURE_GPU)
        if celsius is None:
            celsius = self._ask(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU)
        return {
            "sm_clock_hertz": None if now is None else float(now * HERTZ_PER_MEGAHERTZ),
            "sm_clock_reference_hertz": None if highest is None else float(highest * HERTZ_PER_MEGAHERTZ),
            "temperature_celsius": None if celsius is None else float(celsius),
        }

    def _longest(self, values: Mapping[Field, int], causes: tuple[Field, ...]) -> float | None:
        """Return the seconds of the longest of several counters. They overlap in time: a sum would count twice."""
        amounts = [self._throttles[cause].amount(values.get(cause)) for cause in causes]
        nanoseconds = max((amount for amount in amounts if amount is not None), default=None)
        return None if nanoseconds is None else nanoseconds / NANOSECONDS_PER_SECOND

    def _errors(self, handle: object) -> Mapping[str, "Value"]:
        kind, since = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
        uncorrected = self._ask(pynvml.nvmlDeviceGetTotalEccErrors, handle, kind, since)
        return {
            "ecc_uncorrected_events": self._ecc.amount(uncorrected),
            "xid_events": self._around.xid.take(self._uuid),
        }

    def _traffic(self, handle: object, values: Mapping[Field, int], seconds: float | None) -> Mapping[str, "Value"]:
        """PCIe by GPM, else by the slow thread; NVLink by its counters, else by GPM."""
        row: dict[str, Value] = dict(self.gpm.read(handle, seconds)) if self.gpm else self._pcie(seconds)
        for name, field in LINKS.items():
            kib = self._links[name].amount(values.get(field))
            if field in values:
                row[name] = None if kib is None else kib * BYTES_PER_KIB
        return row

    def _pcie(self, seconds: float | None) -> dict[str, "Value"]:
        rates = self._around.pcie.take(self._uuid)
        return {
            name: None if rate is None or seconds is None else round(rate * seconds)
            for name, rate in zip(("pcie_receive_bytes", "pcie_transmit_bytes"), rates, strict=True)
        }
