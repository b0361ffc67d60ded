"""What of hosts' word is believed of runs: nothing of a run that its scheduler has put elsewhere.

The collector puts aside what is not a host's to tell at all (collector/pipeline/decoding/own_word.py). Whether a run
that a host names is one of its own is known only here, where the scheduler's word lies beside it, and may come later.
What a host says of a run of which it is not heard is told of a run of its own, by a name of its own. The store keeps it
as it was.

A pass sees this by views of its own session, over tables that are made once for it. Whoever reads has `believing`
sessions, before which the same views stand, over tables of the store that are made anew when other rows are there: to
find out in each statement who is believed took longer than what was asked. What came since is not believed yet.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from agent.wire.tables import TABLES
from collector.store.lake import tables_with_rows
from collector.store.noted import newest_snapshot
from collector.store.schemas import declared, nothing_of
from collector.store.session import Session

if TYPE_CHECKING:
    from collector.store.database import Store

_JOINING_US = 900_000_000  # the hosts of a run that no scheduler knows tell of it within a quarter of an hour
_NAMED = tuple(name for name, table in TABLES.items() if table.has("told_by") and name != "run_aliases")
# Rows beside one another may each be true and come to more than any device can move: that is unknown, and no error. So
# is a reading that no device tells: the door takes none, but a store may be older than its rules.
_AMOUNTS = (
    f"CREATE OR REPLACE TEMP MACRO amount(x) AS CASE WHEN x BETWEEN {-(2**53)} AND {2**53} THEN x::BIGINT END",
    f"CREATE OR REPLACE TEMP MACRO whole(x) AS CASE WHEN x BETWEEN 0 AND {2**53} THEN round(x)::HUGEINT END",
    "CREATE OR REPLACE TEMP MACRO permille(x) AS CASE WHEN x BETWEEN -32 AND 32 THEN round(1000 * x)::SMALLINT END",
    "CREATE OR REPLACE TEMP MACRO permille_of(part, whole) AS "
    "CASE WHEN part / whole BETWEEN -32 AND 32 THEN round(1000 * part / whole)::SMALLINT END",
    f"CREATE OR REPLACE TEMP MACRO milli(x) AS CASE WHEN abs(x) <= {2**43} THEN round(1000 * x)::BIGINT END",
    # Whether a latency that lies between two bounds, `high` null beyond the last, kept a promise; null: not known.
    "CREATE OR REPLACE TEMP MACRO kept_promise(p99, low, high, slo) AS "
    "CASE WHEN low IS NULL THEN p99 <= slo WHEN high <= slo THEN true WHEN low >= slo THEN false END",
    # What lies beyond the engine's last bucket is later than any promise.
    "CREATE OR REPLACE TEMP MACRO latency_micros(p99, low) AS CASE WHEN p99 > 1000000 OR (p99 IS NULL "
    "AND low IS NOT NULL) THEN 1000000000000 ELSE whole(1000000 * p99) END::BIGINT",
    f"CREATE OR REPLACE TEMP MACRO micro(x) AS CASE WHEN abs(x) <= {2**33} THEN round(1000000 * x)::BIGINT END",
)
_OF_HOSTS = "('process', 'declared', 'cgroup')"
# Whose word is believed of which run, where hosts send under keys of their own. A scheduler's word stands; a host is
# heard of a run that its scheduler has put there, and of one that no scheduler knows where it was there from the run's
# beginning. `place` is where the tables of the contract are, `own` where these are.
_BELIEF = {
    "scheduled": f"""
SELECT DISTINCT run_id, node FROM {{place}}.allocations
WHERE told_by IS NULL AND node IS NOT NULL AND coalesce(scheduler, split_part(run_id, '/', 1)) NOT IN {_OF_HOSTS}""",
    # When each host first said that it holds GPUs for a run, by the collectors' clocks.
    "claims": """
SELECT run_id, told_by AS node, min(batch >> 8) AS at_us FROM {place}.allocations WHERE told_by IS NOT NULL GROUP BY ALL
""",
    "hosts_heard": "SELECT node FROM {books}.gpus_sighted UNION SELECT node FROM {own}claims",
    # Where a scheduler calls hosts by other names than they call themselves, nothing follows from the names.
    "vouched": "SELECT DISTINCT run_id FROM {own}scheduled WHERE node IN (FROM {own}hosts_heard)",
    # Another name of a run is believed of a scheduler, as is a number that it gave again, else of hosts that all use it
    # alike, none of which is a stranger to the run.
    "names_believed": """
