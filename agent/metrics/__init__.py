"""The host's /metrics: what was last read, under our names and under those of dcgm-exporter."""

from agent.metrics.registry import HostCollector, Scraped, registry
from agent.metrics.snapshot import Snapshot

__all__ = ["HostCollector", "Scraped", "Snapshot", "registry"]
