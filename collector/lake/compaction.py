"""The jobs that compact: many small files of a span become few, ordered, and what was deleted is gone from them.

DuckLake's own merge_adjacent_files joins files until they reach a size, whatever days they hold. Here a span is read
and written anew and its old rows deleted, in one transaction: the files then end where the day ends. What another
collector seals meanwhile is in files of its own and is not touched; what another compacts meanwhile conflicts, and the
one who is late leaves it.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from agent.wire.units import DAY_US, HOUR_US
from collector.lake.damage import require_whole
from collector.lake.lake_files import LakeFile, Outcome, files, flush, paths, scattered, writing
from collector.store.database import Store
from collector.store.lake import delete
from collector.store.noted import named_files
from collector.store.session import Session, literal
from collector.tier_tables import MONDAY_US, Layout, layouts, tier_of

_SETTLED_US = HOUR_US // 4  # how long after its end a span is left to those who still seal it
_SMALL_BYTES = 64 * 2**20  # a file of a full day of a large fleet is larger, and there are several
_FEW = 4  # small files that an hour may have
_NOT_MUCH_BYTES = 256 * 2**20  # written anew, as a whole, for one late hour
_MOST_SPANS = 400  # that a file is taken to hold all of; of one that reaches further its rows are asked


@dataclass(frozen=True, slots=True)
class Window:
    """Rows of one table that begin in a span, and the files that hold any of them."""

    layout: Layout
    start: int
    end: int
    files: tuple[LakeFile, ...]

    @property
    def small(self) -> int:
        """How many of the files are small."""
        return sum(file.bytes < _SMALL_BYTES for file in self.files)

    @property
    def bytes(self) -> int:
        """How large its files are together."""
        return sum(file.bytes for file in self.files)

    def is_settled(self, now_us: int) -> bool:
        """Say whether it is over for long enough that no more is sealed into it, but what is late."""
        return self.end <= now_us - _SETTLED_US


def merge_recent(store: Store, deadline: float, now_us: int, give_way: Callable[[], None] = lambda: None) -> Outcome:
    """Merge what was sealed in each hour of today into one file an hour, and what was rolled up today into one.

    Raises:
        StoreError: the lake refused a span; those before it are kept.
    """
    flush(store)
    today = now_us // DAY_US * DAY_US
    found = _windows(_files(store), lambda layout: HOUR_US if _is_sealed(layout) else DAY_US)
    due = [
        window
        for window in found
        if window.small > _FEW
        and window.end > today - HOUR_US  # yesterday's last hour is whole only now
        and (window.is_settled(now_us) or not _is_sealed(window.layout))
    ]
    return _compacted(store, due, deadline, give_way)


def _is_sealed(layout: Layout) -> bool:
    """Say whether rows come with every sealing; what does not can be merged before its day is over."""
    return layout.span_us == DAY_US and tier_of(layout.table) == "raw"


def compact(store: Store, deadline: float, now_us: int, give_way: Callable[[], None] = lambda: None) -> Outcome:
    """Compact the days that are over (of what there is little of: weeks, months), and merge the small tables.

    Raises:
        StoreError: the lake refused a span; those before it are kept.
    """
    flush(store)
    due = [
        window
        for window in _settled(_files(store), now_us)
        if window.small > 1 or any(file.has_deletes for file in window.files)
    ]
    outcome = _compacted(store, due, deadline, give_way)
    if not outcome.again:
        _merge_small(store, [window.layout.table for window in due])
    return outcome


def _merge_small(store: Store, compacted: Iterable[str]) -> None:
    """Merge the files of what is not cut by day: facts that stay few, and the books, which are replaced day by day; and
    rid what was compacted of files whose rows have all gone elsewhere.

    The books are an analyzer's, which may be another process. DuckLake lets a merge and a delete both commit now and
    then (its issue 1094), so they are left alone where a server keeps the catalogue and `turn` holds nobody else back.
    """
    with store.turn, store.session() as session:
        is_ours = store.lake is not None and store.lake.file is not None
        few = [
            (schema, table)
            for schema, table in scattered(session, _FEW)
            if (schema == "main" and table not in layouts()) or (schema != "main" and is_ours)
        ]
        merged = {table for _, table in few}.union(compacted)
        require_whole(store, {file.name for file in named_files(session) if file.table in merged})
        for schema, table in few:
            session.rows(f"CALL ducklake_merge_adjacent_files('lake', '{table}', schema => '{schema}')")
        for schema, table in [*few, *(("main", table) for table in sorted(set(compacted)))]:
            where = f"'lake', '{table}', schema => '{schema}'"
            session.rows(f"CALL ducklake_rewrite_data_files({where}, delete_threshold => 0.5)")


def _settled(there: list[LakeFile], now_us: int) -> list[Window]:
    """Return the spans that are over, oldest first: the longest of a table where it is not much, else the usual."""
    long = [
        window
        for window in _windows(there, lambda layout: layout.longest_us)
        if window.is_settled(now_us) and window.bytes <= _NOT_MUCH_BYTES
    ]
    taken = {(window.layout.table, day) for window in long for day in range(window.start, window.end, DAY_US)}
    usual = [
        window
        for window in _windows(there, lambda layout: layout.span_us)
        if window.is_settled(now_us) and (window.layout.table, window.start) not in taken
    ]
    return sorted([*long, *usual], key=lambda window: window.start)


def _files(store: Store) -> list[LakeFile]:
    """Return the files of all tables that grow with time; one that reaches far, once for each day that it has.

    A host whose clock began in 2020 puts rows of then and of today into one file: there is nothing in between.
    """
    known = layouts()
    with store.session() as session:
        there = files(session, {layout.table: layout.clock for layout in known.values()})
        return [part for file in there for part in _parts(session, file, known[file.table])]


def _parts(session: Session, file: LakeFile, layout: Layout) -> list[LakeFile]:
    shortest = HOUR_US if _is_sealed(layout) else DAY_US
    if file.last - file.first < _MOST_SPANS * shortest:
        return [file]
    path = paths(session, layout.table).get(file.name)
    days = f"""
        SELECT min({layout.clock}), max({layout.clock}) FROM {layout.table} WHERE filename = {literal(path or "")}
        GROUP BY {layout.clock} // {DAY_US} ORDER BY 1
    """
    return [replace(file, first=first, last=last) for first, last in session.rows(days)]


def _windows(there: list[LakeFile], span_of: Callable[[Layout], int]) -> list[Window]:
    """Return all spans of all tables that have files, oldest first."""
    known = layouts()
    spans: dict[tuple[int, str], list[LakeFile]] = {}
    for file in there:
        span = span_of(known[file.table])
        for start in _starts(file, span):
            spans.setdefault((start, file.table), []).append(file)
    return [
        Window(known[table], start, start + span_of(known[table]), tuple(held))
        for (start, table), held in sorted(spans.items())
    ]


def _starts(file: LakeFile, span: int) -> Iterable[int]:
    first = (file.first - MONDAY_US) // span * span + MONDAY_US
    return range(first, file.last + 1, span)


def _compacted(store: Store, due: list[Window], deadline: float, give_way: Callable[[], None]) -> Outcome:
    done = taken = 0
    for window in due:
        if done and time.monotonic() > deadline:
            break
        give_way()
        taken += _rewrite(store, window)
        done += 1
    left = len(due) - done
    said = f"{taken} files of {done} spans compacted" + (f", {left} spans wait" if left else "")
    return Outcome(said, taken, again=left > 0)


def _rewrite(store: Store, window: Window) -> int:
    """Write a span's rows anew, in order, and return how many files they were in; 0 where another was faster."""
    layout = window.layout
    table = f"lake.main.{layout.table}"
    require_whole(store, {file.name for file in window.files})
    with writing(store) as session:
        there = paths(session, layout.table)
        if not all(file.name in there for file in window.files):
            return 0
        listed = ", ".join(literal(there[file.name]) for file in window.files)
        where = f"filename IN ({listed}) AND {layout.clock} >= {window.start} AND {layout.clock} < {window.end}"
        session.execute(f"INSERT INTO {table} SELECT * FROM {table} WHERE {where} ORDER BY {layout.order}")
        delete(session, f"DELETE FROM {table} WHERE {where}")
    return len(window.files)