WITH of_hosts AS (
    SELECT DISTINCT alias_run_id, run_id, told_by AS node FROM {place}.run_aliases WHERE told_by IS NOT NULL
), disputed AS (
    SELECT h.alias_run_id, h.run_id FROM of_hosts h JOIN {own}claims c ON c.run_id = h.alias_run_id
    WHERE (h.alias_run_id, h.run_id, c.node) NOT IN (FROM of_hosts)
)
SELECT DISTINCT alias_run_id, run_id, NULL::VARCHAR AS node FROM {place}.run_aliases WHERE told_by IS NULL
UNION
SELECT split_part(run_id, '@', 1), run_id, NULL FROM {place}.allocations
WHERE told_by IS NULL AND starts_with(run_id, 'slurm/') AND contains(run_id, '@')
UNION
SELECT * FROM of_hosts
WHERE alias_run_id NOT IN (SELECT run_id FROM {own}scheduled) AND (alias_run_id, run_id) NOT IN (FROM disputed)
    AND alias_run_id NOT IN (SELECT alias_run_id FROM {place}.run_aliases WHERE told_by IS NULL)
    AND (run_id NOT IN (FROM {own}vouched) OR (run_id, node) IN (FROM {own}scheduled))""",
    # By the names that hosts use: of which runs each is heard.
    "heard": f"""
WITH meant AS (
    SELECT c.run_id, c.node, c.at_us, coalesce(n.run_id, c.run_id) AS run FROM {{own}}claims c
    LEFT JOIN {{own}}names_believed n ON n.alias_run_id = c.run_id AND (n.node IS NULL OR n.node = c.node)
), begun AS (
    SELECT *, min(at_us) OVER (PARTITION BY run) AS first_us, split_part(run, '/', 2) AS place FROM meant
)
SELECT run_id, node FROM begun
WHERE CASE WHEN run IN (FROM {{own}}vouched) THEN (run, node) IN (FROM {{own}}scheduled)
           WHEN split_part(run, '/', 1) IN ('process', 'declared') AND place IN (FROM {{own}}hosts_heard)
           THEN place = node
           ELSE at_us - first_us <= {_JOINING_US} END
UNION
SELECT run_id, node FROM {{own}}scheduled
UNION
SELECT n.alias_run_id, s.node FROM {{own}}names_believed n JOIN {{own}}scheduled s USING (run_id)""",
}
# The newest row is no mark: a sealing of another collector may bring older numbers.
_MADE_OF = """
SELECT (SELECT (count(*), sum(batch)) FROM {place}.allocations),
    (SELECT (count(*), sum(batch)) FROM {place}.run_aliases),
    (SELECT (count(*), sum(hash(node))) FROM {books}.gpus_sighted)
"""
_NAMES = """
SELECT * FROM {place}.run_aliases
WHERE told_by IS NULL
    OR (alias_run_id, run_id, told_by) IN (SELECT (alias_run_id, run_id, node) FROM {own}names_believed)
"""
_RUNS = """
SELECT * REPLACE (
    CASE WHEN told_by IS NULL OR (run_id, told_by) IN (SELECT (run_id, node) FROM {own}heard) THEN run_id
         ELSE 'declared/' || told_by || '/' || replace(run_id, '/', '.') END AS run_id)
