"""The agent as it runs on a host: the beat, the spool, the sender and /metrics, put together and taken apart."""

import threading
from collections.abc import Collection, Iterable, Sequence

from prometheus_client import CollectorRegistry, Metric

from agent.clock import Clock
from agent.control.pausing import PauseWatch
from agent.daemon.about import AgentSource, AgentState, own_families
from agent.delivery.batch import Batcher
from agent.delivery.enrol import link_of
from agent.delivery.scribe import Scribe
from agent.delivery.sender import Sender
from agent.errors import AgentError
from agent.metrics import Scraped, Snapshot, registry
from agent.metrics.http import Door, ScrapeServer, Secret
from agent.sampling.lateness import Beats
from agent.sampling.sampler import Sampler, Stamped
from agent.sampling.wiring import HostSources, open_stamper
from agent.settings.config import AgentConfig
from agent.spool import Spool, open_spool

_STOP_SECONDS = 5.0  # for the batch that is on its way when the agent ends; the rest lies in the spool


class Agent:
    """One host's agent over these sources. Without a collector it keeps nothing and serves /metrics alone.

    Raises:
        ConfigError: an address cannot be used.
        SpoolError: the spool's directory cannot be used.
    """

    def __init__(self, config: AgentConfig, host_sources: HostSources, clock: Clock) -> None:
        link = link_of(config) if config.collector else None
        self._spool = _spool(config) if link else None
        self._scribe = Scribe(self._spool) if self._spool else None
        self._sender = Sender(self._spool, link, clock) if self._spool and link else None
        beats = Beats()
        self._pause = PauseWatch(config.control)
        self._host_sources = host_sources
        own = AgentSource(self._state, config.proc)
        stamper = open_stamper(config)
        self._sampler = Sampler(
            stamper,
            [*host_sources.sources, own],
            clock,
            config.beat_seconds,
            beats,
            hang_seconds=config.hang_seconds,
            let_be=self._let_be,
        )
        self._snapshot = Snapshot(clock.monotonic)
        self._batcher = (
            Batcher(config.node_name, clock, config.batch_seconds, self._scribe.append) if self._scribe else None
        )
        families = registry(
            self._snapshot,
            Scraped(
                self._own, host_sources.gpus.supported, host_sources.gpus.xids, config.dcgm_names, node=config.node_name
            ),
        )
        try:
            self._server = _scrape_server(config, families)
        except AgentError:
            if self._spool is not None:
                self._spool.close()  # it is locked, and who cannot start with these settings may with others
            raise

    @property
    def port(self) -> int | None:
        """The port of /metrics, None where it is off."""
        return self._server.port if self._server else None

    def run(self, stop: threading.Event) -> None:
        """Beat until `stop` is set; then tell the last seconds, and end in order.

        Raises:
            DriverChangedError: only a new process can load the new driver; what was read lies in the spool.
        """
        for part in (self._server, self._scribe, self._sender):
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
        self._sampler.close()
        if self._batcher is not None:
            self._batcher.seal()
        if self._scribe is not None:
            self._scribe.close(_STOP_SECONDS)
        if self._sender is not None:
            self._sender.stop(_STOP_SECONDS)
        if self._server is not None:
            self._server.stop()
        if self._spool is not None:
            self._spool.close()

    def _own(self) -> Iterable[Metric]:
        yield from own_families(self._state())
        if self._server is not None:
            yield self._server.family()

    def _state(self) -> AgentState:
        return AgentState(self._sampler, self._spool, self._sender, self._host_sources, paused=self._pause.paused)

    def _let_be(self) -> Collection[str]:
        return [source.name for source in self._host_sources.sources] if self._pause.look() else ()


def _spool(config: AgentConfig) -> Spool:
    return open_spool(config.spool, config.spool_bytes, config.kept_bytes, sync=config.spool_sync == "batch")


def _scrape_server(config: AgentConfig, families: CollectorRegistry) -> ScrapeServer | None:
    if config.address is None:
        return None
    secret = Secret(config.scrape_token, config.scrape_user, config.scrape_password)
    return ScrapeServer(*config.address, families, Door(secret, config.tls_certificate, config.tls_key))
