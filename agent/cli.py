"""The commands of the agent: `gpuledger agent` and `gpuledger run`."""

import argparse
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent.clock import SystemClock
from agent.config import DEFAULT_FILE, AgentConfig, load, settings
from agent.daemon import Agent
from agent.errors import AgentError, ConfigError
from agent.once import lines, read_once
from agent.quantity import seconds
from agent.wiring import open_eyes

_LOG = logging.getLogger("agent")
USAGE, WORLD = 2, 3


def agent(argv: list[str]) -> int:
    """Sample this host: for ever, or once. Return 0, 2 for wrong settings, 3 where the world failed."""
    parser = _parser()
    given = parser.parse_args(argv)
    try:
        config = load(_file(given.config), os.environ, {name: getattr(given, name) for name in settings()})
        if given.once:
            return _once(config, seconds(given.every or "1s"), as_json=given.json)
        return _for_ever(config)
    except ConfigError as error:
        return _said(error, USAGE)
    except AgentError as error:
        return _said(error, WORLD)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpuledger agent", description="Sample this host, keep what cannot be sent, serve /metrics."
    )
    parser.add_argument("--config", metavar="FILE", help=f"settings; {DEFAULT_FILE} where it exists")
    parser.add_argument("--once", action="store_true", help="read once, print it, and end; nothing is sent")
    parser.add_argument("--json", action="store_true", help="with --once: print it as JSON, as it would be sent")
    parser.add_argument("--every", metavar="TIME", help="with --once: the time between its two readings; 1s")
    keys = parser.add_argument_group("settings", "each is a key of [agent] and a GPULEDGER_AGENT_… variable too")
    for name, (default, words) in settings().items():
        text = f"{words} ({default})" if default else words
        keys.add_argument(f"--{name.replace('_', '-')}", metavar="…", help=text.replace("%", "%%"))
    return parser


def _file(named: str | None) -> Path | None:
    if named is not None:
        return Path(named)
    return DEFAULT_FILE if DEFAULT_FILE.exists() else None


def _once(config: AgentConfig, every_seconds: float, *, as_json: bool) -> int:
    clock = SystemClock()
    eyes = open_eyes(config, clock.wall)
    try:
        reading = read_once(config, eyes.sources, clock, every_seconds, eyes.no_gpu)
    finally:
        eyes.close()
    print(json.dumps(reading.document(), indent=1) if as_json else "\n".join(lines(reading)))
    return 0


def _for_ever(config: AgentConfig) -> int:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    clock = SystemClock()
    eyes = open_eyes(config, clock.wall)
    try:
        running = Agent(config, eyes.sources, clock)
        _LOG.info(
            "%s: %s; every %g s; metrics on port %s; sending to %s",
            config.node_name,
            f"no GPU here ({eyes.no_gpu})" if eyes.no_gpu else "reading GPUs and host",
            config.beat_seconds,
            running.port,
            config.collector or "nobody, since no collector is set",
        )
        _until_told(running)
    finally:
        eyes.close()
    return 0


def _until_told(running: Agent) -> None:
    """Run the beat on a thread of its own until SIGTERM or SIGINT; whatever ended it is raised here.

    A signal handler runs in the main thread, between two of its instructions: setting an event that the main thread
    itself waits for can lock up for ever. So the main thread does nothing but wait for the beat's thread.
    """
    stop = threading.Event()
    ended: list[BaseException] = []

    def beat() -> None:
        try:
            running.run(stop)
        except BaseException as error:  # noqa: BLE001  raised again in the main thread
            ended.append(error)

    thread = threading.Thread(target=beat, name="beat")
    with _signals(stop):
        thread.start()
        thread.join()
    if ended:
        raise ended[0]


@contextmanager
def _signals(stop: threading.Event) -> Iterator[None]:
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _said(error: AgentError, code: int) -> int:
    print(f"gpuledger: {error}", file=sys.stderr)
    return code
