"""What the store has been told of a cluster, so that asking again every minute writes only changes.

Of an allocation the key is that of the analyzer: run, attempt, GPU (or host and member) and start; the later row with
the same key is its new word. Of hosts, intervals that abut: a row is written when a state changes, and otherwise every
ten minutes (a host that is out of service) or every hour (one that is up): a thousand hosts that are well then cost a
thousand rows an hour, however often they are asked. Nothing changes here until what was told is safely in the store.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from agent.wire.tables import ALLOCATIONS
from agent.wire.units import SECOND_US
from collector.schedulers.poller import Poll, Row, Value, moment_of, sender
from collector.store.session import Session

_MOST_ALIASES = 200_000  # remembered; a forgotten one is told again


class AliasBook:
    """Knows the run that each alias was last told to stand for. Nothing changes here until rows are in the store."""

    def __init__(self, told: Iterable[tuple[str, str]] = ()) -> None:
        self._told = dict(told)

    @classmethod
    def read(cls, session: Session, prefix: str) -> "AliasBook":
        """Return what the store knows of the runs whose ids begin with this; of an alias told twice the later."""
        told = session.rows(
            "SELECT alias_run_id, run_id FROM run_aliases WHERE starts_with(run_id, ?) ORDER BY batch", [prefix]
        )
        return cls(told[-_MOST_ALIASES:])

    def news(self, rows: Iterable[Row]) -> list[Row]:
        """Return those rows that say something new."""
        return [row for row in rows if self._told.get(str(row["alias_run_id"])) != row["run_id"]]

    def keep(self, rows: Iterable[Row]) -> None:
        """Note that these rows are in the store, and forget the oldest of too many."""
        for row in rows:
            self._told[str(row["alias_run_id"])] = str(row["run_id"])
        while len(self._told) > _MOST_ALIASES:
            self._told.pop(next(iter(self._told)))


KEPT_US = 2 * 86_400 * SECOND_US  # how long an allocation that has ended is remembered; the scheduler may tell it again
_WAITING_RETOLD_US = (
    600 * SECOND_US
)  # a job that waits changes its reason and its rank with every pass of the scheduler
_DRIFTS = ("priority",)  # changes with time alone, and is no news
_OF_WAITING = ("pending_reason", "requested_gpus", "labels")  # news, but not at every poll

# Run, attempt, GPU (or host and member, where no GPU is known), start (None while waiting).
AllocationKey = tuple[str, int, str | None, int | None]


@dataclass(frozen=True, slots=True)
class _KnownAllocation:
    """The last word on one allocation, and when it was told, microseconds UTC."""

    row: Row
    told_at: int


class AllocationBook:
    """Knows the last word on every allocation that is open or ended lately."""

    def __init__(self, told: Iterable[Row] = ()) -> None:
        self._told: dict[AllocationKey, _KnownAllocation] = {}
        self._runs: dict[str, dict[AllocationKey, None]] = {}  # by number
        for row in told:
            self._keep(row, 0)

    @classmethod
    def read(cls, session: Session, prefix: str, now: int, *, without_gpu: bool = False) -> "AllocationBook":
        """Return what the store knows of the runs whose ids begin with this.

        `without_gpu` leaves out rows that name a GPU, where the scheduler itself never does and its hosts do.
        """
        return cls(
            last_words(
                session,
                "starts_with(run_id, $prefix) AND scheduler = split_part($prefix, '/', 1)",
                {"prefix": prefix, "since": now - KEPT_US, "without_gpu": without_gpu},
                "(ended_at IS NULL OR ended_at > $since) AND NOT ($without_gpu AND gpu_uuid IS NOT NULL)",
            )
        )

    def news(self, rows: Iterable[Row], now: int) -> list[Row]:
        """Return those rows that say something new, with what was known before where they say nothing."""
        found: dict[AllocationKey, Row] = {}
        for row in rows:
            key = key_of(row)
            before = self._told.get(key)
            merged = row if before is None else _merged(before.row, row)
            if before is None or _is_news(before, merged, now):
                found[key] = merged
        return list(found.values())

    def keep(self, rows: Iterable[Row], now: int) -> None:
        """Note that these rows are in the store, and forget what has long ended."""
        for row in rows:
            self._keep(row, now)
        old = [key for key, told in self._told.items() if _ended(told.row, now - KEPT_US)]
        for key in old:
            number = number_of(self._told.pop(key).row)
            self._runs[number].pop(key)
            if not self._runs[number]:
                del self._runs[number]

    def of(self, number: str) -> Iterator[Row]:
        """Yield the last word on each allocation of the runs that have had a number, one after the other."""
        return (self._told[key].row for key in self._runs.get(number, ()))

    def open(self) -> Iterator[Row]:
        """Yield every allocation that has no end yet, waiting ones too."""
        return (told.row for told in self._told.values() if told.row.get("ended_at") is None)

    def __len__(self) -> int:
        return len(self._told)

    def _keep(self, row: Row, now: int) -> None:
        key = key_of(row)
        self._told[key] = _KnownAllocation(row, now)
        self._runs.setdefault(number_of(row), {})[key] = None


def last_words(session: Session, where: str, parameters: dict[str, object], then: str = "true") -> Iterator[Row]:
    """Yield the last word on each allocation that the store was told of, of rows that are so, those that are `then` so.

    `where` is asked of every row, and so is which of them is the last; `then` of the last alone.
    """
    rows = session.rows(
        f"""
        SELECT {", ".join(ALLOCATIONS.names)} FROM (
            SELECT * FROM allocations WHERE {where}
            QUALIFY row_number() OVER (
                PARTITION BY run_id, coalesce(attempt, 0), coalesce(gpu_uuid, node),
                    CASE WHEN gpu_uuid IS NULL THEN member END, started_at ORDER BY batch DESC
            ) = 1)
        WHERE {then}
        """,
        parameters,
    )
    return (dict(zip(ALLOCATIONS.names, row, strict=True)) for row in rows)


def key_of(row: Mapping[str, Value]) -> AllocationKey:
    """Return what makes an allocation one and the same."""
    where = row.get("gpu_uuid") or " ".join(str(row[part]) for part in ("node", "member") if row.get(part))
    return str(row["run_id"]), moment_of(row, "attempt") or 0, str(where) or None, moment_of(row, "started_at")


def number_of(row: Row) -> str:
    """Return the number of a row's run in its cluster: schedulers give one again, and the later run is <number>@<s>."""
    return str(row["run_id"]).split("@", 1)[0]


