"""What a host's own key may tell: of itself, of GPUs that are its own, and of runs what no scheduler answers for.

A batch of another host is refused whole. Of a batch of its own, rows that are not the host's to tell are put aside with
the reason, as rows that cannot be true are (validation.py), and the others count. Who else may tell what stands
in the contract (agent/wire/tables.py). Whether a scheduler knows the run that a row names is seen only later, where all
that was told lies side by side (analyzer/ledger/believed.py).
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from agent.wire.contract import Table
from agent.wire.tables import HOST_AUTHORITIES, TABLES
from collector.errors import BatchError
from collector.pipeline.decoding.batch import Batch
from collector.pipeline.decoding.validation import Mask, Reason, pc

if TYPE_CHECKING:
    from collector.registry.roles import Principal  # its package brings SQLAlchemy, which decoders do without

_BEFORE_FIRST_US = 86_400_000_000  # a day: an agent's first batch has nothing in it that is much older than itself
_GPUS = ("gpu_uuid", "parent_uuid")
_RUNS = ("run_id", "alias_run_id")
# Runs that are named after the host whose processes or commands they are.
_OF_ONE_HOST = "process/"
# run_aliases is of no host: an agent tells there under which names it knows a run.
_PLACED = frozenset(name for name, table in TABLES.items() if table.has("node"))

Broken = list[tuple[Reason, Mask]]


@dataclass(frozen=True, slots=True)
class Host:
    """A host as the collector knows it: when its first batch was sealed, and which GPUs are its own."""

    node: str
    first_sent_at: int
    gpus: frozenset[str]


def check_host(principal: "Principal | None", batch: Batch) -> None:
    """Check that a batch is of the host whose key its sender shows.

    Raises:
        BatchError: 403, it is of another host. The agent keeps it: a host that was renamed needs a new key.
    """
    if principal is None or principal.node is None:
        return
    if (what := foreign_part(principal.node, batch)) is not None:
        raise BatchError(
            403, "node", f"the key {principal.id} belongs to the host {principal.node!r}, and the batch has {what}"
        )


def foreign_part(node: str, batch: Batch) -> str | None:
    """Return what of a batch is of another host than this; None where all is of it."""
    if batch.header.agent != node:
        return f"the agent of {batch.header.agent!r}"
    sought = _scalar(node)
    for name, rows in batch.tables.items():
        if name in _PLACED and not _all_of(rows, sought):
            return f"rows of {name} that belong to another host"
    return None


@lru_cache(maxsize=1024)
def _scalar(node: str) -> "pa.StringScalar":
    return pa.scalar(node, pa.string())  # making one takes longer than to compare a hundred rows with it


def _all_of(rows: pa.RecordBatch, node: "pa.StringScalar") -> bool:
    same = pc.equal(rows.column("node"), node)
    return bool(same.true_count == rows.num_rows)


def gpus_named(batch: Batch) -> set[str]:
    """Return every GPU and MIG instance that a batch names."""
    return {gpu for rows in batch.tables.values() for gpu in _said(rows, _GPUS) if gpu}


def _said(rows: pa.RecordBatch, names: Collection[str]) -> Iterator[str | None]:
    """Yield what these columns say, as far as there are any, each word of a column once."""
    for name in names:
        if (place := rows.schema.get_field_index(name)) >= 0:
            yield from rows.column(place).unique().to_pylist()


def own_part(host: Host, batch: Batch) -> Batch:
    """Return the batch as this host's own word, without the rows that are not its to tell."""
    broken = not_its_own(host, batch)
    return replace(batch.without(broken) if broken else batch, told_by=host.node)


def not_its_own(host: Host, batch: Batch) -> dict[str, Broken]:
    """Return by table the rules that its rows break, each with the mask of those rows."""
    doubted = ((name, rows) for name, rows in batch.tables.items() if not _plainly_own(host, TABLES[name], rows))
    found = {name: list(_broken(host, TABLES[name], rows)) for name, rows in doubted}
    return {name: broken for name, broken in found.items() if broken}


