"""The port of /metrics: who may read it, how it is encrypted, and what it costs at most."""

from agent.metrics.http.door import Door
from agent.metrics.http.secret import Secret
from agent.metrics.http.server import ScrapeServer

__all__ = ["Door", "ScrapeServer", "Secret"]
