"""The agent as it runs on a host: put together, started, told to end or to read its settings again, and taken apart."""

import contextlib
import ctypes
import logging
import signal
import socket
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from agent.attribution.providers import Condition
from agent.clock import Clock
from agent.config import AgentConfig
from agent.control import PauseWatch
from agent.delivery.batch import Batcher, Scribe
from agent.delivery.link import link_of
from agent.delivery.sender import Sender
from agent.errors import AgentError, ConfigError, DriverChangedError
from agent.metrics.door import Door, Secret
from agent.metrics.families import Scraped, registry
from agent.metrics.scrape_server import ScrapeServer
from agent.metrics.snapshot import Snapshot
from agent.procfs import cpu_seconds, rss_bytes
from agent.sampling.sampler import LATENESS_SECONDS, Beats, Sampler, Stamped
from agent.sampling.wiring import HostSources, open_host_sources, open_stamper
from agent.source import Reading, Value
from agent.spool.queue import Spool, open_spool

if TYPE_CHECKING:
    from agent.sources.services import Followed


# The agent about itself: a source of agent_samples, and the metrics that are no columns of the contract.
@dataclass(frozen=True, slots=True)
class AgentState:
    """The agent's parts, as far as it tells of them; spool and sender are None where nothing is sent."""

    sampler: Sampler
    spool: Spool | None
    sender: Sender | None
    host_sources: HostSources
    paused: bool = False


class AgentSource:
    """Reads what the agent costs, what it lost and what it sees; amounts are since the last reading."""

    name = "agent"
    period_seconds = 0.0

    def __init__(self, state: Callable[[], AgentState], proc: Path) -> None:
        self._state = state
        self._proc = proc
        self._last: dict[str, float] | None = None

    def read(self) -> Reading:
        """Return one row of agent_samples."""
        state = self._state()
        now = _counters(state)
        row: dict[str, Value] = {"rss_bytes": rss_bytes(self._proc), **_gauges(state)}
        if self._last is not None:
            row |= {name: now[name] - self._last[name] for name in now}
        self._last = now
        if state.spool is not None and (lost := state.spool.untold_loss) is not None:
            row["dropped_from"], row["dropped_until"] = lost
        return {"agent_samples": [row]}


def _gauges(state: AgentState) -> dict[str, Value]:
    expected, seen = state.host_sources.gpus.counts or (None, None)
    return {
        "gpus_expected": expected,
        "gpus_seen": seen,
        "attribution_age_seconds": state.host_sources.attribution_age_seconds(),
        "spool_bytes": state.spool.waiting_bytes if state.spool else None,
        "clock_offset_seconds": state.sender.counts.clock_offset_seconds if state.sender else None,
        "sources_failing": len(state.sampler.failing),
        "paused": state.paused,
    }


def _counters(state: AgentState) -> dict[str, float]:
    spool, beats = state.spool, state.sampler.beats
    return {
        "cpu_seconds": cpu_seconds(),
        "beats_late": beats.late,
        "gaps": beats.missed,
        "dropped_batches": spool.dropped if spool else 0,
        "dropped_rows": spool.dropped_rows.total() if spool else 0,
    }


def own_families(state: AgentState) -> Iterable[Metric]:
    """Yield what the agent's operator needs beyond the contract: which sources fail, and what became of batches."""
    sampler, spool, sender = state.sampler, state.spool, state.sender
    up = GaugeMetricFamily("gpuledger_agent_source_up", "1 if the last reading succeeded.", labels=("source",))
    failures = CounterMetricFamily("gpuledger_agent_source_failures_total", "Readings that failed.", labels=("source",))
    hung = CounterMetricFamily("gpuledger_agent_source_hung_total", "Readings that timed out.", labels=("source",))
    for track in sampler.tracks:
        up.add_metric((track.source.name,), track.failing is None)
        failures.add_metric((track.source.name,), track.failures)
        hung.add_metric((track.source.name,), track.hung)
    yield from (up, failures, hung)
    yield GaugeMetricFamily(
        "gpuledger_agent_holders_hidden",
        "Processes on GPUs that procfs does not show (hidepid, or another PID namespace).",
        value=state.host_sources.hidden_holders(),
    )
    yield GaugeMetricFamily(
        "gpuledger_agent_gpu_answers_unreadable",
        "Answers of the GPU driver that cannot be read and count as unknown.",
        value=len(state.host_sources.gpus.unreadable()),
    )
    if conditions := state.host_sources.providers():
        yield from _providers(conditions)
    if services := state.host_sources.services:
        yield from _services(services)
    yield _lateness(sampler.beats)
    implausible = sampler.plausibility.refused
    yield _counter("gpuledger_agent_implausible_values_total", "Implausible values left out.", implausible)
    if spool is not None:
        yield GaugeMetricFamily("gpuledger_agent_spool_batches", "Batches waiting on disk.", value=spool.waiting)
        by_table = CounterMetricFamily("gpuledger_agent_dropped_table_rows_total", "Rows lost.", labels=("table",))
        for table, rows in sorted(spool.dropped_rows.items()):
            by_table.add_metric((table,), rows)
        yield by_table
        yield _counter("gpuledger_agent_quarantined_total", "Files and batches quarantined.", spool.quarantined)
        yield _counter(
            "gpuledger_agent_unwritten_batches_total", "Batches that could not be written to disk.", spool.unwritten
        )
    if sender is not None:
        counts = sender.counts
        yield _counter(
            "gpuledger_agent_delivered_batches_total", "Batches delivered to the collector.", counts.delivered
        )
        yield _counter(
            "gpuledger_agent_rows_put_aside_total",
            "Rows the collector set aside as implausible.",
            counts.rows_put_aside,
        )
        yield _counter(
            "gpuledger_agent_refused_batches_total", "Batches the collector permanently refused.", counts.refused
        )
        yield _counter("gpuledger_agent_send_failures_total", "Delivery attempts that failed.", counts.failures)