FROM {place}.{table}
"""
_BEFORE, _BELIEVED = "believed.main", "believed.belief"
_WRITTEN = "written.main"
_LAKE = "lake.main"  # where the tables of the contract are, where there is a lake


def believing(store: "Store") -> Session:
    """Return a new session to read the store, whose tables of runs show only what is believed.

    A command opens its store for itself: where there is nobody to doubt it makes no such views, which takes longer than
    most of its statements.

    In the place of a lake's tables into which nobody has ever written a row there are empty views: each statement that
    names a table of a lake asks the catalogue for it, which takes ten times as long as all else that most of them do.
    """
    if not store.writes:
        session = store.session()
        if not _is_doubted(session, _places(store.search_path)[0]):
            if store.lake is None:
                return session
            session.close()
            return store.session_behind("written", _hiding, _unwritten)
        session.close()
    return store.session_behind("believed", _standing_views, _made_of)


def show_believed(session: Session) -> None:
    """Let the session of a pass see only what is believed in the tables of runs, as it is now.

    Where no host sends under a key of its own there is nobody to doubt.
    """
    for macro in _AMOUNTS:
        session.execute(macro)
    place, books = _places(session.search_path)
    if _is_doubted(session, place):
        for name, sql in _BELIEF.items():
            session.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {sql.format(place=place, books=books, own='')}")
        for table, sql in _views(place, own=""):
            session.execute(f"CREATE OR REPLACE TEMP VIEW {table} AS {sql}")


@dataclass(frozen=True, slots=True)
class _MadeOf:
    """What tells the rows that belief is made of from others; None where there is nobody to doubt.

    In the same snapshot of a lake they are the same, and to look at them there takes ten times as long.
    """

    rows: tuple[object, ...] | None
    unwritten: frozenset[str]  # tables of the lake
    snapshot: int | None = field(compare=False)


def _made_of(session: Session, path: str, known: _MadeOf | None) -> _MadeOf:
    place, books = _places(path)
    snapshot = newest_snapshot(session) if place == _LAKE else None
    if known is not None and snapshot is not None and known.snapshot == snapshot:
        return known
    is_doubted = _is_doubted(session, place)
    rows = session.row(_MADE_OF.format(place=place, books=books)) if is_doubted else None
    return _MadeOf(rows, _unwritten(session, path), snapshot)


def _is_doubted(session: Session, place: str) -> bool:
    told = {"allocations", "run_aliases"} - (_unwritten(session, place) if place == _LAKE else set())
    each = [f"SELECT 1 FROM {place}.{table} WHERE told_by IS NOT NULL" for table in sorted(told)]
    # Planned in half the time of EXISTS.
    return bool(each) and bool(session.rows(f"{' UNION ALL '.join(each)} LIMIT 1"))


@cache
def _may_be_unwritten() -> frozenset[str]:
    return frozenset(declared().keys() - {"receipts", "markers"})


def _unwritten(session: Session, path: str, _: object = None) -> frozenset[str]:
    """Return the tables of the lake into which nobody has ever written a row; none where there is no lake."""
    if _places(path)[0] != _LAKE:
        return frozenset()
    return _may_be_unwritten() - tables_with_rows(session, "main")


def _hiding(_: str, unwritten: frozenset[str]) -> Iterator[str]:
    for table in sorted(unwritten):
        yield f"CREATE OR REPLACE VIEW {_WRITTEN}.{table} AS {nothing_of(table)}"
    for table in sorted(_may_be_unwritten() - unwritten):
        yield f"DROP VIEW IF EXISTS {_WRITTEN}.{table}"


def _standing_views(path: str, made_of: _MadeOf) -> Iterator[str]:
    place, books = _places(path)
    own = f"{_BELIEVED}."
    yield f"CREATE SCHEMA IF NOT EXISTS {_BELIEVED}"
    for name, sql in _BELIEF.items():
        yield f"CREATE OR REPLACE TABLE {own}{name} AS {sql.format(place=place, books=books, own=own)}"
    shown = dict(_views(place, own)) | {table: nothing_of(table) for table in sorted(made_of.unwritten)}
    for table, sql in shown.items():
        yield f"CREATE OR REPLACE VIEW {_BEFORE}.{table} AS {sql}"
    for table in sorted(_may_be_unwritten() - shown.keys()):
        yield f"DROP VIEW IF EXISTS {_BEFORE}.{table}"
    for name in _BELIEF.keys() - {"names_believed", "heard"}:  # which the views name: the others only take memory
        yield f"DROP TABLE {own}{name}"


def _views(place: str, own: str) -> Iterator[tuple[str, str]]:
    yield "run_aliases", _NAMES.format(place=place, own=own)
    for table in _NAMED:
        yield table, _RUNS.format(table=table, place=place, own=own)


def _places(path: str) -> tuple[str, str]:
    """Return where the tables of the contract are, and those of the ledger: Store.session()."""
    places = path.removeprefix(f"{_WRITTEN},").split(",")
    return places[0], places[-1]
