"""What the store knows: the GPUs of each host, which of them were at work, and what it has been told of allocations.

So that history is brought once, and only what is new of it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from agent.wire.bounded import json_said
from collector.importing.placing import END_OF_TIME, GROUNDS, PLACEMENT, Claim, Gpu, Ground, Work, edges
from collector.schedulers.books import AllocationKey, is_withdrawn, key_of, last_words, number_of, withdrawn
from collector.schedulers.poller import Row, moment_of
from collector.store.session import Session

# Work that counts as a sign of who holds a GPU: long enough that no reading on the edge of a job can feign it.
_LEAST_WORK_US = 90_000_000
_LEAST_SAMPLES = 3
# A process that does nothing still holds memory: a context alone takes 300 to 500 MB. What a GPU never falls below is
# no sign, unless it is more than any driver keeps for itself.
_CONTEXT_BYTES = 200_000_000
_DRIVER_BYTES = 2_000_000_000

_GPUS = """
WITH every AS (
    SELECT node, gpu_uuid, parent_uuid, gpu_index, NULL AS first_at, NULL AS last_at
    FROM inventory WHERE gpu_uuid IS NOT NULL
    UNION ALL
    SELECT node, gpu_uuid, parent_uuid, NULL, min(started_at), max(ended_at) FROM gpu_samples GROUP BY ALL
)
SELECT node, gpu_uuid, max(gpu_index), coalesce(min(first_at), 0), coalesce(max(last_at), $end),
    count(parent_uuid) > 0 AS is_part
FROM every GROUP BY node, gpu_uuid ORDER BY node, max(gpu_index) NULLS LAST, gpu_uuid
"""

_WORK = """
WITH watched AS (
    SELECT node, gpu_uuid, started_at, ended_at, memory_used_bytes AS memory,
        greatest(coalesce(utilization_ratio, 0), coalesce(sm_active_ratio, 0)) AS activity
    FROM gpu_samples
    WHERE started_at >= $from_us AND started_at < $until_us AND node IN (SELECT node FROM claim_edges)
), floors AS (
    SELECT gpu_uuid, least(min(memory), $driver) + $context AS held FROM watched GROUP BY gpu_uuid
)
SELECT w.node, w.gpu_uuid, e.from_us, sum(w.ended_at - w.started_at)::BIGINT AS lasted
FROM watched w ASOF JOIN claim_edges e ON e.node = w.node AND e.from_us <= w.started_at
JOIN floors f USING (gpu_uuid)
WHERE w.ended_at <= e.until_us AND (w.activity > 0.01 OR w.memory > f.held)
GROUP BY ALL HAVING lasted >= $least AND count(*) >= $samples
"""


@dataclass(frozen=True, slots=True)
class Hosts:
    """The GPUs of each host, in the driver's order. Hosts that partition GPUs (MIG) are named, and have none here."""

    gpus: Mapping[str, Sequence[Gpu]] = field(default_factory=dict)
    numbers: Mapping[str, Mapping[int, str]] = field(default_factory=dict)  # by the driver's number
    partitioned: frozenset[str] = frozenset()
    _full: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, session: Session) -> "Hosts":
        """Return what the store knows."""
        found: dict[str, list[Gpu]] = defaultdict(list)
        numbers: dict[str, dict[int, str]] = defaultdict(dict)
        partitioned: set[str] = set()
        for node, uuid, number, first_at, last_at, is_part in session.rows(_GPUS, {"end": END_OF_TIME}):
            if is_part:
                partitioned.add(node)
                continue
            found[node].append(Gpu(uuid, first_at, last_at))
            if number is not None:
                numbers[node][number] = uuid
        short = {node.split(".", 1)[0]: node for node in (*found, *partitioned)}
        whole = {node: gpus for node, gpus in found.items() if node not in partitioned}
        return cls(whole, numbers, frozenset(partitioned), short)

    def name(self, node: str) -> str:
        """Return a host's name as the telemetry has it, which may be short here and long there."""
        if node in self.gpus or node in self.partitioned:
            return node
        return self._full.get(node.split(".", 1)[0], node)

    def numbered(self, node: str, numbers: Iterable[int]) -> tuple[tuple[str, Ground], ...]:
        """Return the GPUs of a host that these numbers name; none where one of them is not known."""
        found = [self.numbers.get(node, {}).get(number) for number in numbers]
        return () if None in found else tuple((str(uuid), "told") for uuid in found)


