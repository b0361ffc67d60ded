"""Allocations that somebody tells row by row: any other scheduler in a file, or the labels of an exporter.

A file has the contract's columns, any subset, in CSV, Parquet, Arrow or JSON.

A row is a run on a host. It may name its GPUs (`gpu_uuid`), number them (`gpu_index`: "0-3,6"), count them (`gpus`), or
leave it to the run's `requested_gpus`, which are then shared out over its hosts. `node` may be a list: n[1-4,7]. A row
of which any of these cannot be read is left out, counted and told.

The labels of dcgm-exporter name no owner, no account and no end, and are what is left where
no scheduler can be asked. A pod is then a run of its own, `kubernetes/prod/research.train-0`, and a job
`slurm/alpha/81234`; of both the job, which runs within the pod.
"""

import json
import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from agent.wire.bounded import json_said
from agent.wire.tables import ALLOCATIONS
from collector.errors import FileRefusedError, SchedulerError
from collector.importing.files import Skipped, pieces
from collector.importing.history import History, counted
from collector.importing.importer import checked_rows
from collector.importing.known_allocations import Hosts, Sighting
from collector.importing.placing import Claim, Ground, gpus_by_host
from collector.pipeline.decoding.validation import Clock, pc
from collector.schedulers.poller import Value
from collector.schedulers.slurm.fields import gpu_indices, host_names
from collector.schedulers.slurm.jobs import ENDINGS
from collector.store.session import Session

_MOST_BYTES = 2**30  # of a JSON file, which is read at once
_COLUMNS_MOST = 200
_BYTES_A_VALUE = 4
_MOST_ROWS = 2_000_000
_FURTHER = ("gpus", "gpu_index")  # columns that say what accounting knows instead of a UUID
_NEEDED = ("run_id", "started_at")
_COUNT = re.compile(r"\d{1,6}(?:\.\d+)?|\.\d+")
_TOLD: Ground = "told"
_PLACES = {"node", "gpu_uuid", "rank", "run_id", "attempt", "started_at", "ended_at", "member", "exit_status"}
_FACTS = frozenset(column.name for column in ALLOCATIONS.columns) - _PLACES
_STATUSES = frozenset(ENDINGS.values())
# How others call the contract's columns.
_ALSO = {
    "job_id": "run_id",
    "run": "run_id",
    "host": "node",
    "hostname": "node",
    "start": "started_at",
    "start_time": "started_at",
    "end": "ended_at",
    "end_time": "ended_at",
    "submit_time": "submitted_at",
    "state": "exit_status",
}

_BETWEEN = re.compile(r"[\s,;]+")  # UUIDs of one row

_Line = dict[str, Any]


@dataclass(slots=True)
class AllocationRows:
    """The rows of a file. `lines` are those that could be read, `unread` is how many could not, `reasons` say why."""

    name: str
    lines: list[_Line] = field(default_factory=list)
    unread: int = 0
    reasons: dict[str, None] = field(default_factory=dict)

    def leave_out(self, why: str, rows: int = 1) -> None:
        """Count rows that could not be read."""
        self.unread += rows
        self.reasons[why] = None


def read_rows(path: Path) -> AllocationRows:
    """Return the rows of a file.

    Raises:
        FileRefusedError: it cannot be read, or lacks the columns without which a row says nothing.
    """
    read, skipped, now = AllocationRows(path.name), Skipped(), time.time_ns() // 1000
    for rows in _rows(path, skipped):
        _take(rows, Clock(now, now), read)
    if skipped.lines:
        read.leave_out("too few or too many values", len(skipped.lines))
    return read


def history(session: Session, rows: AllocationRows, cluster: str, since: int, until: int) -> History:
    """Return what the rows of a file say of a span, as it was at its end; microseconds UTC."""
    claims = list(_claims(rows.lines, Hosts.read(session), cluster, since, until))
    note = f"{rows.name}: {rows.unread:,} rows left out: {'; '.join(list(rows.reasons)[:5])}"
    return History(f"file/{rows.name}", until, claims, notes=(note,) if rows.unread else ())


