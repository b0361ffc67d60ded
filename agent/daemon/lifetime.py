"""The daemon from start to end: signals, settings read again, the order in which its parts begin and stop."""

import logging
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType

from agent.clock import Clock
from agent.daemon.agent import Agent
from agent.daemon.malloc_tuning import one_arena
from agent.errors import AgentError, ConfigError, DriverChangedError
from agent.sampling.wiring import HostSources, open_host_sources
from agent.settings.config import AgentConfig

_LOG = logging.getLogger("agent")
_FOLLOWED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_MOST_AT_ONCE = 64  # signals


class Orders:
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

    def __enter__(self) -> "Orders":
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
    one_arena()
    good: AgentConfig | None = None
    wanted: AgentConfig | None = config
    with Orders(read_again) as orders:
        while wanted is not None:
            started = _started(wanted, good, clock)
            good = started.config
            try:
                _beat(started.running, orders.stop)
            finally:
                started.host_sources.close()
            wanted = orders.next()


@dataclass(frozen=True, slots=True)
class _Started:
    config: AgentConfig
    host_sources: HostSources
    running: Agent


def _started(config: AgentConfig, good: AgentConfig | None, clock: Clock) -> _Started:
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
        _LOG.error("the settings are wrong, and the old ones stay: %s", error)
        return _start(good, clock)
    if good is not None:
        _LOG.info("the settings were read again")
    return started


def _start(config: AgentConfig, clock: Clock) -> _Started:
    host_sources = open_host_sources(config, clock.wall, lasting=True)
    try:
        running = Agent(config, host_sources, clock)
    except BaseException:
        host_sources.close()
        raise
    _LOG.info("%s", _greeting(config, host_sources, running))
    return _Started(config, host_sources, running)


def _greeting(config: AgentConfig, host_sources: HostSources, running: Agent) -> str:
    what = f"no GPU here ({host_sources.gpus.no_gpu})" if host_sources.gpus.no_gpu else "reading GPUs and host"
    metrics = "off" if running.port is None else f"on port {running.port}"
    sending = config.collector or "nobody, since no collector is set"
    return f"{config.node_name}: {what}; every {config.beat_seconds:g} s; metrics {metrics}; sending to {sending}"


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
        _LOG.error("the settings are wrong, and the old ones stay: %s", error)
        return None
