"""The agent as it runs on a host: the beat, the spool, the sender and /metrics, put together and taken apart."""

import logging
import threading
from collections.abc import Iterable, Sequence

from prometheus_client.core import Metric

from agent.about import AgentSource, own_families
from agent.batch import Batcher
from agent.clock import Clock
from agent.config import AgentConfig
from agent.exporter import Snapshot, registry
from agent.post import Link
from agent.sampler import Beats, Sampler, Stamped
from agent.scrape import ScrapeServer
from agent.sender import Sender
from agent.shelf import Shelf
from agent.source import Source
from agent.spool import Spool
from agent.stamp import Identity, Stamper

_LOG = logging.getLogger(__name__)
STOP_SECONDS = 5.0  # for the batch that is on its way when the agent ends; the rest lies in the spool


class Agent:
    """One host's agent over these sources. Without a collector it keeps nothing and serves /metrics alone.

    Raises:
        ConfigError: an address cannot be used.
        SpoolError: the spool's directory cannot be used.
    """

    def __init__(self, config: AgentConfig, sources: Iterable[Source], clock: Clock) -> None:
        link = Link(config.collector, config.token, config.ca_file) if config.collector else None
        self._spool = Spool(Shelf(config.spool), config.spool_bytes, config.kept_bytes) if link else None
        self._sender = Sender(self._spool, link, clock) if self._spool and link else None
        beats = Beats()
        own = AgentSource(beats, self._spool, lambda: self._sender, config.proc)
        stamper = Stamper(config.node_name, Identity(config.identity, config.identity_key))
        self._sampler = Sampler(stamper, [*sources, own], clock, config.beat_seconds, beats)
        self._snapshot = Snapshot(clock.wall)
        self._batcher = (
            Batcher(config.node_name, clock, config.batch_seconds, self._spool.append) if self._spool else None
        )
        self._server = ScrapeServer(*config.address, registry(self._snapshot, self._own)) if config.address else None

    @property
    def port(self) -> int | None:
        """The port of /metrics, None where it is off."""
        return self._server.port if self._server else None

    def run(self, stop: threading.Event) -> None:
        """Beat until `stop` is set; then tell the last seconds, and end in order.

        Raises:
            DriverChangedError: only a new process can load the new driver; what was read lies in the spool.
        """
        for part in (self._server, self._sender):
            if part is not None:
                part.start()
        try:
            self._sampler.run(stop, self._deliver)
        finally:
            self._end()

    def _deliver(self, stamped: Sequence[Stamped]) -> None:
        self._snapshot.observe(stamped)
        if self._batcher is not None:
            self._batcher.add(stamped)

    def _end(self) -> None:
        if self._batcher is not None:
            self._batcher.seal()
        if self._sender is not None:
            self._sender.stop(STOP_SECONDS)
        if self._server is not None:
            self._server.stop()
        if self._spool is not None:
            self._spool.close()

    def _own(self) -> Iterable[Metric]:
        return own_families(self._sampler, self._spool, self._sender)