def _providers(conditions: Iterable[Condition]) -> Iterable[Metric]:
    """Yield how those do who are asked what holds a GPU."""
    age = GaugeMetricFamily(
        "gpuledger_agent_holder_age_seconds", "Age of the provider's last report.", labels=("holder",)
    )
    failures = CounterMetricFamily(
        "gpuledger_agent_holder_failures_total", "Failures of the provider.", labels=("holder",)
    )
    for one in conditions:
        if one.age_seconds is not None:
            age.add_metric((one.name,), one.age_seconds)
        failures.add_metric((one.name,), one.failures)
    yield from (age, failures)


def _services(services: Iterable["Followed"]) -> Iterable[Metric]:
    """Yield how the pages of services are read."""
    names = ("address", "model")
    up = GaugeMetricFamily(
        "gpuledger_agent_service_up", "1 if the service's page was read whole.", labels=(*names, "state")
    )
    failures = CounterMetricFamily(
        "gpuledger_agent_service_failures_total", "Pages that could not be read.", labels=names
    )
    for one in services:
        which = (one.service.url.partition("?")[0], one.service.model or "")
        up.add_metric((*which, one.state), one.state == "read")
        failures.add_metric(which, one.failures)
    yield from (up, failures)


def _lateness(beats: Beats) -> Metric:
    buckets = [(str(bound), float(count)) for bound, count in zip(LATENESS_SECONDS, beats.within, strict=True)]
    return HistogramMetricFamily(
        "gpuledger_agent_beat_lateness_seconds",
        "How late each sampling interval began.",
        buckets=[*buckets, ("+Inf", float(beats.count))],
        sum_value=beats.late_seconds,
    )


def _counter(name: str, help: str, value: float) -> Metric:  # noqa: A002  what the family calls it
    return CounterMetricFamily(name, help, value=value)


# The agent as it runs on a host: the beat, the spool, the sender and /metrics, put together and taken apart.
_STOP_SECONDS = 5.0  # for the batch that is on its way when the agent ends; the rest lies in the spool


class Agent:
    """One host's agent over these sources. Without a collector it keeps nothing and serves /metrics alone.

    Raises:
        ConfigError: an address cannot be used.
        SpoolError: the spool's directory cannot be used.
    """

    def __init__(self, config: AgentConfig, host_sources: HostSources, clock: Clock) -> None:
        self.config, self.host_sources = config, host_sources
        link = link_of(config) if config.collector else None
        self._spool = _spool(config) if link else None
        self._scribe = Scribe(self._spool) if self._spool else None
        self._sender = Sender(self._spool, link, clock) if self._spool and link else None
        beats = Beats()
        self._pause = PauseWatch(config.control)
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
        return AgentState(self._sampler, self._spool, self._sender, self.host_sources, paused=self._pause.paused)

    def _let_be(self) -> Collection[str]:
        return [source.name for source in self.host_sources.sources] if self._pause.look() else ()


def _spool(config: AgentConfig) -> Spool:
    return open_spool(config.spool, config.spool_bytes, config.kept_bytes, sync=config.spool_sync == "batch")


def _scrape_server(config: AgentConfig, families: CollectorRegistry) -> ScrapeServer | None:
    if config.address is None:
        return None
    secret = Secret(config.scrape_token, config.scrape_user, config.scrape_password)
    return ScrapeServer(*config.address, families, Door(secret, config.tls_certificate, config.tls_key))


_M_ARENA_MAX = -8  # malloc.h of glibc


