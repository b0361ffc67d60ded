"""The port of /metrics: who may read it, how it is encrypted, and what it costs at most."""

from agent.scrape.door import Door
from agent.scrape.secret import Secret
from agent.scrape.server import ScrapeServer

__all__ = ["Door", "ScrapeServer", "Secret"]
