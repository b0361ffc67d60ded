"""Cut what is due into chunks of a size that fits into memory: hours that abut, or a part of one hour's GPUs."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from agent.wire.units import HOUR_MS
from analyzer.ledger.pending import Chunk
from collector.store.session import Session

GPU_HOURS = 11_000  # in one chunk of several hours: four million samples at one in ten seconds
GPUS = 12_000  # in one chunk of one hour: each part of an hour reads that hour's samples anew


def cut(session: Session) -> list[Chunk]:
    """Fill `due_groups` (gid, hour_ms, part) and return the chunks in order of time."""
    session.execute("CREATE OR REPLACE TEMP TABLE due_groups AS SELECT gid, hour_ms, 0::BIGINT AS part FROM due")
    counts = session.rows("SELECT hour_ms, count(*) FROM due GROUP BY hour_ms ORDER BY hour_ms")
    chunks: list[Chunk] = []
    for hours, gpu_hours in _abutting(counts):
        chunks += _parts(session, hours[0]) if gpu_hours > GPUS else [Chunk(hours[0], hours[-1] + HOUR_MS)]
    return chunks


def spans(session: Session, hours: Sequence[int], gpu_hours: int, *, least_hours: int = 1) -> list[tuple[int, int]]:
    """Cut hours of the ledger into spans of about so many GPU-hours, first and last hour of each."""
    if not hours:
        return []
    (gpus,) = session.row("SELECT count(DISTINCT gpu_uuid) FROM ledger WHERE hour = ?", [hours[-1]])
    most = max(least_hours, gpu_hours // max(1, gpus))
    return [(hours[at], hours[min(at + most, len(hours)) - 1]) for at in range(0, len(hours), most)]


def _abutting(counts: Iterable[tuple[int, int]]) -> Iterator[tuple[list[int], int]]:
    """Yield lists of hours that follow on one another, with their GPU-hours."""
    hours: list[int] = []
    total = 0
    for hour_ms, count in counts:
        if hours and (hour_ms != hours[-1] + HOUR_MS or total + count > GPU_HOURS):
            yield hours, total
            hours, total = [], 0
        hours.append(hour_ms)
        total += count
    if hours:
        yield hours, total


def _parts(session: Session, hour_ms: int) -> list[Chunk]:
    """Divide the GPUs of one hour into even parts of which no run, and no service, is in two."""
    edges = session.rows(
        """
        WITH held AS (
            SELECT DISTINCT h.rid, h.gid FROM holds h JOIN due d ON d.gid = h.gid AND d.hour_ms = ?
            WHERE h.from_ms < ? AND h.until_ms > ?
        )
        SELECT * FROM held
        UNION SELECT -r.sid, gid FROM held JOIN service_runs r USING (rid) ORDER BY ALL
        """,
        [hour_ms, hour_ms + HOUR_MS, hour_ms],
    )
    gpus = [gid for (gid,) in session.rows("SELECT gid FROM due WHERE hour_ms = ? ORDER BY gid", [hour_ms])]
    part_of: dict[int, int] = {}
    part = filled = 0
    for together in _components(gpus, edges):
        if filled and filled + len(together) > GPUS:
            part, filled = part + 1, 0
        filled += len(together)
        part_of.update(dict.fromkeys(together, part))
    session.execute("DELETE FROM due_groups WHERE hour_ms = ?", [hour_ms])
    session.load("due_groups", ("gid", "hour_ms", "part"), [(gid, hour_ms, which) for gid, which in part_of.items()])
    return [Chunk(hour_ms, hour_ms + HOUR_MS, number, number == part) for number in range(part + 1)]


def _components(gpus: Iterable[int], edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Return the GPUs that runs hold together, in the order of their first."""
    root = {gid: gid for gid in gpus}

    def find(gid: int) -> int:
        while root[gid] != gid:
            root[gid] = root[root[gid]]
            gid = root[gid]
        return gid

    first_of: dict[int, int] = {}
    for run, gid in edges:
        one, other = find(first_of.setdefault(run, gid)), find(gid)
        root[max(one, other)] = min(one, other)
    found: dict[int, list[int]] = defaultdict(list)
    for gid in sorted(root):
        found[find(gid)].append(gid)
    return list(found.values())