def _plainly_own(host: Host, table: Table, rows: pa.RecordBatch) -> bool:
    """Return whether no row breaks a rule, by what takes no look at each: nearly all batches are honest."""
    if not rows.num_rows:
        return True
    others, has_more = _of_other_tellers(table.name)
    if has_more or any(rows.column(name).null_count < rows.num_rows for name in others):
        return False
    if (place := rows.schema.get_field_index("started_at")) >= 0:
        earliest = pc.min(rows.column(place)).as_py()
        if earliest is not None and earliest < host.first_sent_at - _BEFORE_FIRST_US:
            return False
    return all(gpu is None or gpu in host.gpus for gpu in _said(rows, _GPUS)) and all(
        _may_name(host.node, run) for run in _said(rows, _RUNS)
    )


@cache
def _of_other_tellers(name: str) -> tuple[tuple[str, ...], bool]:
    """Return which columns of a table no host tells, and whether there is more that it may not."""
    table = TABLES[name]
    others = tuple(column.name for column in table.columns if not table.may_tell("host", column))
    return others, "host" not in table.tellers or name == "allocations"


def _may_name(node: str, run: str | None) -> bool:
    return run is None or not run.startswith(_OF_ONE_HOST) or run.startswith(f"{_OF_ONE_HOST}{node}/")


def _broken(host: Host, table: Table, rows: pa.RecordBatch) -> Iterator[tuple[Reason, Mask]]:
    for column, says, bad in _rules_of(table.name):
        yield from _told(Reason(column, says), bad(rows))
    names = rows.schema.names
    says = f"not a GPU of {host.node}: another host reported it first, or this one reports too many"
    for name in (name for name in _GPUS if name in names):
        yield from _told(Reason(name, says), _of_others(rows.column(name), host))
    says = f"a process of another host than {host.node}"
    for name in (name for name in _RUNS if name in names):
        yield from _told(Reason(name, says), _process_elsewhere(rows.column(name), host.node))
    if "started_at" in names:
        early = pc.less(rows.column("started_at"), host.first_sent_at - _BEFORE_FIRST_US)
        yield from _told(Reason("started_at", "long before this host's first batch"), early)


def _told(reason: Reason, bad: Mask) -> Iterator[tuple[Reason, Mask]]:
    mask = pc.fill_null(bad, False)
    if pc.any(mask).as_py():
        yield reason, mask


@cache
def _rules_of(name: str) -> tuple[tuple[str, str, Callable[[pa.RecordBatch], Mask]], ...]:
    """Return (column, why, which rows are bad) of what holds for a table whatever host tells it."""
    table = TABLES[name]
    if "host" not in table.tellers:
        return ((table.columns[0].name, f"{name} comes from a scheduler or the operator, not from a host", _all),)
    others = [column.name for column in table.columns if not table.may_tell("host", column)]
    rules = [(each, "this comes from a scheduler, not from a host", _is_told(each)) for each in others]
    if name == "allocations":
        rules += [
            ("gpu_uuid", "a host reports only its own GPUs", lambda rows: pc.is_null(rows.column("gpu_uuid"))),
            (
                "scheduler",
                "not for a host to report",
                lambda rows: _none_of(rows.column("scheduler"), HOST_AUTHORITIES),
            ),
        ]
    return tuple(rules)


def _is_told(name: str) -> Callable[[pa.RecordBatch], Mask]:
    return lambda rows: pc.is_valid(rows.column(name))


def _all(rows: pa.RecordBatch) -> Mask:
    return pa.array([True] * rows.num_rows, pa.bool_())


def _none_of(values: Mask, words: Collection[str]) -> Mask:
    return pc.invert(pc.is_in(values, pa.array(list(words), pa.string())))


def _of_others(gpus: Mask, host: Host) -> Mask:
    return pc.and_(pc.is_valid(gpus), _none_of(gpus, host.gpus))


def _process_elsewhere(runs: Mask, node: str) -> Mask:
    return pc.and_(pc.starts_with(runs, _OF_ONE_HOST), pc.invert(pc.starts_with(runs, f"{_OF_ONE_HOST}{node}/")))