def work_of(session: Session, claims: Mapping[str, Sequence[Claim]], hosts: Hosts) -> dict[str, list[Work]]:
    """Return which GPUs were at work, host by host, between the edges of the claims on it.

    Hosts on which every claim takes all, or is named, are not asked for.
    """
    spans = [span for node, listed in claims.items() if _is_open(listed, hosts, node) for span in _spans(node, listed)]
    if not spans:
        return {}
    session.execute("CREATE OR REPLACE TEMP TABLE claim_edges (node VARCHAR, from_us BIGINT, until_us BIGINT)")
    session.load("claim_edges", ("node", "from_us", "until_us"), spans)
    bounds = {"from_us": min(span[1] for span in spans), "until_us": max(span[2] for span in spans)}
    limits = {"driver": _DRIVER_BYTES, "context": _CONTEXT_BYTES, "least": _LEAST_WORK_US, "samples": _LEAST_SAMPLES}
    found: dict[str, list[Work]] = defaultdict(list)
    for node, uuid, at, lasted in session.rows(_WORK, {**bounds, **limits}):
        found[node].append(Work(uuid, at, lasted))
    session.execute("DROP TABLE claim_edges")
    return found


def _is_open(claims: Iterable[Claim], hosts: Hosts, node: str) -> bool:
    count = len(hosts.gpus.get(node, ()))
    return any(len(claim.named) < claim.gpus < count for claim in claims)


def _spans(node: str, claims: Iterable[Claim]) -> list[tuple[str, int, int]]:
    return [(node, start, end) for start, end in pairwise(edges(claims))]


_OF_HOSTS = ("cgroup", "declared", "process")  # whose word on allocations is that of a host, and not of its scheduler

_OF_THESE = """
started_at IS NOT NULL AND (
    split_part(run_id, '@', 1) IN (SELECT run_id FROM known_names) OR run_id IN (SELECT run_id FROM known_names
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
    _numbers: Mapping[str, Sequence[Row]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, rows: Iterable[Row]) -> "KnownAllocations":
        """Return the book of these rows."""
        kept = {key_of(row): row for row in rows}
        runs: dict[str, list[Row]] = defaultdict(list)
        numbers: dict[str, list[Row]] = defaultdict(list)
        for row in kept.values():
            runs[str(row["run_id"])].append(row)
            numbers[number_of(row)].append(row)
        return cls(kept, runs, numbers)

    @classmethod
    def read(cls, session: Session, claims: Iterable[Claim], until: int) -> "KnownAllocations":
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

    def of_number(self, run_id: str) -> Iterator[Row]:
        """Yield the same of all runs that have had this number, one after the other."""
        return (row for row in self._numbers.get(run_id, ()) if not _is_of_hosts(row))

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


def waiting_told(session: Session, prefix: str) -> list[Row]:
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
    """Return a claim with the GPUs on which others saw its run for most of the time that either lasted.

    Where they saw as many as it holds, these are its own, whatever number its scheduler has for them: that may count
    GPUs in another order than the driver.
    """
    seen: dict[str, Ground] = {}
    for name in (claim.run_id, *claim.names):
        for one in sightings.get(name, ()):
            if _mostly(claim, one):
                seen[one.gpu_uuid] = "told"
    return _with(claim, seen if 0 < claim.gpus == len(seen) else dict(claim.named) | seen, claim.likely)


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
