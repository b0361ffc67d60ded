"""Bring what a scheduler did into the store: allocations on GPUs, names, states of hosts; each once, and only news.

And what an imported fleet owns: nobody declared it, so that every GPU that was seen counts as owned from the first day.
A host whose metrics are missing for a while is then not measured, rather than absent. Where one board took the place of
another, ownership changes hands between them. GPUs that somebody declared to be owned are left alone.
"""

import hashlib
import json
import logging
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import uuid4
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from agent.wire.tables import OWNERSHIP, TABLES
from agent.wire.units import SECOND_US
from collector.errors import ConfigError
from collector.importing.known_allocations import (
    Hosts,
    KnownAllocations,
    Sighting,
    by_name,
    seen_on,
    waiting_told,
    work_of,
)
from collector.importing.placing import PLACEMENT, Claim, Ground, Placed, by_host, place_claims
from collector.pipeline.batch_commit import chunked_import
from collector.pipeline.decoding.arrow_messages import arrow_schema
from collector.pipeline.decoding.validation import Clock, plausible
from collector.schedulers.books import key_of, withdrawn
from collector.schedulers.poller import Row
from collector.store.database import Store
from collector.store.session import Session

_BACK = re.compile(r"(\d{1,4})([hdw])")
_HOURS = {"h": 1, "d": 24, "w": 168}
_EXAMPLES = "4w, 30d, 12h, 2026-11-01, 2026-11-01T08:00"


