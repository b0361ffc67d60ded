"""Read the links of the host; one row of `network_samples` for each."""

from pathlib import Path

from agent.source import Reading
from agent.sources.network.interfaces import interfaces
from agent.sources.network.links import LinkCounters, link_row
from agent.sources.network.ports import ports

_DEVICES_MAX = 64


class NetworkSource:
    """Reads interfaces and RDMA ports; one row of `network_samples` for each.

    `devices_left_out` counts what the last reading left out for being too many.
    """

    name = "network"

    def __init__(self, proc: Path = Path("/proc"), sys: Path = Path("/sys"), period_seconds: float = 0.0) -> None:
        self.period_seconds = period_seconds
        self.devices_left_out = 0
        self._proc = proc
        self._sys = sys
        self._last: dict[str, LinkCounters] = {}

    def read(self) -> Reading:
        """Return a row per link; the amounts come with a link's second reading.

        Raises:
            SourceError: /proc/net/dev cannot be read.
        """
        now = ports(self._sys) | interfaces(self._proc, self._sys)
        kept = list(now)[:_DEVICES_MAX]
        self.devices_left_out = len(now) - len(kept)
        rows = [link_row(name, self._last.get(name), now[name]) for name in kept]
        self._last = now
        return {"network_samples": rows}

    def coverage(self) -> list[str]:
        """Return what of this host's links is not seen, in words."""
        unknown = sorted(name for name, link in self._last.items() if link.receive_bytes is None)
        lines = [f"{name} counts no bytes that can be read" for name in unknown]
        if self.devices_left_out:
            lines.append(f"{self.devices_left_out} links beyond the first {_DEVICES_MAX} are not told")
        return lines