def _rows(path: Path, skipped: Skipped) -> Iterator[pa.RecordBatch]:
    if path.suffix.lower() in (".json", ".jsonl", ".ndjson"):
        yield _of_json(path)
        return
    for piece in pieces(path, skipped):
        yield piece.rows


def _of_json(path: Path) -> pa.RecordBatch:
    """Return a list of objects, or an object a line, as text: one bad value must cost its row and not the file."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise FileRefusedError(f"{path} is larger than {_MOST_BYTES >> 20} MiB; use Parquet, or split it")
        said = path.read_text("utf-8")
        found = _listed(said) if said.lstrip()[:1] == "[" else [json_said(one) for one in said.splitlines() if one]
    except OSError as error:
        raise FileRefusedError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise FileRefusedError(f"cannot read {path} as JSON: {str(error)[:200]}") from error
    if not found or not all(isinstance(one, dict) for one in found):
        raise FileRefusedError(f"{path} is not a list of objects, one per allocation")
    names = list(dict.fromkeys(name for one in found for name in one))
    if len(names) > _COLUMNS_MOST:
        raise FileRefusedError(f"{path} has {len(names):,} names of columns; the maximum is {_COLUMNS_MOST}")
    columns = {name: pa.array([_text(one.get(name)) for one in found], pa.string()) for name in names}
    return pa.RecordBatch.from_pydict(columns)


def _listed(said: str) -> Any:  # noqa: ANN401 - whatever JSON can say
    return json_said(said, most_bytes=_MOST_BYTES, most_values=_MOST_BYTES // _BYTES_A_VALUE)


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list):  # of hosts, of GPUs
        return ",".join(one if isinstance(one, str) else json.dumps(one) for one in value)
    return json.dumps(value)


def _take(raw: pa.RecordBatch, clock: Clock, read: AllocationRows) -> None:
    raw = raw.rename_columns([_column(name, raw.schema.names) for name in raw.schema.names])
    if missing := [name for name in _NEEDED if name not in raw.schema.names]:
        needed = ", ".join(" or ".join((name, *(one for one, own in _ALSO.items() if own == name))) for name in missing)
        there = ", ".join(raw.schema.names)
        raise FileRefusedError(f"the allocations lack {needed}, which every row needs; their columns are {there[:200]}")
    rows, bad, reasons = checked_rows(ALLOCATIONS, raw, None, clock)
    nothing = pc.is_null(rows.column("run_id"))
    read.unread += pc.sum(pc.or_(bad, nothing)).as_py() or 0
    read.reasons |= {says: None for says, mask in reasons if pc.any(mask).as_py()}
    good = pc.invert(pc.or_(bad, nothing))
    further = {name: raw.column(name).filter(good).to_pylist() for name in _FURTHER if name in raw.schema.names}
    for number, line in enumerate(rows.filter(good).to_pylist()):
        try:
            read.lines.append(line | _places(line, {name: values[number] for name, values in further.items()}))
        except SchedulerError as error:
            read.leave_out(str(error))
    if len(read.lines) > _MOST_ROWS:
        raise FileRefusedError(f"the file has more than {_MOST_ROWS:,} allocations; import it in parts")


def _column(name: str, names: Sequence[str]) -> str:
    own = _ALSO.get(name.lower(), name.lower())
    return own if own == name.lower() or own not in names else name


def _places(line: _Line, further: Mapping[str, object]) -> _Line:
    """Return a row's hosts, the UUIDs and numbers of the GPUs that it names there, and how many it counts on each.

    Raises:
        SchedulerError: one of them cannot be read, or it has ended and does not say when.
    """
    nodes = host_names(line["node"] or "")
    if not nodes:
        raise SchedulerError("node: it names no host")
    if line["ended_at"] is None and _status(line["exit_status"]) is not None:
        raise SchedulerError(f"ended_at: it is {line['exit_status']} and does not say since when")
    numbers = further.get("gpu_index")
    indices = None if numbers in (None, "") else gpu_indices(f"gpu:0(IDX:{numbers})")
    if indices is None and numbers not in (None, ""):
        raise SchedulerError(f"gpu_index: {str(numbers)[:40]!r} is not a list of numbers such as 0-3,6")
    uuids = tuple(filter(None, _BETWEEN.split(line["gpu_uuid"] or "")))
    return {"nodes": nodes, "uuids": uuids, "indices": indices or (), "gpus": _count(further.get("gpus"))}


def _claims(lines: Sequence[_Line], hosts: Hosts, cluster: str, since: int, until: int) -> Iterator[Claim]:
    attempts: dict[tuple[str, int, int], list[Claim]] = {}
    for line in lines:
        started = line["started_at"]
        if started is None or started >= until or (line["ended_at"] is not None and line["ended_at"] <= since):
            continue
        if line["gpus"] == 0 and not line["uuids"] and not line["indices"]:
            continue
        for claim in _of_line(line, hosts, cluster, until):
            attempts.setdefault((claim.run_id, claim.attempt, claim.started_at), []).append(claim)
    for claims in attempts.values():
        yield from _merged(_counted(claims, hosts))


def _of_line(line: _Line, hosts: Hosts, cluster: str, until: int) -> Iterator[Claim]:
    is_over = line["ended_at"] is not None and line["ended_at"] <= until
    facts = {name: value for name, value in line.items() if name in _FACTS}
    facts |= {"exit_status": _status(line["exit_status"]) if is_over else None}
    if 0 < (line["gpus"] or 0) < 1:
        facts["requested_gpus"] = 0  # as of a run of instances or shards
    for position, node in enumerate(map(hosts.name, line["nodes"])):
        named = tuple((uuid, _TOLD) for uuid in line["uuids"]) or hosts.numbered(node, line["indices"])
        yield Claim(
            run_id=_run_id(line, cluster),
            attempt=line["attempt"] or 0,
            node=node,
            started_at=line["started_at"],
            ended_at=line["ended_at"] if is_over else None,
            gpus=len(named) or int(line["gpus"] or 0),
            member=line["member"],
            position=position,
            named=named,
            facts=facts,
        )


def _run_id(line: _Line, cluster: str) -> str:
    text = str(line["run_id"])
    return text if text.count("/") >= 2 else f"{line['scheduler'] or 'file'}/{cluster}/{text}"


def _status(text: str | None) -> str | None:
    if text is None or text.lower() in _STATUSES:
        return text.lower() if text else None
    return ENDINGS.get(text.split(" ", 1)[0].upper())


def _count(value: object) -> float | None:
    """Return how many GPUs a row counts, less than 1 where it has a part of one; None where it says nothing.

    Raises:
        SchedulerError: it is no number of GPUs.
    """
    if value in (None, ""):
        return None
    said = str(value).strip()
    found = float(said) if _COUNT.fullmatch(said) else math.nan
    if not (found.is_integer() or found < 1):
        raise SchedulerError(f"gpus: {said[:40]!r} is not a number of GPUs")
    return found


def _counted(claims: Sequence[Claim], hosts: Hosts) -> list[Claim]:
    """Return the claims of one attempt; where none counts its GPUs, those that the run asked for are shared out."""
    total = claims[0].facts.get("requested_gpus")
    if any(claim.gpus for claim in claims) or not isinstance(total, int):
        return list(claims)
    counts = gpus_by_host(total, [len(hosts.gpus.get(claim.node, ())) for claim in claims])
    return [replace(claim, gpus=count) for claim, count in zip(claims, counts, strict=True)]


def _merged(claims: Sequence[Claim]) -> Iterator[Claim]:
    """Yield one claim a host and member: a file may have a row a GPU."""
    found: dict[tuple[object, ...], Claim] = {}
    for claim in claims:
        before = found.get(claim.key)
        if before is None:
            found[claim.key] = claim
        elif claim.named:
            named = tuple(dict([*before.named, *claim.named]).items())
            found[claim.key] = replace(before, named=named, gpus=len(named))
    yield from found.values()


_BRIDGED_US = 600_000_000  # a silence that a holder outlasts: labels come with samples, and samples may be missing
_Holding = tuple[str, str, str | None]  # run, host, member


def of_holders(holders: Iterable[Mapping[str, object]], cluster: str, since: int, until: int) -> History:
    """Return what the labels say of a span, microseconds UTC; `holders` as a pull of a Prometheus tells them."""
    spans: dict[_Holding, list[tuple[int, int, str]]] = {}
    for row in holders:
        key = _holding(row, cluster)
        if key is not None:
            start, end = max(int(str(row["started_at"])), since), min(int(str(row["ended_at"])), until)
            spans.setdefault(key, []).append((start, end, str(row["gpu_uuid"])))
    claims = [claim for key, listed in spans.items() for claim in _stretches(key, sorted(listed), until)]
    return History(f"labels/{cluster}", until, claims)


def with_labelled(found: History, holders: Iterable[Mapping[str, object]], cluster: str, since: int) -> History:
    """Return a history of pods with those that labels name and that request no GPU: theirs are of claims (DRA)."""
    known = {claim.member for claim in found.claims} | {None}
    more = [claim for claim in of_holders(holders, cluster, since, found.until).claims if claim.member not in known]
    if not more:
        return found
    pods = counted(len({claim.member for claim in more}), "pod")
    note = f"{pods} with GPUs by the exporter's labels alone, as of resource claims (DRA): taken from there"
    return replace(found, claims=[*found.claims, *more], notes=(*found.notes, note))


def _holding(row: Mapping[str, object], cluster: str) -> _Holding | None:
    node = str(row["node"])
    if row.get("hpc_job"):  # within the pod, where one is named
        return f"slurm/{cluster}/{row['hpc_job']}", node, None
    if row.get("pod"):
        namespace = str(row.get("namespace") or "default")
        return f"kubernetes/{cluster}/{namespace}.{row['pod']}", node, f"{namespace}/{row['pod']}"
    return None


def _stretches(key: _Holding, spans: list[tuple[int, int, str]], until: int) -> list[Claim]:
    """Return a claim for each stretch in which a holder was seen on a host without a long silence."""
    run_id, node, member = key
    found: list[tuple[int, int, set[str]]] = []
    for start, end, uuid in spans:
        if found and start <= found[-1][1] + _BRIDGED_US:
            found[-1] = (found[-1][0], max(found[-1][1], end), found[-1][2] | {uuid})
        elif end > start:
            found.append((start, end, {uuid}))
    facts: dict[str, Value] = {"scheduler": run_id.split("/", 1)[0], "name": (member or run_id).rsplit("/", 1)[-1]}
    if member is not None:
        facts["account"] = member.split("/", 1)[0]
    return [
        Claim(
            run_id=run_id,
            attempt=attempt,
            node=node,
            started_at=start,
            ended_at=None if end + _BRIDGED_US >= until else end,
            gpus=len(uuids),
            member=member,
            named=tuple((uuid, "told") for uuid in sorted(uuids)),
            facts=facts | {"requested_gpus": len(uuids)},
        )
        for attempt, (start, end, uuids) in enumerate(found)
    ]


def sightings(holders: Iterable[Mapping[str, object]], cluster: str) -> list[Sighting]:
    """Return what an exporter's labels say of which pod or job held which GPU, by the names of such runs."""
    found: list[Sighting] = []
    for row in holders:
        span = str(row["gpu_uuid"]), _moment(row["started_at"]), _moment(row["ended_at"])
        if row.get("pod"):
            found.append(Sighting(f"kubernetes/{cluster}/{row.get('namespace') or 'default'}.{row['pod']}", *span))
        if row.get("hpc_job"):
            found.append(Sighting(f"slurm/{cluster}/{row['hpc_job']}", *span))
    return found


def _moment(value: object) -> int:
    return value if isinstance(value, int) else 0