def withdrawn(row: Row, started_at: int) -> Row:
    """Return the word that takes an allocation back: it has no length, and no part of the GPU."""
    return row | {"ended_at": started_at, "exit_status": None, "gpu_fraction": 0.0}


def is_withdrawn(row: Row) -> bool:
    """Whether an allocation was taken back."""
    return row.get("gpu_fraction") == 0.0


def _merged(before: Row, row: Row) -> Row:
    """Return the new word, and of the old one what the new does not say: accounting knows no dependency and no rank."""
    return row if is_withdrawn(before) else before | {name: value for name, value in row.items() if value is not None}


def _is_news(before: _KnownAllocation, row: Row, now: int) -> bool:
    changed = {name for name, value in row.items() if before.row.get(name) != value} - set(_DRIFTS)
    if row.get("started_at") is None and row.get("ended_at") is None and now - before.told_at < _WAITING_RETOLD_US:
        changed -= set(_OF_WAITING)
    return bool(changed)


def _ended(row: Row, before: int) -> bool:
    ended = moment_of(row, "ended_at")
    return ended is not None and ended < before


_GAP_POLLS = 3  # of silence, after which a state is no longer bridged
_UP_TOLD_US = 3600 * SECOND_US
_OTHER_TOLD_US = 600 * SECOND_US
_LONGEST_US = 30 * 86_400 * SECOND_US  # of one row; the collector refuses more than 32 days


@dataclass(frozen=True, slots=True)
class NodeState:
    """One host: `state` is up, drained, reserved or down; `since` is when its reason was set, microseconds UTC."""

    node: str
    state: str
    reason: str | None = None
    since: int | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """How long a host has been seen in a state, and until when that was told; microseconds UTC."""

    state: str
    reason: str | None
    told_until: int
    seen_until: int


