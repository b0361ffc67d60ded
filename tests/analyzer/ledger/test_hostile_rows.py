"""Rows of one host that no device could have told neither fail the ledger nor change what is booked of others."""

import random

import pytest

from agent.wire.tables import TABLES
from collector.store.schemas import make_tier_tables
from tests.analyzer.ledger.amounts_site import NOW, fill
from tests.analyzer.ledger.fleet import HOUR, MINUTE, MONDAY, Fleet
from tests.collector.lake.test_tiers_hostile_rows import EVIL, value

SAMPLES = tuple(name for name, table in TABLES.items() if {"node", "started_at", "ended_at"} <= set(table.names))


def told(seed: int | None = None) -> Fleet:
    """Return the site, not analysed yet, and beside it a host that owns a GPU; by a seed its floats are no device's."""
    fleet, draw = Fleet(), random.Random(seed)
    make_tier_tables(fleet.store)
    fill(fleet)
    fleet.own(EVIL, ["evil0"])
    fleet.hold("evil", EVIL, ["evil0"], MONDAY, MONDAY + HOUR)
    for name in () if seed is None else SAMPLES:
        table = TABLES[name]
        floats = [column for column in table.columns if column.type == "float64"]
        for at in range(MONDAY, MONDAY + HOUR, MINUTE):
            known = {"node": EVIL, "gpu_uuid": "evil0", "run_id": "evil", "started_at": at, "ended_at": at + MINUTE}
            texts = {column.name: "x" for column in table.columns if column.required and column.type == "string"}
            values = {column.name: value(draw, column) for column in floats}
            row = texts | known | values
            fleet.add(name, [{column: row[column] for column in row if column in table.names}])
    return fleet


@pytest.fixture(scope="module")
def mine() -> list[tuple[object, ...]]:
    """What is booked of the others where that host says nothing."""
    alone = told()
    alone.analyze(now=NOW)
    return [row for row in alone.rows() if EVIL not in row]


@pytest.mark.parametrize("seed", range(2))
def test_absurd_rows_of_one_host_leave_the_ledger_of_others_as_it_is(seed: int, mine: list[tuple[object, ...]]) -> None:
    """The door takes none of them; a store that is older than its rules may hold them, and one pass books for all."""
    beside = told(seed)
    beside.analyze(now=NOW)
    assert len(SAMPLES) > 6
    assert len(mine) > 10
    assert [row for row in beside.rows() if EVIL not in row] == mine
