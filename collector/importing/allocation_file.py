"""Allocations that somebody tells row by row: any other scheduler in a file, or the labels of an exporter.

A file has the contract's columns, any subset, in CSV, Parquet, Arrow or JSON.

A row is a run on a host. It may name its GPU (`gpu_uuid`), number them (`gpu_index`: "0-3,6"), count them (`gpus`), or
leave it to the run's `requested_gpus`, which are then shared out over its hosts. `node` may be a list: n[1-4,7].

The labels of dcgm-exporter name no owner, no account and no end, and are what is left where
no scheduler can be asked. A pod is then a run of its own, `kubernetes/prod/research.train-0`, and a job
`slurm/alpha/81234`; of both the job, which runs within the pod.
"""

import json
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
from collector.importing.history import History
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
_PLACES = frozenset(
    {"node", "gpu_uuid", "rank", "run_id", "attempt", "started_at", "ended_at", "member", "exit_status"}
)
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

_Line = dict[str, Any]


@dataclass(slots=True)
class _Read:
    lines: list[_Line] = field(default_factory=list)
    bad: int = 0
    reasons: dict[str, None] = field(default_factory=dict)


def history(session: Session, path: Path, cluster: str, since: int, until: int) -> History:
    """Return what a file says of a span, as it was at its end; microseconds UTC.

    Raises:
        FileRefusedError: it cannot be read, or lacks the columns without which a row says nothing.
    """
    read, now = _Read(), time.time_ns() // 1000
    for rows in _rows(path):
        _take(rows, Clock(now, now), read)
    hosts = Hosts.read(session)
    claims = list(_claims(read.lines, hosts, cluster, since, until))
    notes = [f"{path.name}: {read.bad:,} rows left out: {'; '.join(list(read.reasons)[:3])}"] if read.bad else []
    return History(f"file/{path.name}", until, claims, notes=tuple(notes))


def _rows(path: Path) -> Iterator[pa.RecordBatch]:
    if path.suffix.lower() in (".json", ".jsonl", ".ndjson"):
        yield _of_json(path)
        return
    skipped = Skipped()
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
    return json.dumps(value)


def _take(raw: pa.RecordBatch, clock: Clock, read: _Read) -> None:
    raw = raw.rename_columns([_column(name, raw.schema.names) for name in raw.schema.names])
    if missing := [name for name in _NEEDED if name not in raw.schema.names]:
        raise FileRefusedError(f"the allocations lack {', '.join(missing)}, which every row needs")
    rows, bad, reasons = checked_rows(ALLOCATIONS, raw, None, clock)
    nothing = pc.is_null(rows.column("run_id"))
    read.bad += pc.sum(pc.or_(bad, nothing)).as_py() or 0
    read.reasons |= {says: None for says, mask in reasons if pc.any(mask).as_py()}
    good = pc.invert(pc.or_(bad, nothing))
    further = {name: raw.column(name).filter(good).to_pylist() for name in _FURTHER if name in raw.schema.names}
    for number, line in enumerate(rows.filter(good).to_pylist()):
        read.lines.append(line | {name: values[number] for name, values in further.items()})
    if len(read.lines) > _MOST_ROWS:
        raise FileRefusedError(f"the file has more than {_MOST_ROWS:,} allocations; import it in parts")


def _column(name: str, names: Sequence[str]) -> str:
    own = _ALSO.get(name.lower(), name.lower())
    return own if own == name.lower() or own not in names else name


def _claims(lines: Sequence[_Line], hosts: Hosts, cluster: str, since: int, until: int) -> Iterator[Claim]:
    attempts: dict[tuple[str, int, int], list[Claim]] = {}
    for line in lines:
        started = line["started_at"]
        if started is None or started >= until or (line["ended_at"] is not None and line["ended_at"] <= since):
            continue
        for claim in _of_line(line, hosts, cluster, until):
            attempts.setdefault((claim.run_id, claim.attempt, claim.started_at), []).append(claim)
    for claims in attempts.values():
        yield from _merged(_counted(claims, hosts))


def _of_line(line: _Line, hosts: Hosts, cluster: str, until: int) -> Iterator[Claim]:
    is_over = line["ended_at"] is not None and line["ended_at"] <= until
    facts = {name: value for name, value in line.items() if name not in _PLACES and name not in _FURTHER}
    facts |= {"exit_status": _status(line["exit_status"]) if is_over else None}
    try:
        nodes = host_names(line["node"] or "")
    except SchedulerError as error:
        raise FileRefusedError(str(error)) from error
    for position, node in enumerate(map(hosts.name, nodes)):
        named = _named(line, hosts, node)
        yield Claim(
            run_id=_run_id(line, cluster),
            attempt=line["attempt"] or 0,
            node=node,
            started_at=line["started_at"],
            ended_at=line["ended_at"] if is_over else None,
            gpus=len(named) or _count(line.get("gpus")),
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


def _named(line: _Line, hosts: Hosts, node: str) -> tuple[tuple[str, Ground], ...]:
    if line["gpu_uuid"]:
        return ((line["gpu_uuid"], "told"),)
    indices = gpu_indices(f"gpu:0(IDX:{line.get('gpu_index')})") if line.get("gpu_index") not in (None, "") else None
    return hosts.numbered(node, indices or ())


def _count(value: object) -> int:
    text = str(value).removesuffix(".0")
    return int(text) if text.isdecimal() and len(text) < 7 else 0


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
