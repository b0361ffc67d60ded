"""An agent's key tells of its own host, of GPUs that are its own, and of runs what no scheduler answers for."""

from typing import Any

import pytest

from agent.wire.envelope import encode
from collector.access.enrol import HostBook
from collector.errors import BatchError
from collector.pipeline.decoding.batch import decode
from collector.pipeline.decoding.own_word import Host, check_host, own_part
from collector.registry.keys import MOST_GPUS
from collector.registry.roles import LOOPBACK, Principal
from tests.collector.access.conftest import add_key, bearer
from tests.collector.access.serving import Site
from tests.collector.batches import NOW, body, gpu_rows, host_rows

OWN = Principal("k", "agent", node="n14")


def _batch(**tables: list[dict[str, Any]]) -> Any:
    return decode(body(tables=tables), NOW)


def of(host: Host, **tables: list[dict[str, Any]]) -> Any:
    """Return what is left of a batch of the host n14 as its own word."""
    return own_part(host, _batch(**tables))


def _allocation(node: str | None) -> dict[str, Any]:
    row = {"run_id": "slurm/alpha/1", "started_at": NOW - 10**7, "gpu_uuid": "GPU-0", "user": "mira"}
    return row | ({"node": node} if node is not None else {})


def test_rows_of_its_own_host_pass() -> None:
    """All that an agent sends bears its name."""
    check_host(OWN, _batch(gpu_samples=gpu_rows(480), host_samples=host_rows()))
    check_host(OWN, _batch(gpu_samples=[]))


@pytest.mark.parametrize(
    "tables",
    [
        {"gpu_samples": [*gpu_rows(7), *gpu_rows(1, node="n15")]},
        {"gpu_samples": gpu_rows(2), "host_samples": host_rows(node="n1")},
        {"host_samples": host_rows(node="n14 ")},
        {"allocations": [_allocation("n15")]},
        {"allocations": [_allocation("n14"), _allocation(None)]},
    ],
)
def test_one_row_of_another_host_refuses_the_batch(tables: dict[str, list[dict[str, Any]]]) -> None:
    """A host that is taken over cannot invent what others did; nor say of nobody's host that it waits."""
    with pytest.raises(BatchError, match="the key k belongs to the host 'n14'") as refusal:
        check_host(OWN, _batch(**tables))
    assert refusal.value.status == 403
    check_host(Principal("w", "writer"), _batch(**tables))
    check_host(LOOPBACK, _batch(**tables))


def test_a_batch_in_the_name_of_another_agent_is_refused(guarded: Site) -> None:
    """And nothing of it is stored: the answer is 403, which an agent waits out and never forgets a batch for."""
    mine, theirs = (add_key(guarded.registry, "agent", node=node) for node in ("n14", "n15"))
    answer = guarded.client.post(body(), bearer(theirs))
    assert (answer.status, answer.json["reason"]) == (403, "node")
    assert guarded.batches() == 0
    assert guarded.client.post(body(), bearer(mine)).status == 200
    assert guarded.batches() == 1


def test_names_of_runs_are_of_no_host() -> None:
    """`run_aliases` has no host; every other table is checked."""
    rows = [{"alias_run_id": "kubernetes/p/x", "run_id": "kubernetes/p/y", "member": "m", "started_at": NOW}]
    from agent.wire.tables import TABLES

    without = [name for name, table in TABLES.items() if all(column.name != "node" for column in table.columns)]
    assert without == ["run_aliases"]
    known = {column.name for column in TABLES["run_aliases"].columns}
    check_host(OWN, _batch(run_aliases=[{name: value for name, value in row.items() if name in known} for row in rows]))


N14 = Host("n14", NOW - 3600 * 10**6, frozenset({"GPU-0", "GPU-1"}))


