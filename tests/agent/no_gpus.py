"""A host without GPUs, as a vendor's source tells of one."""

from collections.abc import Mapping, Sequence

from agent.attribution.devices import Device, GpuProcess, Holding
from agent.source import Reading, Supported


class NoGpus:
    """Knows of no GPU, and of nobody who holds one."""

    name = "gpu"
    period_seconds = 0.0
    no_gpu = "none here"
    counts: tuple[int, int] | None = None

    def read(self) -> Reading:
        """Return nothing."""
        return {}

    def processes(self) -> Sequence[GpuProcess]:
        """Return nobody."""
        return ()

    def holding(self) -> Holding | None:
        """Return that nobody holds any."""
        return Holding()

    def devices(self) -> Sequence[Device]:
        """Return no names."""
        return ()

    def unreadable(self) -> Mapping[str, str]:
        """Return that every answer can be read."""
        return {}

    def supported(self) -> Sequence[Supported]:
        """Return nothing that is told."""
        return ()

    def xids(self) -> Mapping[str, Mapping[str, int]]:
        """Return no errors."""
        return {}

    def close(self) -> None:
        """Give nothing back."""
