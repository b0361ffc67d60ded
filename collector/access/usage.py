"""Who read money or names, and who was refused: once an hour for each route, however often they come.

The first reading of an hour is written within seconds, the number of the others when the hour is over or the server
ends: a crash loses that number, and never that somebody has read. Paths are those of the routes and carry no name, so
that erasing a person's name leaves nothing of it here.
"""

import logging
import threading
import time
from collections.abc import Callable

from agent.wire.units import HOUR_US
from collector.errors import RegistryError
from collector.registry import Registry
from collector.registry.audit import AuditEntry, AuditKind

_LOG = logging.getLogger(__name__)
MOST_LINES = 10_000  # of one hour; what is beyond is counted under one name
_OTHERS = "others"

_Line = tuple[AuditKind, str, str, str]  # kind, actor, action, subject


class Usage:
    """Counts in memory, and writes to the audit when told to. Safe to use from several threads."""

    def __init__(self, registry: Registry, now: Callable[[], int] = lambda: time.time_ns() // 1000) -> None:
        self._registry = registry
        self._now = now
        self._lock = threading.Lock()
        self._hour = self._this_hour()
        self._counts: dict[_Line, int] = {}
        self._waiting: list[AuditEntry] = []
        self._used: set[str] = set()  # keys to write down; there are no more of them than keys
        self._seen: set[str] = set()  # those of this hour
        self._silent = False

    def note(self, kind: AuditKind, actor: str, action: str, subject: str) -> None:
        """Count one request; `actor` is a key's id, `subject` the route."""
        line: _Line = (kind, actor, action, subject)
        with self._lock:
            self._turn()
            if line not in self._counts and len(self._counts) >= MOST_LINES:
                line = (kind, _OTHERS, action, _OTHERS)
            if line not in self._counts:
                self._counts[line] = 0
                self._waiting.append(AuditEntry(self._hour, *line))
            else:
                self._counts[line] += 1

    def key(self, key_id: str) -> None:
        """Note that a key opened something, once an hour."""
        if key_id in self._seen:  # without the lock: what comes twice is written twice, and that is all
            return
        with self._lock:
            self._seen.add(key_id)
            self._used.add(key_id)

    def flush(self, *, last: bool = False) -> None:
        """Write what waits; with `last` also the counts of the hour that has not ended."""
        with self._lock:
            self._turn(at_once=last)
            entries, self._waiting = self._waiting, []
            used, self._used = self._used, set()
        try:
            self._registry.audit.add(entries)
            entries = []  # they are there: what fails now must not write them twice
            if used:
                self._registry.keys.used(sorted(used), self._now())
        except RegistryError as error:
            self._keep(entries, used, error)
            return
        self._silent = False

    def _keep(self, entries: list[AuditEntry], used: set[str], error: RegistryError) -> None:
        """Keep what could not be written, up to a bound."""
        with self._lock:
            self._waiting = (entries + self._waiting)[: 2 * MOST_LINES]
            self._used |= used
        if not self._silent:
            _LOG.error("the audit cannot be written, and waits: %s", error)
        self._silent = True

    def _turn(self, *, at_once: bool = False) -> None:
        """Close the hour where it is over: what was counted beyond the first is written now."""
        hour = self._this_hour()
        if hour == self._hour and not at_once:
            return
        self._waiting += [AuditEntry(self._hour, *line, count=more) for line, more in self._counts.items() if more]
        self._waiting = self._waiting[: 2 * MOST_LINES]
        self._hour = hour
        self._seen = set()
        self._counts = dict.fromkeys(self._counts, 0) if at_once else {}

    def _this_hour(self) -> int:
        return self._now() // HOUR_US * HOUR_US
