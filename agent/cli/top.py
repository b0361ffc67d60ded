"""`gpuledger agent top`: this host from its agent alone."""

import argparse
import json
import os
import shutil
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict

from agent.clock import Clock, SystemClock
from agent.errors import ConfigError, SourceError
from agent.settings.config import DEFAULT_FILE, AgentConfig, load, settings_file
from agent.top.agent_page import page
from agent.top.now import HostNow, host_now
from agent.top.text import screen
from agent.wire.units import SECOND_US

_EVERY_SECONDS, _LEAST_SECONDS = 5.0, 1.0
_COLUMNS = 80
_HOME, _END_LINE, _END = "\x1b[H", "\x1b[K", "\x1b[J"
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"


def top(argv: list[str]) -> int:
    """Show each GPU of this host, what the driver says of it now, and who holds it; until Ctrl-C on a terminal."""
    parser = argparse.ArgumentParser(
        prog="gpuledger agent top",
        description="The GPUs of this host now, from its agent alone: no server, no store, no rights.",
        epilog="In a pipe, or with --once, it looks once. gpuledger top has the fleet, with states and prices.",
    )
    parser.add_argument("--every", type=float, default=_EVERY_SECONDS, metavar="S", help="seconds between two looks")
    parser.add_argument("--once", action="store_true", help="look once, and end")
    parser.add_argument("--json", action="store_true", help="as JSON, once")
    parser.add_argument("--config", metavar="FILE", help=f"the agent's settings; {DEFAULT_FILE} where it exists")
    given = parser.parse_args(argv)
    if given.every < _LEAST_SECONDS:
        raise ConfigError(f"--every is {given.every:g}: not {_LEAST_SECONDS:g} s or more")
    config = load(settings_file(given.config), os.environ)
    now = host_now(page(config))
    if given.json:
        print(json.dumps(asdict(now), indent=1))
    elif given.once or not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        print("\n".join(screen(now, None, 0.0, _COLUMNS)))
    else:
        _watch(config, now, given.every, SystemClock(), sys.stdout.write)
    return 0


def _watch(config: AgentConfig, now: HostNow, every_seconds: float, clock: Clock, write: Callable[[str], int]) -> None:
    """Draw again and again on the terminal's other screen; what was there before comes back."""
    never, before, began, elapsed, trouble = threading.Event(), None, clock.monotonic(), 0.0, ""
    write(_ENTER)
    try:
        while True:
            columns, rows = shutil.get_terminal_size((_COLUMNS, 24))
            lines = ([f"! {trouble}"] if trouble else []) + screen(now, before, elapsed, columns)
            write(_HOME + "".join(f"{line}{_END_LINE}\r\n" for line in lines[: rows - 1]) + _END)
            sys.stdout.flush()
            clock.wait_until(clock.monotonic() + round(every_seconds * SECOND_US), never)
            try:
                newer = host_now(page(config))
            except SourceError as error:
                trouble = str(error)  # the last look stays under it
                continue
            moment = clock.monotonic()
            before, now, elapsed, began, trouble = now, newer, (moment - began) / SECOND_US, moment, ""
    except KeyboardInterrupt:
        return
    finally:
        write(_LEAVE)
        sys.stdout.flush()