@dataclass(frozen=True, slots=True)
class Span:
    """From `since` until `until`, microseconds UTC, half-open."""

    since: int
    until: int

    @property
    def label(self) -> str:
        """Its length as people say it: "4 weeks", "10 days", "12 hours"."""
        hours = round((self.until - self.since) / 3600 / SECOND_US)
        for name, length in (("week", 168), ("day", 24)):
            if hours >= length and hours % length == 0:
                return counted(hours // length, name)
        return counted(round(hours / 24), "day") if hours > 48 else counted(hours, "hour")


def zone(name: str) -> ZoneInfo:
    """Return a time zone by its name.

    Raises:
        ConfigError: this host knows none of the name.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ConfigError(
            f"{name!r} is not a time zone known to this host: use a name such as Europe/Berlin"
        ) from error


def span(since: str, until: str | None, now: int, timezone: ZoneInfo) -> Span:
    """Return the span that the words mean; lengths count back from its end, days begin at midnight of the zone.

    Raises:
        ConfigError: the words name no time, or the span has no length.
    """
    end = now if until is None or until == "now" else _moment(until, now, timezone, "--until")
    start = _moment(since, end, timezone, "--since")
    if end > now:
        raise ConfigError(f"--until {until} is in the future: history ends now")
    if start >= end:
        raise ConfigError(f"--since {since} is not before --until {until or 'now'}")
    return Span(start, end)


def _moment(text: str, end: int, timezone: ZoneInfo, flag: str) -> int:
    if found := _BACK.fullmatch(text.strip().lower()):
        return end - int(found[1]) * _HOURS[found[2]] * 3600 * SECOND_US
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise ConfigError(f"{flag} {text!r} is not a valid time: use {_EXAMPLES}") from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone)
    return round(moment.timestamp() * SECOND_US)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, "2 days"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


_LOG = logging.getLogger(__name__)
_PIECE = 50_000  # rows that are made into a table at once


@dataclass(frozen=True, slots=True)
class History:
    """What a scheduler says of a span that ends at `until`: how it then was. `name` is slurm/alpha, or a file.

    `waiting` are allocations of runs that waited then, all of them whose ids begin with `queue`; without `queue` nobody
    was asked. `notes` are sentences about what was left out.
    """

    name: str
    until: int  # microseconds UTC
    claims: Sequence[Claim] = ()
    waiting: Sequence[Row] = ()
    queue: str | None = None
    aliases: Sequence[Row] = ()
    states: Sequence[Row] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Brought:
    """What became of a history. `grounds` counts GPU-milliseconds by how the GPU was found, until the history's end.

    `unplaced` counts runs whose GPUs, or some of them, were not found, by the reason; `new` counts rows by table.
    """

    history: History
    grounds: Mapping[Ground, int]
    unplaced: Mapping[str, int]
    new: Mapping[str, int]
    implausible: int = 0
    placed: Sequence[Placed] = field(default=(), repr=False)

    @property
    def runs(self) -> frozenset[str]:
        """The runs that held GPUs."""
        return frozenset(claim.run_id for claim in self.history.claims)


def bring(store: Store, history: History, sightings: Sequence[Sighting] = (), *, write: bool = True) -> Brought:
    """Place a history on the GPUs that the store knows, and land what is new of it; without `write` only tell.

    Raises:
        StoreError: the store refused it; nothing of it was landed.
    """
    with store.session() as session:
        placing = _placed(session, history, sightings)
        rows = {
            "allocations": [*_allocations(placing), *_waiting(session, history)],
            "run_aliases": _new_aliases(session, history.aliases),
            "node_states": _new_states(session, history.states),
        }
    landed, implausible = _land(store, history.name, rows) if write else (_counted(rows), 0)
    grounds = _grounds(placing.own, history.until)
    return Brought(history, grounds, placing.unplaced, landed, implausible, placing.own)


@dataclass(frozen=True, slots=True)
class _Placing:
    """What was found for a history's claims, and for what others held beside them; what was known before."""

    own: list[Placed]
    beside: list[Placed]
    known: KnownAllocations
    unplaced: dict[str, int]


def _placed(session: Session, history: History, sightings: Sequence[Sighting]) -> _Placing:
    hosts = Hosts.read(session)
    claims = [replace(claim, node=hosts.name(claim.node)) for claim in history.claims]
    known = KnownAllocations.read(session, claims, history.until)
    seen = by_name([*sightings, *known.sightings(claims)])
    claims = [known.with_named(seen_on(claim, seen)) for claim in claims]
    own = {claim.key for claim in claims}
    everyone = by_host([*claims, *known.neighbours(claims, history.until)])
    work = work_of(session, everyone, hosts)
    found = [
        one
        for node, listed in everyone.items()
        for one in place_claims(listed, hosts.gpus.get(node, ()), work.get(node, ()))
    ]
    ours = [one for one in found if one.claim.key in own]
    return _Placing(ours, [one for one in found if one.claim.key not in own], known, _unplaced(ours, hosts))


def _unplaced(placed: Iterable[Placed], hosts: Hosts) -> dict[str, int]:
    runs: dict[str, set[str]] = {}
    shown = {node: {gpu.uuid for gpu in gpus} for node, gpus in hosts.gpus.items()}
    for one in placed:
        is_shown = one.claim.node in hosts.partitioned or {uuid for uuid, _ in one.gpus} <= shown.get(
            one.claim.node, set()
        )
        if not one.gpus or one.missing or not is_shown:
            runs.setdefault(_reason(one, hosts), set()).add(one.claim.run_id)
    return {reason: len(found) for reason, found in sorted(runs.items())}


def _reason(one: Placed, hosts: Hosts) -> str:
    if one.claim.node in hosts.partitioned:
        return "on hosts with partitioned GPUs (MIG), so not assigned in the ledger"
    if not one.claim.gpus and one.claim.facts.get("requested_gpus") is None:
        return "of which nothing says which or how many GPUs they have"
    if not one.claim.gpus:
        return "with parts of GPUs (MIG, shards, MPS), not assigned to a GPU"
    return (
        "with GPUs that no metric shows"
        if one.claim.node in hosts.gpus
        else "on hosts without metrics, so not assigned to a GPU"
    )


def _waiting(session: Session, history: History) -> list[Row]:
    """Return who waits and was not told to, and the end of those who were and wait no longer."""
    if history.queue is None:
        return []
    told = {key_of(row): row for row in waiting_told(session, history.queue)}
    now = {key_of(row): row for row in history.waiting}
    starts = {claim.run_id: claim.started_at for claim in history.claims}
    over = [
        row | {"ended_at": starts.get(str(row["run_id"]), history.until)} for key, row in told.items() if key not in now
    ]
    return [row for key, row in now.items() if key not in told] + over


def _allocations(placing: _Placing) -> list[Row]:
    rows: list[Row] = []
    ranks, known = _ranks(placing.own), placing.known
    for one in placing.own:
        own = list(_rows(one, ranks))
        rows += known.withdrawn(one.claim, own) + known.news(own)
    return rows + [row for one in placing.beside for row in _moved(one)]


def _moved(one: Placed) -> list[Row]:
    """Return the words that move what an earlier import assumed, where its GPU turns out to be somebody else's."""
    before, now = one.claim.facts, [gpu for gpu, _ in one.gpus]
    if before["gpu_uuid"] in now:
        return []
    labels = _labelled(before.get("labels"), "assumed")
    elsewhere = [dict(before) | {"gpu_uuid": gpu, "rank": None, "labels": labels} for gpu in now]
    return [withdrawn(dict(before), one.claim.started_at), *elsewhere]


def _rows(one: Placed, ranks: Mapping[tuple[object, ...], int]) -> Iterator[Row]:
    claim = one.claim
    facts: Row = dict(claim.facts) | {
        "run_id": claim.run_id,
        "attempt": claim.attempt,
        "member": claim.member,
        "node": claim.node,
        "started_at": claim.started_at,
        "ended_at": claim.ended_at,
    }
    if not one.gpus or claim.hosts_name is not None:
        yield facts
    for uuid, ground in one.gpus:
        rank = ranks.get((*claim.key, uuid))
        labels = _labelled(claim.facts.get("labels"), ground)
        yield facts | {"run_id": claim.ids[-1], "gpu_uuid": uuid, "rank": rank, "labels": labels}


def _labelled(labels: object, ground: Ground) -> str | None:
    """Return a run's labels with the ground of its placement, where that is less than certain."""
    known: dict[str, str] = json.loads(str(labels)) if labels else {}
    if ground in ("seen", "assumed"):
        known[PLACEMENT] = ground
    return json.dumps(known, sort_keys=True) if known else None


def _ranks(placed: Iterable[Placed]) -> dict[tuple[object, ...], int]:
    """Return the ranks of the GPUs of runs that are placed whole and not by assumption: host by host, by number."""
    attempts: dict[tuple[str, int, int], list[Placed]] = {}
    for one in placed:
        attempts.setdefault((one.claim.run_id, one.claim.attempt, one.claim.started_at), []).append(one)
    found: dict[tuple[object, ...], int] = {}
    for parts in attempts.values():
        if all(one.gpus and not one.missing and all(why != "assumed" for _, why in one.gpus) for one in parts):
            ordered = sorted(parts, key=lambda one: (one.claim.position, one.claim.node, one.claim.member or ""))
            places = [(*one.claim.key, uuid) for one in ordered for uuid, _ in one.gpus]
            found |= {each: rank for rank, each in enumerate(places)}
    return found


def _grounds(placed: Iterable[Placed], until: int) -> dict[Ground, int]:
    found: Counter[Ground] = Counter()
    for one in placed:
        lasted = max(0, min(one.claim.ended_at or until, until) - one.claim.started_at) // 1000
        for _, ground in one.gpus:
            found[ground] += lasted
    return dict(found)


def _new_aliases(session: Session, aliases: Sequence[Row]) -> list[Row]:
    if not aliases:
        return []
    told = dict(session.rows("SELECT alias_run_id, run_id FROM run_aliases ORDER BY batch"))
    return [row for row in aliases if told.get(row["alias_run_id"]) != row["run_id"]]


def _new_states(session: Session, states: Sequence[Row]) -> list[Row]:
    """Return of each state what the store has not been told: a later import finds it to last longer."""
    if not states:
        return []
    told: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for node, state, started_at, ended_at in session.rows(
        "SELECT node, state, started_at, ended_at FROM node_states WHERE state <> 'up' ORDER BY started_at"
    ):
        told.setdefault((node, state), []).append((started_at, ended_at))
    found: list[Row] = []
    for row in states:
        rest = _uncovered(row, told.get((str(row["node"]), str(row["state"])), ()))
        found += [row | {"started_at": start, "ended_at": end} for start, end in rest]
    return found


def _uncovered(row: Row, spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    now, end = int(row["started_at"] or 0), int(row["ended_at"] or 0)
    for start, until in spans:
        if until <= now or start >= end:
            continue
        if start > now:
            yield now, start
        now = until
    if now < end:
        yield now, end


def _counted(rows: Mapping[str, Sequence[Row]]) -> dict[str, int]:
    return {name: len(listed) for name, listed in rows.items()}


def _land(store: Store, name: str, rows: Mapping[str, Sequence[Row]]) -> tuple[dict[str, int], int]:
    """Land rows in one transaction; return how many by table, and how many could not be believed."""
    if not any(rows.values()):
        return _counted(rows), 0
    digest = hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()
    landed, implausible = _counted(rows), 0
    with chunked_import(store, agent=f"import:{name}", stream=f"import:{name}/{uuid4()}", body_hash=digest) as taking:
        if taking is None:
            raise AssertionError("BUG: a stream that was made just now has been taken")
        for table, listed in rows.items():
            for at in range(0, len(listed), _PIECE):
                good = _believed(table, listed[at : at + _PIECE])
                implausible += min(_PIECE, len(listed) - at) - good.num_rows
                if good.num_rows:
                    taking.add(table, pa.Table.from_batches([good]))
    return landed, implausible


def _believed(name: str, rows: Sequence[Row]) -> pa.RecordBatch:
    table, now = TABLES[name], time.time_ns() // 1000
    made = pa.RecordBatch.from_pylist([dict(row) for row in rows], schema=arrow_schema(table))
    good, broken = plausible(table, made, Clock(now, now))
    for rule in broken:
        _LOG.warning("rows of %s left out, since %s: %s", name, rule.column, rule.says)
    return good


_SEEN = """
WITH index_of AS (
    SELECT gpu_uuid, arg_max(gpu_index, started_at) AS gpu_index
    FROM inventory WHERE gpu_uuid IS NOT NULL GROUP BY gpu_uuid
), seen AS (
    SELECT coalesce(parent_uuid, gpu_uuid) AS gpu_uuid, arg_max(node, started_at) AS node,
        min(started_at) AS first_at, max(ended_at) AS last_at
    FROM gpu_samples GROUP BY ALL
)
SELECT node, gpu_uuid, gpu_index, first_at, last_at FROM seen LEFT JOIN index_of USING (gpu_uuid)
ORDER BY node, gpu_index, first_at, gpu_uuid
"""
_OWNED = "SELECT gpu_uuid, min(owned_from), bool_or(source IS DISTINCT FROM ?) FROM ownership GROUP BY gpu_uuid"


def own(store: Store, since: int, source: str) -> int:
    """Let every GPU that was seen be owned from `since` (microseconds UTC) on; return how many that is news of."""
    with store.session() as session:
        rows = _owned_rows(session, since, source)
    if rows:
        made = pa.Table.from_pylist(rows, schema=arrow_schema(OWNERSHIP))
        with chunked_import(
            store, agent=f"import:{source}", stream=f"import:{source}/owned/{uuid4()}", body_hash=""
        ) as taking:
            if taking is None:
                raise AssertionError("BUG: a stream that was made just now has been taken")
            taking.add(OWNERSHIP.name, made)
    return len(rows)


def _owned_rows(session: Session, since: int, source: str) -> list[Row]:
    declared = {uuid: (first, by_others) for uuid, first, by_others in session.rows(_OWNED, [source])}
    slots: dict[tuple[str, int | None], list[tuple[str, int, int]]] = defaultdict(list)
    for node, uuid, index, first_at, last_at in session.rows(_SEEN):
        slots[node, index].append((uuid, first_at, last_at))
    found: list[Row] = []
    for (node, index), boards in slots.items():
        for start, end, uuid in _owned_spans(boards, since, index is not None):
            first, by_others = declared.get(uuid, (None, False))
            if not by_others and (first is None or start < first):
                found.append(
                    {"node": node, "gpu_uuid": uuid, "owned_from": start, "owned_until": end, "source": source}
                )
    return found


def _owned_spans(boards: list[tuple[str, int, int]], since: int, is_slot: bool) -> list[tuple[int, int | None, str]]:
    """Return from when until when each board is owned; of a slot, one after the other as far as they do not overlap."""
    found: list[tuple[int, int | None, str]] = []
    for position, (uuid, first_at, last_at) in enumerate(boards):
        before = [last for _, _, last in boards[:position] if is_slot and last <= first_at]
        after = [first for _, first, _ in boards[position + 1 :] if is_slot and first >= last_at]
        start = max(since, first_at) if before else since
        end = min(after) if after else None
        if end is None or end > start:
            found.append((start, end, uuid))
    return found