class NodeBook:
    """Turns what is seen at each poll into intervals. `gap_us` of silence is no longer bridged."""

    def __init__(self, gap_us: int, told: Mapping[str, Span] | None = None) -> None:
        self._gap = gap_us
        self._spans: dict[str, Span] = dict(told or {})
        self._next: dict[str, Span] = {}

    @classmethod
    def read(cls, session: Session, every_seconds: float) -> "NodeBook":
        """Return what the store was told last of each host, for a source that is asked this often."""
        rows = session.rows(
            """
            SELECT node, state, reason, ended_at FROM node_states WHERE state IS NOT NULL
            QUALIFY row_number() OVER (PARTITION BY node ORDER BY ended_at DESC, batch DESC) = 1
            """
        )
        gap_us = round(_GAP_POLLS * every_seconds * SECOND_US)
        return cls(gap_us, {node: Span(state, reason, ended, ended) for node, state, reason, ended in rows})

    def news(self, states: Iterable[NodeState], now: int) -> list[Row]:
        """Return the intervals that have ended or lasted long enough. Call `keep` once they are in the store."""
        rows: list[Row] = []
        self._next = {}
        for seen in states:
            span = self._bridged(seen, now)
            if (span.state, span.reason) != (seen.state, seen.reason):
                rows += _row(seen.node, span, now)
                span = Span(seen.state, seen.reason, now, now)
            elif now - span.told_until >= (_UP_TOLD_US if span.state == "up" else _OTHER_TOLD_US):
                rows += _row(seen.node, span, now)
                span = Span(span.state, span.reason, now, now)
            self._next[seen.node] = Span(span.state, span.reason, span.told_until, now)
        return rows

    def keep(self) -> None:
        """Note that the last news are in the store. Hosts that the scheduler no longer names are forgotten."""
        self._spans = self._next

    def flush(self) -> list[Row]:
        """Return what was seen and not told yet, for the end."""
        return [row for node, span in self._spans.items() for row in _row(node, span, span.seen_until)]

    def _bridged(self, seen: NodeState, now: int) -> Span:
        """Return the span that this sight goes on with, or a new one.

        After a silence the state may have been another; that a reason is older than the silence says that it was not.
        """
        before = self._spans.get(seen.node)
        if before is not None and 0 <= now - before.seen_until <= self._gap:
            return before
        since = now if seen.since is None or seen.state == "up" else max(seen.since, now - _LONGEST_US)
        told = before.told_until if before is not None else 0
        return Span(seen.state, seen.reason, min(max(since, told), now), now)


def _row(node: str, span: Span, until: int) -> list[Row]:
    if until <= span.told_until:
        return []
    started = max(span.told_until, until - _LONGEST_US)
    return [{"node": node, "started_at": started, "ended_at": until, "state": span.state, "reason": span.reason}]


@dataclass(slots=True)
class ClusterState:
    """What is remembered of a cluster from poll to poll; `asked_until`, microseconds UTC, is how far it was heard."""

    book: AllocationBook
    nodes: NodeBook
    asked_until: int
    aliases: AliasBook = field(default_factory=AliasBook)

    @classmethod
    def read(
        cls, session: Session, name: str, every_seconds: float, now: int, first: int, *, without_gpu: bool = False
    ) -> "ClusterState":
        """Return what the store knows of a cluster like slurm/alpha; `first` is `asked_until` of one that is new."""
        (last,) = session.row("SELECT max(sent_at) FROM receipts WHERE agent = ?", [sender(name)])
        book = AllocationBook.read(session, f"{name}/", now, without_gpu=without_gpu)
        nodes = NodeBook.read(session, every_seconds)
        return cls(book, nodes, last or first, AliasBook.read(session, f"{name}/"))

    def landed(self, poll: Poll) -> None:
        """Note that a poll's rows are in the store."""
        self.book.keep(poll.tables.get("allocations", ()), poll.found_at)
        self.nodes.keep()
        self.aliases.keep(poll.tables.get("run_aliases", ()))

    def closing(self, now: int) -> Poll:
        """Return what was seen and not told yet, for the end."""
        return Poll(now, {"node_states": rows} if (rows := self.nodes.flush()) else {}, complete=False)
