"""A site of nine honest hosts, and batches of a tenth that says whatever a table can hold, of all of them."""

import random
from collections.abc import Sequence
from typing import Any

from agent.wire.contract import Column, Table
from agent.wire.envelope import encode
from agent.wire.tables import TABLES
from analyzer.interfaces.questions.registry import answer
from analyzer.ledger.believed import believing
from analyzer.reports.reader import Reader
from analyzer.reports.request import Request
from analyzer.settings.settings import Settings
from collector.access.enrol import HostBook
from collector.errors import BatchError
from collector.pipeline.decoding.batch import decode
from collector.pipeline.decoding.own_word import foreign_part, gpus_named, own_part
from collector.registry import Registry
from collector.store.seal_mark import COLLECTOR_BITS
from tests.analyzer.ledger.fleet import HOUR, MINUTE, MONDAY, Fleet

EVIL, OWN_GPU = "n9", "n9g0"
HONEST = tuple(f"n{number}" for number in range(9))
OF_RUNS = {
    name: "alias_run_id" if table.has("alias_run_id") else "run_id"
    for name, table in TABLES.items()
    if table.has("told_by")
}
END = MONDAY + 2 * HOUR
ARRIVED = END + HOUR
FIRST = MONDAY + 5 * MINUTE  # when each host's first batch was sealed
SERVED, OVER = "slurm/alpha/1", "slurm/alpha/2"  # a run over four hosts
UNKNOWN = "declared/alpha/1001/torchrun-llama"  # a run over two hosts that no scheduler knows
JOINABLE = (UNKNOWN, "kubernetes/prod/uid-8")  # that no scheduler knows, and that name no host
RUNS = (
    UNKNOWN,
    "slurm/alpha/0",
    SERVED,
    OVER,
    "slurm/alpha/2000",
    "process/n6/77.9",
    "declared/n7/mine",
    "kubernetes/prod/uid-8",
)
IDLE: dict[str, Any] = {"utilization_ratio": 0.0, "utilization_zero_ratio": 1.0, "sm_active_ratio": 0.0}


def site(book: HostBook) -> Fleet:
    """Return the nine, each heard under its own key, and what their scheduler tells; nobody has analysed it."""
    fleet = Fleet(batches=ARRIVED << COLLECTOR_BITS)
    with fleet.together():
        for node in (*HONEST, EVIL):
            gpus = [f"{node}g{index}" for index in range(2)]
            fleet.own(node, gpus)
            book.learn(node, FIRST, gpus)
            for gpu in gpus:
                idle = IDLE if node == "n4" else {}
                fleet.sample(node, gpu, MONDAY, END, **idle)
        for number, nodes in enumerate((("n0",), ("n1",), ("n2", "n3", "n4", "n5"))):
            _run(
                fleet,
                f"slurm/alpha/{number}",
                nodes,
                account=f"team{number}",
                user=f"u{number}",
                project="p",
                queue="q",
            )
        for run, node in (("process/n6/77.9", "n6"), ("declared/n7/mine", "n7"), ("kubernetes/prod/uid-8", "n8")):
            _held(fleet, run, node, user=f"user-of-{node}")
        for node, user in (("n7", "ada"), ("n8", "ada")):
            fleet.hold(
                UNKNOWN, node, [f"{node}g1"], MONDAY, END, scheduler="declared", told_by=node, name=None, user=user
            )
        fleet.add("run_aliases", [{"alias_run_id": "slurm/alpha/2000", "run_id": OVER}])
        _served(fleet, SERVED, "n1")
    fleet.batches += HOUR << COLLECTOR_BITS
    return fleet


def _run(fleet: Fleet, run: str, nodes: tuple[str, ...], **facts: object) -> None:
    for node in nodes:
        fleet.hold(run, node, [f"{node}g0", f"{node}g1"], MONDAY, END, **facts)
        _held(fleet, run, node, scheduler="cgroup")


def _held(fleet: Fleet, run: str, node: str, **facts: object) -> None:
    kind = {"scheduler": "declared" if run.startswith("declared") else "cgroup", "told_by": node}
    fleet.hold(run, node, [f"{node}g0", f"{node}g1"], MONDAY, END, **{**kind, "name": None, **facts})


def _served(fleet: Fleet, run: str, node: str) -> None:
    at = {"node": node, "run_id": run, "told_by": node, "engine": "vllm", "requests": 60, "tokens_out": 6000}
    fleet.add("service_samples", [at | {"started_at": t, "ended_at": t + MINUTE} for t in range(MONDAY, END, MINUTE)])


def hostile(draw: random.Random, runs: Sequence[str] = RUNS) -> dict[str, list[dict[str, Any]]]:
    """Return the tables of a batch: every row names the host that tells it, and anything else, of these runs.

    Half of them keep to what a host may tell: of its own GPUs, as their holder whatever run they like.
    """
    names = draw.sample(sorted(TABLES), draw.randint(1, 4))
    knows = draw.random() < 0.5
    return {name: [_row(draw, TABLES[name], runs, knows=knows) for _ in range(draw.randint(1, 6))] for name in names}


