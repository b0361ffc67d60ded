"""What the store has been told of allocations, so that history is brought once, and only what is new of it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from agent.wire.bounded import json_said
from collector.importing.claims import GROUNDS, PLACEMENT, Claim, Ground
from collector.schedulers.books import AllocationKey, is_withdrawn, key_of, last_words, withdrawn
from collector.schedulers.poller import Row, moment_of

if TYPE_CHECKING:
    from collector.store.session import Session

_OF_HOSTS = ("cgroup", "declared", "process")  # whose word on allocations is that of a host, and not of its scheduler

_OF_THESE = """
started_at IS NOT NULL AND (
    run_id IN (SELECT run_id FROM known_names
        UNION SELECT alias_run_id FROM run_aliases WHERE run_id IN (SELECT run_id FROM known_names))
    OR (node IN (SELECT node FROM known_hosts)
        AND started_at < $until_us AND coalesce(ended_at, $until_us) > $since_us))
"""


@dataclass(frozen=True, slots=True)
class Sighting:
    """Somebody saw a run on a GPU: an agent, or an exporter's labels. Microseconds UTC; `name` as they know the run."""

    name: str
    gpu_uuid: str
    started_at: int
    ended_at: int


@dataclass(frozen=True, slots=True)
class KnownAllocations:
    """The last word on each allocation of some runs, and of whoever else was on the same hosts then."""

    rows: Mapping[AllocationKey, Row] = field(default_factory=dict)
    _runs: Mapping[str, Sequence[Row]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, rows: Iterable[Row]) -> "KnownAllocations":
        """Return the book of these rows."""
        kept = {key_of(row): row for row in rows}
        runs: dict[str, list[Row]] = defaultdict(list)
        for row in kept.values():
            runs[str(row["run_id"])].append(row)
        return cls(kept, runs)

    @classmethod
    def read(cls, session: "Session", claims: Iterable[Claim], until: int) -> "KnownAllocations":
        """Return what the store was told of the runs of these claims, and of their hosts meanwhile."""
        listed = list(claims)
        names = {name for claim in listed for name in (*claim.ids, *claim.names)}
        hosts = {claim.node for claim in listed}
        for table, column, values in (("known_names", "run_id", names), ("known_hosts", "node", hosts)):
            session.execute(f"CREATE OR REPLACE TEMP TABLE {table} ({column} VARCHAR)")
            session.load(table, (column,), [(value,) for value in sorted(values)])
        since = min((claim.started_at for claim in listed), default=until)
        found = cls.of(last_words(session, _OF_THESE, {"since_us": since, "until_us": until}))
        session.execute("DROP TABLE known_names")
        session.execute("DROP TABLE known_hosts")
        return found

    def of_run(self, run_id: str) -> Sequence[Row]:
        """Return the last word on each allocation of a run, by its scheduler."""
        return [row for row in self._runs.get(run_id, ()) if not _is_of_hosts(row)]

    def same(self, claim: Claim) -> Iterator[Row]:
        """Yield what was told of a claim: those rows that are still true."""
        for row in (row for run_id in claim.ids for row in self.of_run(run_id)):
            at_once = (moment_of(row, "started_at"), moment_of(row, "attempt") or 0) == (
                claim.started_at,
                claim.attempt,
            )
            there = _short(row.get("node")) == _short(claim.node) and row.get("member") == claim.member
            if at_once and there and not is_withdrawn(row):
                yield row

    def with_named(self, claim: Claim) -> Claim:
        """Return a claim with the GPUs that it was told to have, each on the ground on which that was told."""
        told = [(str(row["gpu_uuid"]), _ground_of(row)) for row in self.same(claim) if row.get("gpu_uuid")]
        named = dict(claim.named) | {uuid: ground for uuid, ground in told if ground != "assumed"}
        likely = frozenset(uuid for uuid, ground in told if ground == "assumed")
        return _with(claim, named, claim.likely | likely)

    def neighbours(self, claims: Iterable[Claim], until: int) -> list[Claim]:
        """Return what others held on the hosts of these claims: nobody can have had their GPUs meanwhile."""
        listed = list(claims)
        own = {name for claim in listed for name in (*claim.ids, *claim.names)}
        hosts = {claim.node for claim in listed}
        rows = (row for row in self.rows.values() if row["run_id"] not in own and row["node"] in hosts)
        taken = (row for row in rows if row.get("gpu_uuid") and not _is_of_hosts(row) and not is_withdrawn(row))
        return [_as_claim(row) for row in taken if (moment_of(row, "started_at") or 0) < until]

    def sightings(self, claims: Iterable[Claim]) -> list[Sighting]:
        """Return what hosts have told of GPUs and runs, under whatever name."""
        own = {run_id for claim in claims for run_id in claim.ids}
        return [
            Sighting(
                str(row["run_id"]),
                str(row["gpu_uuid"]),
                moment_of(row, "started_at") or 0,
                moment_of(row, "ended_at") or 2**63 - 1,
            )
            for row in self.rows.values()
            if row.get("gpu_uuid") and (_is_of_hosts(row) or row["run_id"] not in own)
        ]

    def news(self, rows: Iterable[Row]) -> list[Row]:
        """Return what these rows say that is new: allocations never told, ends, and a surer ground for a GPU."""
        found = (self._merged(row) for row in rows)
        return [row for row in found if row is not None]

    def withdrawn(self, claim: Claim, rows: Iterable[Row]) -> list[Row]:
        """Return the words that take back what was told of a claim and turns out to be elsewhere."""
        true = {key_of(row) for row in rows}
        return [withdrawn(row, claim.started_at) for row in self.same(claim) if key_of(row) not in true]

    def _merged(self, row: Row) -> Row | None:
        before = self.rows.get(key_of(row))
        if before is None or _is_of_hosts(before):
            return row
        if is_withdrawn(before):
            return row | {"gpu_fraction": 1.0}
        says = {name: row[name] for name in ("ended_at", "exit_status") if row.get(name) is not None}
        if GROUNDS.index(_ground_of(row)) < GROUNDS.index(_ground_of(before)):
            says["labels"] = row.get("labels")
        if all(before.get(name) == value for name, value in says.items()):
            return None
        return {name: value for name, value in row.items() if value is not None} | _said(before) | says


