"""Network interfaces and RDMA ports of the host, from procfs and sysfs."""

from agent.network.links import LinkCounters
from agent.network.source import NetworkSource

__all__ = ["LinkCounters", "NetworkSource"]
