"""Network interfaces and RDMA ports of the host, from procfs and sysfs."""

from agent.sources.network.links import LinkCounters
from agent.sources.network.source import NetworkSource

__all__ = ["LinkCounters", "NetworkSource"]