def _row(draw: random.Random, table: Table, runs: Sequence[str], *, knows: bool) -> dict[str, Any]:
    told = [each for each in table.columns if not knows or each.required or table.may_tell("host", each)]
    row = {column.name: _value(draw, column, runs) for column in told if column.required or draw.random() < 0.6}
    if knows and table.has("gpu_uuid"):
        row |= {"gpu_uuid": draw.choice((OWN_GPU, "n9g1"))} | (
            {"parent_uuid": None} if table.has("parent_uuid") else {}
        )
    if knows and table.name == "allocations":
        row |= {"scheduler": draw.choice(("cgroup", "declared", "kubernetes"))}
    if table.has("node"):
        row["node"] = EVIL
    start = draw.choice((MONDAY, MONDAY + draw.randrange(0, 2 * HOUR, MINUTE), MONDAY - 400 * 24 * HOUR, FIRST))
    times = {"started_at": start, "ended_at": start + draw.choice((MINUTE, HOUR, 40 * HOUR, 31 * 24 * HOUR))}
    return row | {name: value for name, value in times.items() if table.has(name)}


def _value(draw: random.Random, column: Column, runs: Sequence[str]) -> Any:
    chosen = {
        "gpu_uuid": (
            OWN_GPU,
            "n9g1",
            *(f"n{number}g{number % 2}" for number in range(9)),
            "invented",
            f"GPU-{draw.random()}",
        ),
        "parent_uuid": (None, "n0g0", OWN_GPU),
        "run_id": runs,
        "alias_run_id": (*runs, "n9g0"),
        "parent_run_id": runs,
        "restarts_of": runs,
        "scheduler": ("slurm", "kubernetes", "cgroup", "declared", "process", "ray", None),
        "exit_status": ("failed", "node_failed", "completed", "preempted"),
        "state": ("down", "drained", "up"),
        "told_by": (None, "n0", EVIL),
        "sku": ("H100-80GB", "T4-16GB"),
        "owned_from": (MONDAY - 4000 * 24 * HOUR, MONDAY),
        "owned_until": (None, END),
        "rank": (0, 1, 5),
        "attempt": (None, 0, 1),
    }
    if column.name in chosen:
        return draw.choice(chosen[column.name])
    if column.type == "string":
        return draw.choice(("x", "n0", "team0", "u1", "vllm"))
    if column.type == "bool":
        return draw.random() < 0.5
    low, high = column.range or (0, 10**12)
    return draw.choice((low, high, low + (high - low) // 2 if column.type == "int64" else low + (high - low) / 2))


def takes(fleet: Fleet, book: HostBook, tables: dict[str, list[dict[str, Any]]], sequence: int) -> dict[str, int]:
    """Let a collector take a batch of the tenth host as its door does; return what it put aside, by table.

    Raises:
        BatchError: it refuses the batch whole.
    """
    body = encode(agent=EVIL, stream="evil", sequence=sequence, sent_at=END - 10 * MINUTE, tables=tables)
    batch = decode(body, END + MINUTE)
    if (what := foreign_part(EVIL, batch)) is not None:
        raise BatchError(403, "node", what)
    batch = own_part(book.learn(EVIL, END, gpus_named(batch)), batch)
    for name, rows in batch.tables.items():
        told = {"told_by": EVIL} if TABLES[name].has("told_by") else {}
        if rows.num_rows:
            fleet.add(name, [row | told for row in rows.to_pylist()])
    return dict(batch.quarantined)


def of_others(fleet: Fleet) -> dict[str, list[tuple[object, ...]]]:
    """Return all that the ledger says of the nine and of their runs, and what a reader is told of each run."""
    with believing(fleet.store) as session:
        runs, reader = [list(RUNS)], Reader(session, Settings())
        return {
            "ledger": session.rows("SELECT * FROM ledger WHERE node <> ? ORDER BY ALL", [EVIL]),
            "runs": session.rows("SELECT * FROM runs WHERE run_id IN (SELECT unnest(?::VARCHAR[])) ORDER BY ALL", runs),
            "reports": [(run, answer(reader, Request("run", subject=run, format="json"))) for run in (SERVED, OVER)],
        } | {
            f"{table} of runs": session.rows(
                f"SELECT * EXCLUDE (batch) FROM {table} WHERE {name} IN (SELECT unnest(?::VARCHAR[])) ORDER BY ALL",
                runs,
            )
            for table, name in OF_RUNS.items()
        }


def held_by(fleet: Fleet) -> list[tuple[object, ...]]:
    """Return who holds the GPUs of the nine by the hour, for how long and at what price, and whose those runs are."""
    with fleet.store.session() as session:
        return session.rows(
            "SELECT hour, gpu_uuid, node, l.run_id, sum(milliseconds), sum(cost_micros), any_value(owner), "
            "any_value(team), any_value(cost_centre), any_value(r.project) "
            "FROM ledger l LEFT JOIN runs r USING (run_id) "
            "WHERE node <> ? GROUP BY hour, gpu_uuid, node, l.run_id ORDER BY ALL",
            [EVIL],
        )


def registered(registry: Registry) -> HostBook:
    """Return what a collector with this registry remembers of hosts."""
    return HostBook(registry.homes)