@pytest.mark.parametrize(
    ("table", "row", "column"),
    [
        ("gpu_samples", gpu_rows(1, gpu_uuid="GPU-of-n15")[0], "gpu_uuid"),
        ("gpu_samples", gpu_rows(1, parent_uuid="GPU-of-n15")[0], "parent_uuid"),
        ("gpu_samples", gpu_rows(1, started_at=NOW - 3 * 86_400 * 10**6)[0], "started_at"),
        ("allocations", _allocation("n14") | {"scheduler": "cgroup", "gpu_uuid": "GPU-of-n15"}, "gpu_uuid"),
        ("allocations", _allocation("n14") | {"scheduler": "cgroup", "gpu_uuid": None}, "gpu_uuid"),
        ("allocations", _allocation("n14") | {"scheduler": "slurm"}, "scheduler"),
        ("allocations", _allocation("n14") | {"scheduler": "cgroup", "account": "theirs"}, "account"),
        ("allocations", _allocation("n14") | {"scheduler": "cgroup", "exit_status": "failed"}, "exit_status"),
        ("allocations", _allocation("n14") | {"scheduler": "process", "run_id": "process/n15/1.2"}, "run_id"),
        ("ownership", {"node": "n14", "slot": 3, "owned_from": NOW - 10**15}, "node"),
        ("node_states", {"node": "n14", "started_at": NOW - 10**7, "ended_at": NOW, "state": "down"}, "node"),
        ("run_aliases", {"alias_run_id": "process/n15/1.2", "run_id": "slurm/a/1"}, "alias_run_id"),
    ],
)
def test_what_is_not_a_hosts_to_tell_is_put_aside_with_its_reason(table: str, row: dict[str, Any], column: str) -> None:
    """The row alone: the others of the batch count, and whoever looks reads why."""
    batch = of(N14, **{table: [row], "host_samples": host_rows()})
    assert (batch.quarantined, batch.row_counts["host_samples"]) == ({table: 1}, 1)
    (aside,) = batch.asides
    assert (aside.table, aside.column) == (table, column)
    assert decode(batch.body, NOW).row_count == 1, "what is sealed later is read from the body"


def test_all_that_an_agent_tells_of_its_own_passes() -> None:
    """Holders as cgroups, kubelets and users say them, names of its pods, samples of its runs."""
    at = {"node": "n14", "started_at": NOW - 10**7, "ended_at": NOW}
    held = [
        _allocation("n14") | {"scheduler": one, "rank": 0} for one in ("kubernetes", "cgroup", "declared", "process")
    ]
    named = [{"alias_run_id": "kubernetes/p/uid", "run_id": "kubernetes/p/job", "member": "default/pod-0"}]
    tables = {
        "gpu_samples": gpu_rows(2),
        "allocations": held,
        "run_aliases": named,
        "process_samples": [at | {"run_id": "process/n14/7.8", "gpu_uuid": "GPU-1", "pid": 7}],
        "service_samples": [at | {"run_id": "slurm/a/1", "requests": 3}],
    }
    batch = of(N14, **tables)
    assert (batch.quarantined, batch.told_by) == ({}, "n14")


def test_a_gpu_is_of_the_host_that_told_of_it_first_until_it_is_moved(guarded: Site) -> None:
    """Whoever begins second is not believed of it; after a repair the operator says where it is now."""
    first, second = (add_key(guarded.registry, "agent", node=node) for node in ("n14", "n15"))
    mine = gpu_rows(1, gpu_uuid="GPU-7")
    assert guarded.client.post(body(tables={"gpu_samples": mine}), bearer(first)).status == 200
    theirs = [
        encode(
            agent="n15",
            stream="other",
            sequence=number,
            sent_at=NOW,
            tables={"gpu_samples": [mine[0] | {"node": "n15"}]},
        )
        for number in (1, 2)
    ]
    answer = guarded.client.post(theirs[0], bearer(second))
    assert (answer.status, answer.json["quarantined"]) == (200, 1)
    assert "not a GPU of n15: another host reported it first" in answer.json["reasons"][0]
    guarded.registry.homes.move("GPU-7", "n15", NOW, "cli:mira")
    assert HostBook(guarded.registry.homes).learn("n15", NOW, ["GPU-7"]).gpus == {"GPU-7"}


def test_who_told_a_row_stands_beside_it_whatever_the_sender_says(guarded: Site) -> None:
    """The ledger asks for it where a scheduler says otherwise (analyzer/ledger/believed.py)."""
    key = add_key(guarded.registry, "agent", node="n14")
    row = _allocation("n14") | {"scheduler": "cgroup", "told_by": None}
    assert (
        guarded.client.post(body(tables={"allocations": [row], "gpu_samples": gpu_rows(1)}), bearer(key)).status == 200
    )
    with guarded.store.session() as session:
        assert session.rows("SELECT node, told_by FROM allocations") == [("n14", "n14")]


def test_a_host_invents_no_more_gpus_than_a_host_can_have(guarded: Site) -> None:
    """Each would be owned, and priced."""
    book = HostBook(guarded.registry.homes)
    host = book.learn("n14", NOW, [f"GPU-{number}" for number in range(3000)])
    assert len(host.gpus) == MOST_GPUS
    assert book.learn("n14", NOW, ["GPU-one-more"]).gpus == host.gpus
