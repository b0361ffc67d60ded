"""Which state of the ledger an answer was made from, so that nothing is made twice and nobody reads half of two."""

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

from agent.child import installed_version
from agent.wire.units import DAY_US, HOUR_US
from analyzer.settings.settings import PATHS, Settings
from collector.store.session import Session

T = TypeVar("T")
_KEPT = 64  # computed readings of periods and of runs: as many as people look at in a day
_FILES = tuple(name for name in PATHS if name != "profile_key")  # which figures are read from, each time anew

# A hash of every row would say the same at a hundred times the price: an hour's digest names the batch, the rules and
# the prices that it was made from. Hashed twice, or what an even number of rows have in common would cancel out.
_SAID = (
    "finding_judgements",
    "finding_mutes",
    "recommendation_predictions",
    "recommendation_words",
    "recommendation_applied",
    "invoice_matches",
)


def _each(**told: str) -> str:
    """Return a query of one row for each table: one after the other they are planned in a quarter of the time."""
    return " UNION ALL ".join(
        f"SELECT '{table}' AS t, ({what})::VARCHAR AS told FROM {table}" for table, what in told.items()
    )


_WORDS = dict.fromkeys(_SAID, "count(*)") | {
    "finding_mutes": "(count(*), count(*) FILTER (until > $now))",
    "recommendation_words": "(count(*), count(*) FILTER (recorded_at > $now - $rejected_us))",
}
_EXPIRED = "(count(*), max(recorded_at))"  # what observations are counted from, and what is said to be kept no longer
_CONTENT = _each(
    analysis="list(analysed_batch ORDER BY analysed_batch)",  # racks and groups of hosts are no part of an hour
    ledger_hours="(count(*), bit_xor(hash(hash(hour, status, input_digest))))",
    runs="(count(*), bit_xor(hash(hash(runs))))",
    adjustments="(count(*), max(recorded_at))",
    closed_hours="(count(*), max(closed_at))",
    charge_corrections="(count(*), max(recorded_at))",
    terms_applied="list(terms_applied)",
    amount_hours="(count(*), bit_xor(hash(hash(amount_hours))))",
    amount_corrections="(count(*), max(recorded_at))",
    retention=_EXPIRED,
    **_WORDS,
)
# What changes whenever the content does: a pass writes down that it was made, the upkeep what has expired, people's
# words are only ever added, and those that hold for a time end.
_MARKS = _each(analysis="analysis", retention=_EXPIRED, **_WORDS)  # a row each: to sort them here is cheaper


class Generations:
    """Names what figures are made of: the ledger's present content, the files that the settings name, and the day.

    Between two passes of the analysis it costs one look at a few counts and files. `clock` is in microseconds UTC.
    """

    def __init__(self, settings: Settings, clock: Callable[[], int] = lambda: time.time_ns() // 1000) -> None:
        self._files = [path for name in _FILES if (path := getattr(settings, name)) is not None]
        self._settings = f"{settings!r} {release()}"
        self._rejected_us = settings.guards.rejected_hours * HOUR_US
        self._clock = clock
        self._lock = threading.Lock()
        self._known: tuple[object, str] | None = None

    def of(self, session: Session) -> str:
        """Return the generation; it must be asked of a session that sees everything.

        A transaction that reads sees one, which is looked up once.
        """
        if session.found is None:
            return self._now(session)
        if self not in session.found:
            session.found[self] = self._now(session)
        return str(session.found[self])

    def _now(self, session: Session) -> str:
        now = self._clock()
        moment: dict[str, object] = {"now": now, "rejected_us": self._rejected_us}
        marks = (sorted(session.rows(_MARKS, moment)), self._told(), now // DAY_US)  # prices are told with their age
        with self._lock:
            if self._known is not None and self._known[0] == marks:
                return self._known[1]
        content = repr((sorted(session.rows(_CONTENT, moment)), self._settings, marks[1:]))
        name = hashlib.sha256(content.encode()).hexdigest()[:16]
        with self._lock:
            self._known = (marks, name)
        return name

    def _told(self) -> str:
        """Return a digest of the files; who reads one that cannot be read is told so."""
        digest = hashlib.sha256()
        for path in self._files:
            digest.update(f"{path}\n".encode())
            with suppress(OSError):
                digest.update(path.read_bytes())
        return digest.hexdigest()


class ReadingCache:
    """Readings that were made before, the least recently asked for goes first.

    Any number of threads may ask; of those that ask for the same, one makes it and the others wait for that.
    """

    def __init__(self, most: int = _KEPT) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Future[object]] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the reading of this key, made where it is not kept; one that fails is not kept."""
        with self._lock:
            promised = self._kept.get(key)
            mine = promised is None
            if promised is None:
                promised = self._kept[key] = Future()
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        if mine:
            self._make(key, promised, make)
        return promised.result()  # type: ignore[return-value]  # a key names what is of one type

    def has(self, key: Hashable) -> bool:
        """Whether the reading of this key is there."""
        with self._lock:
            promised = self._kept.get(key)
        return promised is not None and promised.done()

    def _make(self, key: Hashable, promised: "Future[object]", make: Callable[[], object]) -> None:
        try:
            promised.set_result(make())
        except BaseException as error:  # noqa: BLE001 - whatever it is, those who wait are told
            with self._lock:
                self._kept.pop(key, None)
            promised.set_exception(error)


class ByGeneration:
    """What is made of the whole ledger and takes long, once for all that read one state of it."""

    def __init__(self, generations: Generations) -> None:
        self._generations = generations
        self._kept = ReadingCache()

    def name(self, session: Session) -> str:
        """Return the name of this state of the ledger; `session` must see everything."""
        return self._generations.of(session)

    def has(self, session: Session, what: Hashable) -> bool:
        """Whether that is made already, so that nobody waits for it."""
        return self._kept.has((self.name(session), what))

    def get(self, session: Session, what: Hashable, make: Callable[[], T]) -> T:
        """Return what was made of this state of the ledger; `session` must see everything."""
        return self._kept.get((self.name(session), what), make)


def release() -> str:
    """Return our own version; empty in a checkout that is not installed."""
    return installed_version() or ""
