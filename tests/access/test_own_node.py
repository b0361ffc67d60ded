"""An agent's key writes rows of its own host, and of no other."""

from typing import Any

import pytest

from collector.access.own_node import may_write
from collector.access.roles import LOOPBACK, Principal
from collector.decoding.batch import decode
from collector.errors import BatchError
from tests.access.conftest import add_key, bearer
from tests.access.serving import Site
from tests.collector.batches import NOW, body, gpu_rows, host_rows

OWN = Principal("k", "agent", node="n14")


def _batch(**tables: list[dict[str, Any]]) -> Any:
    return decode(body(tables=tables), NOW)


def _allocation(node: str | None) -> dict[str, Any]:
    row = {"run_id": "slurm/alpha/1", "started_at": NOW - 10**7, "gpu_uuid": "GPU-0", "user": "mira"}
    return row | ({"node": node} if node is not None else {})


def test_rows_of_its_own_host_pass() -> None:
    """All that an agent sends bears its name."""
    may_write(OWN, _batch(gpu_samples=gpu_rows(480), host_samples=host_rows()))
    may_write(OWN, _batch(gpu_samples=[]))


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
    with pytest.raises(BatchError, match="the key k is of the host 'n14'") as refusal:
        may_write(OWN, _batch(**tables))
    assert refusal.value.status == 403
    may_write(Principal("w", "writer"), _batch(**tables))
    may_write(LOOPBACK, _batch(**tables))


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
    may_write(OWN, _batch(run_aliases=[{name: value for name, value in row.items() if name in known} for row in rows]))
