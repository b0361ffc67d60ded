"""Power, energy, clocks and heat of one GPU, and the time that limits cost it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pynvml

from agent.files import StateFile
from agent.gpu.nvidia.calls import (
    ENERGY_FIELD,
    HERTZ_PER_MEGAHERTZ,
    MEMORY_TEMPERATURE_FIELD,
    MILLIJOULES_PER_JOULE,
    MILLIWATTS_PER_WATT,
    MODULE_POWER_FIELD,
    NANOSECONDS_PER_SECOND,
    POWER_FIELD,
    THROTTLE_HARDWARE,
    THROTTLE_POWER,
    THROTTLE_SYNC_BOOST,
    THROTTLE_THERMAL,
    Calls,
    Field,
    Fields,
    Meter,
)
from agent.procfs import boot_id
from agent.source import Value

# The driver's energy counters, across their resets and across restarts of the agent.
_SECTION = "energy"

_BOOT = "boot"


@dataclass(frozen=True, slots=True)
class Energy:
    """Energy of one interval, in joules, with the counter that it was read from and that counter's epoch."""

    joules: float | None
    joules_total: float | None
    epoch: int | None


@dataclass(frozen=True, slots=True)
class EnergyCounter:
    """How far a counter was read, in millijoules, and the epoch of that life of it."""

    millijoules: int
    epoch: int


class EnergyMeter:
    """The driver's energy counter in millijoules. It starts anew with the driver; its epoch then changes.

    The epoch is the wall second at which an agent first saw the counter's present life. `known` is what an earlier
    agent saw of the same boot: a counter that did not fall behind it is still in that life.
    """

    def __init__(self, wall_seconds: Callable[[], float], known: EnergyCounter | None = None) -> None:
        self._wall_seconds = wall_seconds
        self._meter = Meter()
        self._counter = known

    @property
    def counter(self) -> EnergyCounter | None:
        """How far it was read, None before the first reading."""
        return self._counter

    def read(self, millijoules: int | None) -> Energy:
        """Return the joules of the interval; None for them at the first value, after silence and after a reset."""
        amount = self._meter.amount(millijoules)
        if millijoules is None:
            return Energy(None, None, None)
        last = self._counter
        epoch = last.epoch if last is not None and millijoules >= last.millijoules else self._new_epoch()
        self._counter = EnergyCounter(millijoules, epoch)
        joules = None if amount is None else amount / MILLIJOULES_PER_JOULE
        return Energy(joules, millijoules / MILLIJOULES_PER_JOULE, epoch)

    def _new_epoch(self) -> int:
        return max(int(self._wall_seconds()), (self._counter.epoch if self._counter else 0) + 1)


class EnergyBook:
    """What an agent leaves to the next one of each GPU's energy counter; of no use after the host has booted."""

    def __init__(self, state_file: StateFile, proc: Path) -> None:
        self._state_file = state_file
        self._boot = boot_id(proc)

    def known(self, uuid: str) -> EnergyCounter | None:
        """Return how far the agent before this one read the counter, None where that is of no use."""
        section = self._state_file.section(_SECTION)
        entry = section.get(uuid)
        if self._boot is None or section.get(_BOOT) != self._boot or not isinstance(entry, list):
            return None
        numbers = [each for each in entry if isinstance(each, int) and not isinstance(each, bool) and each >= 0]
        return EnergyCounter(numbers[0], numbers[1]) if len(numbers) == len(entry) == 2 else None

    def keep(self, counters: Mapping[str, EnergyCounter]) -> None:
        """Leave these to the next agent; those of GPUs that this one has not read stay as they are."""
        section = self._state_file.section(_SECTION)
        if section.get(_BOOT) != self._boot:
            section = {}
        read = {uuid: [counter.millijoules, counter.epoch] for uuid, counter in counters.items()}
        self._state_file.keep(_SECTION, {**section, **read, _BOOT: self._boot})


class Power:
    """Asks for the best figure that this driver has, and no further."""

    def __init__(self, calls: Calls, batch: Fields, energy: EnergyMeter) -> None:
        self._calls = calls
        self._batch = batch
        self._energy = energy
        energy.read(None)  # nothing that was spent before may be subtracted from

    def read(self, handle: object, values: Mapping[Field, int]) -> Mapping[str, Value]:
        """Return the columns of power and energy, in watts and joules; exceptions as `Calls.ask`."""
        milliwatts = self._milliwatts(handle, values)
        millijoules = values.get(ENERGY_FIELD)
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
        if self._batch.refusal(POWER_FIELD) is None:
            return None
        other = self._calls.refusal(pynvml.nvmlDeviceGetPowerUsage.__name__)
        return other and self._batch.refusal(MODULE_POWER_FIELD)

    @property
    def energy_refusal(self) -> str | None:
        """Why there is no energy counter, in words; None where there is."""
        if self._batch.refusal(ENERGY_FIELD) is None:
            return None
        return self._calls.refusal(pynvml.nvmlDeviceGetTotalEnergyConsumption.__name__)

    def _milliwatts(self, handle: object, values: Mapping[Field, int]) -> int | None:
        """Power now (field 186); the driver's average over a second where there is none, then the whole module's."""
        milliwatts = values.get(POWER_FIELD)
        if milliwatts is None:
            milliwatts = self._calls.ask(pynvml.nvmlDeviceGetPowerUsage, handle)
        if milliwatts is None:
            self._batch.want((MODULE_POWER_FIELD,))
            milliwatts = values.get(MODULE_POWER_FIELD)
        return milliwatts


_THROTTLES = {
    "throttle_power_seconds": THROTTLE_POWER,
    "throttle_thermal_seconds": THROTTLE_THERMAL,
    "throttle_hardware_seconds": THROTTLE_HARDWARE,
    "throttle_sync_boost_seconds": THROTTLE_SYNC_BOOST,
}

_MEMORY_CLOCK = "nvmlDeviceGetClockInfo(memory)"


class Clocks:
    """Clocks now, and what they could be: the highest clock is the reference, which limits are below."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._highest: int | None = None

    def look(self, handle: object) -> None:
        """Ask for the highest clock again; exceptions as `Calls.ask`."""
        self._highest = self._calls.ask(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_SM)

    def read(self, handle: object, values: Mapping[Field, int]) -> Mapping[str, Value]:
        """Return clocks in hertz and temperatures in degrees Celsius; exceptions as `Calls.ask`."""
        ask = self._calls.ask
        celsius = ask(pynvml.nvmlDeviceGetTemperatureV, handle, pynvml.NVML_TEMPERATURE_GPU)
        if celsius is None:
            celsius = ask(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU)
        memory_celsius = values.get(MEMORY_TEMPERATURE_FIELD)
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
