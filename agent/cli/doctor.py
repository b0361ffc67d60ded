"""`gpuledger agent doctor`: the examination as a page of text, and as JSON."""

import argparse
import json
import os
import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from agent.config import add_config_option, load, settings_file
from agent.doctor import Examination, HostCheckLine, examine
from agent.quantity import in_columns
from agent.wire.units import MINUTE_SECONDS

WIDTH = 80
_NAME = 12  # columns of what is sent
_ANSWER = 4
_MEGA = 10**6


def doctor_lines(found: Examination) -> Iterator[str]:
    """Yield the page's lines, at most 80 columns wide where words allow it."""
    driver = f", driver {found.driver}" if found.driver else ""
    yield from _wrapped(f"host {found.node}: {found.gpus}{driver}; agent {found.version}, user {found.user}")
    yield ""
    yield "MEASURES"
    for line in found.measures:
        yield from _line(line)
    yield from _item("cost", _cost(found), _ANSWER)
    yield ""
    yield from _leaves(found)


def document(found: Examination) -> dict[str, Any]:
    """Return the examination as JSON's types."""
    sent = found.leaves.bytes_per_hour
    return {
        **{name: getattr(found, name) for name in ("node", "gpus", "driver", "version", "user", "healthy")},
        "measures": [asdict(line) for line in found.measures],
        "cost": {"core_ratio": round(found.cost.core_ratio, 5), "memory_bytes": found.cost.memory_bytes},
        "leaves": asdict(found.leaves) | {"bytes_per_hour": None if sent is None else round(sent)},
    }


def _line(line: HostCheckLine) -> Iterator[str]:
    yield from _item(line.answer, line.what, _ANSWER)
    if line.remedy:
        yield from _wrapped(line.remedy, in_columns(("", "", "-> "), (0, -_ANSWER, 0)))


def _cost(found: Examination) -> str:
    memory = found.cost.memory_bytes
    held = f", {memory / _MEGA:.0f} MB" if memory is not None else ""
    return f"{found.cost.core_ratio:.1%} of a core{held}"


def _leaves(found: Examination) -> Iterator[str]:
    leaves = found.leaves
    yield from _wrapped(f"LEAVES THIS HOST ({leaves.connection})", later="  ")
    rows = f"all of the above, one row every {_time(leaves.rows_seconds)}"
    if leaves.bytes_per_hour is not None:
        yield from _item("numbers", f"{rows}, about {leaves.bytes_per_hour / _MEGA:.1f} MB per hour")
    else:
        yield from _item("numbers", "none")
    identity = f"{', '.join(leaves.identity)}: identity = {leaves.identity_mode} (hashed: pseudonyms; none: ids only)"
    yield from _item("identity", identity)
    yield from _item("never", leaves.never)
    yield from _item("listens on", leaves.listens_on)
    yield "see a real batch: gpuledger agent --once --json"


def _time(seconds: float) -> str:
    return f"{seconds:g} s" if seconds < MINUTE_SECONDS else f"{seconds / MINUTE_SECONDS:g} min"


def _item(name: str, words: str, width: int = _NAME) -> Iterator[str]:
    yield from _wrapped(words, in_columns(("", name, ""), (0, -width, 0)))


def _wrapped(words: str, first: str = "", later: str | None = None) -> Iterator[str]:
    indent = " " * len(first) if later is None else later
    yield from textwrap.wrap(
        words, WIDTH, initial_indent=first, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


_FAILED = 1


def doctor(argv: list[str]) -> int:
    """Say what this host can measure, what it costs, and what leaves it; 1 where something needs fixing."""
    parser = argparse.ArgumentParser(
        prog="gpuledger agent doctor",
        description="What this host can and cannot measure, what to do about it, and exactly what leaves it.",
        epilog="Run it as the agent's user to see what the agent sees. It sends nothing. Exit code 1: a check failed.",
    )
    add_config_option(parser)
    parser.add_argument("--json", action="store_true", help="as JSON")
    given = parser.parse_args(argv)
    found = examine(load(settings_file(given.config), os.environ))
    print(json.dumps(document(found), indent=1) if given.json else "\n".join(doctor_lines(found)))
    return 0 if found.healthy else _FAILED
