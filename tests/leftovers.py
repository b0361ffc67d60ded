"""Each thread and child process of a test ends with it, and each application with its file.

A server that lived on was seen to fail another test, forty tests later. What a module or a session shares ends with the
module or the session.
"""

import contextlib
import os
import sys
import threading
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.waiting import until
from tests.watchdog import lives

# Remembers the last 4,096 functions that answered, and by them forty applications with their stores: a worker that
# held them grew by 9 MB each, and garbage was looked for in all of them.
REMEMBERS = "fastapi.dependencies.models"
# What a server starts for its connections and its pool ends with the server, whose own thread is looked at.
OF_SERVERS = ("AnyIO worker thread", "page_", "uvloop_", "asyncio_", "(process_request_thread)")
ENDS_SECONDS = 60.0  # a bound: what was told to end may need a moment, on a loaded machine a long one


@dataclass(frozen=True)
class Running:
    """What runs at one moment, the pools of servers aside."""

    threads: frozenset[threading.Thread]
    children: frozenset[int]

    @classmethod
    def now(cls) -> "Running":
        """Return what runs now."""
        threads = (one for one in threading.enumerate() if not any(part in one.name for part in OF_SERVERS))
        return cls(frozenset(threads), _CHILDREN.now())

    def __or__(self, other: "Running") -> "Running":
        return Running(self.threads | other.threads, self.children | other.children)

    def __sub__(self, other: "Running") -> "Running":
        return Running(self.threads - other.threads, self.children - other.children)

    def left(self) -> list[str]:
        """Return what was not there then and is there still, after a while to end in; daemon threads count as well."""
        with contextlib.suppress(AssertionError):
            until(lambda: not self._since(), "what a test started ends", ENDS_SECONDS)
        return self._since()

    def _since(self) -> list[str]:
        new = Running.now() - self
        return Running(new.threads, frozenset(filter(lives, new.children))).names()

    def names(self) -> list[str]:
        """Return what it is, in words."""
        return sorted(
            [f"thread {thread.name}" for thread in self.threads]
            + [f"process {pid}: {_command(pid)}" for pid in self.children]
        )


class _Children:
    """The children of this process, also those that have ended; it looks again once anything began on this machine."""

    def __init__(self) -> None:
        self._newest = b""
        self._found: frozenset[int] = frozenset()

    def now(self) -> frozenset[int]:
        """Return them."""
        with open("/proc/loadavg", "rb", 0) as file:  # noqa: PTH123  twice a test: what is quick
            newest = file.read().split()[-1]  # the number that was given last, to a process or a thread
        if newest != self._newest:
            self._newest, self._found = newest, frozenset(_children())
        return self._found


_CHILDREN = _Children()


def _children() -> set[int]:
    found = b""
    for task in os.listdir("/proc/self/task"):  # noqa: PTH208
        with contextlib.suppress(OSError), open(f"/proc/self/task/{task}/children", "rb", 0) as file:  # noqa: PTH123
            found += file.read()
    return set(map(int, found.split()))


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return "has ended"


def forget_applications() -> None:
    """Let nothing but tests hold an application."""
    if (module := sys.modules.get(REMEMBERS)) is not None:
        for remembered in vars(module).values():
            if hasattr(remembered, "cache_clear"):
                remembered.cache_clear()


class Leftovers:
    """A plugin: conftest.py would not be told of fixtures of a session."""

    def __init__(self) -> None:
        self._shared = Running(frozenset(), frozenset())

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        """Note what a fixture of more than one test starts, whenever a test first asks for it."""
        if fixturedef.scope == "function":
            return (yield)
        before = Running.now()
        made = yield
        self._shared |= Running.now() - before
        return made

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Let the applications of a file go once it has ended."""
        if nextitem is None or nextitem.path != item.path:
            forget_applications()

    @pytest.fixture(autouse=True)
    def _nothing_outlives_its_test(self) -> Iterator[None]:
        before = Running.now()
        yield
        if left := (before | self._shared).left():
            pytest.fail(f"the test has left behind: {'; '.join(left)}")
