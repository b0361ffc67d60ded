"""The instruments of one GPU: what is read of it at every beat, and what the next beat subtracts from."""

from collections.abc import Mapping
from typing import Any

import pynvml

from agent.gpu.nvidia.calls import Calls
from agent.gpu.nvidia.clocks import Clocks, Throttles
from agent.gpu.nvidia.context import NvmlContext
from agent.gpu.nvidia.energy import EnergyMeter
from agent.gpu.nvidia.fields import EVERY_BEAT, Fields
from agent.gpu.nvidia.gpm import Gpm
from agent.gpu.nvidia.health import Health
from agent.gpu.nvidia.link import PcieLink
from agent.gpu.nvidia.memory import memory
from agent.gpu.nvidia.nvlink import NvLink
from agent.gpu.nvidia.power import Power
from agent.gpu.nvidia.rings import SHORTEST_SECONDS, Rings
from agent.source import Value

_LOOK_SECONDS = 30.0  # between two looks at what changes rarely


class Instruments:
    """Made anew after a loss or a change of mode, since nothing measured before it may be subtracted from.

    Only the energy meter outlives that: it sees by itself whether the driver's counter started anew.
    """

    def __init__(self, uuid: str, calls: Calls, energy: EnergyMeter, around: NvmlContext) -> None:
        self.gpm: Gpm | None = None
        self._uuid = uuid
        self._calls = calls
        self._around = around
        self.batch = Fields(calls, EVERY_BEAT)
        self.rings = Rings(calls)
        self.power = Power(calls, self.batch, energy)
        self.clocks = Clocks(calls)
        self.throttles = Throttles(self.batch)
        self.health = Health(calls)
        self.nvlink = NvLink(self.batch)
        self._link = PcieLink(calls)
        self._looked: float | None = None

    def row(self, handle: Any, seconds: float | None) -> Mapping[str, Value]:  # noqa: ANN401  # an opaque pointer
        """Return the columns of gpu_samples for the `seconds` since the last call, None where it is the first.

        Raises:
            SourceLostError: the GPU is gone until it is reset.
            DriverChangedError: the driver was replaced under this process.
        """
        values = self.batch.read(handle)
        if self._look_is_due():
            self._look(handle)
        rings = self.rings.read(handle, seconds)
        return {
            **rings,
            **memory(self._calls, handle),
            **self.power.read(handle, values),
            **self.clocks.read(handle, values),
            **self.throttles.read(values),
            **self.health.read(),
            **self._link.read(handle, rings["utilization_ratio"]),
            **(self._video(handle) if seconds is None or seconds >= SHORTEST_SECONDS else {}),
            **(self.gpm.read(handle, seconds) if self.gpm else self._pcie(seconds)),
            **self.nvlink.read(values),
        }

    def gpm_tells(self, column: str) -> bool:
        """Return whether the chip itself measures what this column says."""
        gpm = self.gpm
        return gpm is not None and column in gpm.tells

    def look_soon(self) -> None:
        """Ask for what changes rarely at the next reading: something happened."""
        self._looked = None

    def close(self) -> None:
        """Give the activity meter's memory back."""
        if self.gpm is not None:
            self.gpm.close()
            self.gpm = None

    def _look_is_due(self) -> bool:
        return self._looked is None or self._around.seconds() - self._looked >= _LOOK_SECONDS

    def _look(self, handle: object) -> None:
        self._looked = self._around.seconds()
        self.clocks.look(handle)
        self.health.look(handle)
        self._link.look(handle)
        self.nvlink.look(self._calls, handle)

    def _video(self, handle: object) -> Mapping[str, Value]:
        """Encoders and decoders, as the driver last averaged them over up to a second."""
        encoder = self._calls.ask(pynvml.nvmlDeviceGetEncoderUtilization, handle)
        decoder = self._calls.ask(pynvml.nvmlDeviceGetDecoderUtilization, handle)
        return {
            "encoder_utilization_ratio": encoder[0] / 100 if encoder and encoder[0] <= 100 else None,
            "decoder_utilization_ratio": decoder[0] / 100 if decoder and decoder[0] <= 100 else None,
        }

    def _pcie(self, seconds: float | None) -> dict[str, Value]:
        rates = self._around.pcie.take(self._uuid)
        return {
            name: None if rate is None or seconds is None else round(rate * seconds)
            for name, rate in zip(("pcie_receive_bytes", "pcie_transmit_bytes"), rates, strict=True)
        }