def waiting_told(session: "Session", prefix: str) -> list[Row]:
    """Return the last word on those that were told to wait, by the beginning of their runs' ids."""
    waits = "started_at IS NULL AND starts_with(run_id, $prefix)"
    return list(last_words(session, waits, {"prefix": prefix}, "ended_at IS NULL"))


def _ground_of(row: Row) -> Ground:
    """Return on what ground an allocation names its GPU; without a word on that, because it was told."""
    try:
        labels = json_said(str(row.get("labels") or "{}"))
    except ValueError:
        return "told"
    found = labels.get(PLACEMENT) if isinstance(labels, dict) else None
    return found if found in GROUNDS else "told"


def seen_on(claim: Claim, sightings: Mapping[str, Sequence[Sighting]]) -> Claim:
    """Return a claim with the GPUs on which others saw its run for most of the time that either lasted."""
    named = dict(claim.named)
    for name in (claim.run_id, *claim.names):
        for one in sightings.get(name, ()):
            if _mostly(claim, one):
                named[one.gpu_uuid] = "told"
    return _with(claim, named, claim.likely)


def by_name(sightings: Iterable[Sighting]) -> dict[str, list[Sighting]]:
    """Return sightings by the name of the run."""
    found: dict[str, list[Sighting]] = defaultdict(list)
    for one in sightings:
        found[one.name].append(one)
    return found


def _mostly(claim: Claim, one: Sighting) -> bool:
    end = min(one.ended_at, claim.ended_at if claim.ended_at is not None else one.ended_at)
    common = end - max(one.started_at, claim.started_at)
    shorter = min(one.ended_at - one.started_at, (claim.ended_at or one.ended_at) - claim.started_at)
    return common > 0 and 2 * common >= shorter


def _with(claim: Claim, named: Mapping[str, Ground], likely: frozenset[str]) -> Claim:
    return replace(claim, named=tuple(sorted(named.items())), likely=likely - named.keys())


def _as_claim(row: Row) -> Claim:
    uuid, is_assumed = str(row["gpu_uuid"]), _ground_of(row) == "assumed"
    return Claim(
        run_id=str(row["run_id"]),
        attempt=moment_of(row, "attempt") or 0,
        node=str(row["node"]),
        started_at=moment_of(row, "started_at") or 0,
        ended_at=moment_of(row, "ended_at"),
        gpus=1,
        member=uuid,
        named=() if is_assumed else ((uuid, _ground_of(row)),),
        likely=frozenset({uuid} if is_assumed else ()),
        facts=row,
    )


def _short(node: object) -> str:
    return str(node).split(".", 1)[0]


def _said(row: Row) -> Row:
    return {name: value for name, value in row.items() if value is not None}


def _is_of_hosts(row: Row) -> bool:
    return str(row.get("scheduler") or str(row["run_id"]).split("/", 1)[0]) in _OF_HOSTS
