"""This host as found: its size and its place. GPUs tell of themselves."""

import os
from collections.abc import Callable

from agent.settings.config import AgentConfig
from agent.source import Reading, Row
from agent.sources.topology import NodePlace
from agent.version import installed_version

_LOOK_AGAIN_SECONDS = 600.0


class HostInventory:
    """Tells this host's row of `inventory` at first, and again whenever it has changed."""

    name = "inventory"
    period_seconds = _LOOK_AGAIN_SECONDS

    def __init__(self, config: AgentConfig, place: Callable[[], NodePlace]) -> None:
        self._config = config
        self._place = place
        self._told: Row = {}

    def read(self) -> Reading:
        """Return the row where it is new, else nothing."""
        place, config = self._place(), self._config
        row: Row = {
            "rack": place.rack,
            "block": place.block,
            "zone": place.zone,
            "topology_source": place.source,
            "region": config.region or None,
            "node_group": config.node_group or None,
            "instance_type": config.instance_type or None,
            "cpu_cores": os.cpu_count(),
            "host_memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
            "agent_version": installed_version(),
        }
        if row == self._told:
            return {}
        self._told = row
        return {"inventory": [row]}
