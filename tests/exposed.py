"""What a scrape finds of some collectors, in the form that it asks for."""

from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from agent.exposition import exposition


def exposed(*collectors: Collector, accept: str = "") -> bytes:
    """Return their page."""
    registry = CollectorRegistry()
    for each in collectors:
        registry.register(each)
    return exposition(registry, accept)[0]
