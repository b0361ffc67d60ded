"""The host's /metrics: what was last read, under our names and under those of dcgm-exporter."""

from agent.exporter.registry import HostCollector, Scraped, registry
from agent.exporter.snapshot import Snapshot

__all__ = ["HostCollector", "Scraped", "Snapshot", "registry"]
