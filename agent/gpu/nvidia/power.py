"""Power and energy of one GPU."""

from collections.abc import Mapping

import pynvml

from agent.gpu.nvidia import fields
from agent.gpu.nvidia.calls import Calls
from agent.gpu.nvidia.energy import EnergyMeter
from agent.gpu.nvidia.fields import Field, Fields
from agent.gpu.nvidia.units import MILLIWATTS_PER_WATT
from agent.source import Value


class Power:
    """Asks for the best figure that this driver has, and no further."""

    def __init__(self, calls: Calls, batch: Fields, energy: EnergyMeter) -> None:
        self._calls = calls
        self._batch = batch
        self._energy = energy
        energy.read(None)  # nothing that was spent before may be subtracted from

    def read(self, handle: object, values: Mapping[Field, int]) -> Mapping[str, Value]:
        """Return the columns of power and energy, in watts and joules.

        Raises:
            SourceLostError: the GPU is gone until it is reset.
            DriverChangedError: the driver was replaced under this process.
        """
        milliwatts = self._milliwatts(handle, values)
        millijoules = values.get(fields.ENERGY)
        if millijoules is None:
            millijoules = self._calls.ask(pynvml.nvmlDeviceGetTotalEnergyConsumption, handle)
        energy = self._energy.read(millijoules)
        return {
            "power_watts": None if milliwatts is None else milliwatts / MILLIWATTS_PER_WATT,
            "energy_joules": energy.joules,
            "energy_joules_total": energy.joules_total,
            "energy_epoch": energy.epoch,
        }

    @property
    def power_refusal(self) -> str | None:
        """Why there is no power, in words; None where there is."""
        if self._batch.refusal(fields.POWER) is None:
            return None
        other = self._calls.refusal(pynvml.nvmlDeviceGetPowerUsage.__name__)
        return other and self._batch.refusal(fields.MODULE_POWER)

    @property
    def energy_refusal(self) -> str | None:
        """Why there is no energy counter, in words; None where there is."""
        if self._batch.refusal(fields.ENERGY) is None:
            return None
        return self._calls.refusal(pynvml.nvmlDeviceGetTotalEnergyConsumption.__name__)

    def _milliwatts(self, handle: object, values: Mapping[Field, int]) -> int | None:
        """Power now (field 186); the driver's average over a second where there is none, then the whole module's."""
        milliwatts = values.get(fields.POWER)
        if milliwatts is None:
            milliwatts = self._calls.ask(pynvml.nvmlDeviceGetPowerUsage, handle)
        if milliwatts is None:
            self._batch.want((fields.MODULE_POWER,))
            milliwatts = values.get(fields.MODULE_POWER)
        return milliwatts