def _one_arena() -> None:
    """Let all threads share one heap; to be called before the first of them starts.

    glibc gives each thread a heap of its own and hands nothing back: two dozen threads that mostly wait held 6 MB more
    after six minutes (bench/README.md). Other C libraries have no such call and no such heaps.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


_LOG = logging.getLogger("agent")
# The daemon from start to end: signals, settings read again, the order in which its parts begin and stop.
_FOLLOWED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_MOST_AT_ONCE = 64  # signals


class _Orders:
    """What the world tells this process by signals: to end, or to read its settings again.

    A handler of Python runs in the main thread only, and one that comes just before that thread begins to wait is not
    run until it wakes: so each signal's number is written to a pipe where it arrives, and a thread of our own acts.
    """

    def __init__(self, read_again: Callable[[], AgentConfig]) -> None:
        self.stop = threading.Event()
        self._read_again = read_again
        self._renewed: AgentConfig | None = None
        self._ended = False
        self._reading, self._writing = socket.socketpair()
        self._writing.setblocking(False)
        self._thread = threading.Thread(target=self._follow, name="signals", daemon=True)

    def __enter__(self) -> "_Orders":
        self._woken = signal.set_wakeup_fd(self._writing.fileno())
        self._before = {number: signal.signal(number, _heard) for number in _FOLLOWED}
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._woken)
        self._writing.close()
        self._thread.join()
        self._reading.close()

    def next(self) -> AgentConfig | None:
        """Return the settings to go on with, or None where it is time to end; to be called when `stop` was set."""
        config, self._renewed = self._renewed, None
        self.stop.clear()  # what is told from now on sets it again
        return None if self._ended else config

    def _follow(self) -> None:
        while told := self._reading.recv(_MOST_AT_ONCE):
            if signal.SIGHUP in told:
                self._renewed = _read(self._read_again) or self._renewed
            if signal.SIGTERM in told or signal.SIGINT in told:
                self._ended = True
            if self._ended or self._renewed is not None:
                self.stop.set()


def run_for_ever(config: AgentConfig, read_again: Callable[[], AgentConfig], clock: Clock) -> None:
    """Sample this host until SIGTERM or SIGINT; SIGHUP reads the settings again, and bad ones change nothing.

    New settings need new parts: the old ones tell their last seconds and end, the new ones begin where those ended.

    Raises:
        AgentError: it cannot start, or only a new process can go on.
    """
    _one_arena()
    good: AgentConfig | None = None
    wanted: AgentConfig | None = config
    with _Orders(read_again) as orders:
        while wanted is not None:
            running = _started(wanted, good, clock)
            good = running.config
            try:
                _beat(running, orders.stop)
            finally:
                running.host_sources.close()
            wanted = orders.next()


def _started(config: AgentConfig, good: AgentConfig | None, clock: Clock) -> Agent:
    """Return an agent with these settings; with the last good ones where it cannot start with these.

    Whether a port is free or a table can be read shows only when it is tried, and by then the old parts have ended.
    """
    try:
        started = _start(config, clock)
    except DriverChangedError:
        raise
    except AgentError as error:
        if good is None:
            raise
        _LOG.error("invalid settings, keeping the old ones: %s", error)
        return _start(good, clock)
    if good is not None:
        _LOG.info("settings reloaded")
    return started


def _start(config: AgentConfig, clock: Clock) -> Agent:
    host_sources = open_host_sources(config, clock.wall, lasting=True)
    try:
        running = Agent(config, host_sources, clock)
    except BaseException:
        host_sources.close()
        raise
    _LOG.info("%s", _greeting(running))
    return running


def _greeting(running: Agent) -> str:
    config, no_gpu = running.config, running.host_sources.gpus.no_gpu
    what = f"no GPU here ({no_gpu})" if no_gpu else "reading GPUs and host"
    metrics = "off" if running.port is None else f"on port {running.port}"
    sending = f"sending to {config.collector}" if config.collector else "not sending: no collector is set"
    return f"{config.node_name}: {what}; every {config.beat_seconds:g} s; metrics {metrics}; {sending}"


def _beat(running: Agent, stop: threading.Event) -> None:
    """Run the beat on a thread of its own, so that the main thread is free for signals; its failure is raised here."""
    ended: list[BaseException] = []

    def beat() -> None:
        try:
            running.run(stop)
        except BaseException as error:  # noqa: BLE001  raised again in the main thread
            ended.append(error)

    thread = threading.Thread(target=beat, name="beat")
    thread.start()
    thread.join()
    if ended:
        raise ended[0]


def _heard(number: int, _: FrameType | None) -> None:
    """Do nothing: the signal's number is in the pipe. Without a handler it would end the process."""


def _read(read_again: Callable[[], AgentConfig]) -> AgentConfig | None:
    try:
        return read_again()
    except ConfigError as error:
        _LOG.error("invalid settings, keeping the old ones: %s", error)
        return None
