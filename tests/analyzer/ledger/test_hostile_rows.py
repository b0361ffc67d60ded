"""Rows of hosts that no device could have told neither fail a pass nor change what is booked of others."""

import random
from collections.abc import Iterable

import pytest

from agent.wire.tables import TABLES
from analyzer.ledger.amounts import TABLES as BOOKED
from collector.store.schemas import make_tier_tables
from tests.analyzer.ledger.amounts_site import NOW, fill, site
from tests.analyzer.ledger.fleet import HOUR, MINUTE, MONDAY, Fleet, Row
from tests.collector.lake.test_tiers_hostile_rows import EVIL, value

SAMPLES = tuple(name for name, table in TABLES.items() if {"node", "started_at", "ended_at"} <= set(table.names))
# Of each table what is booked as an amount, of floats: a host that owns nothing tells of these alone.
AMOUNTS = {"gpu_samples": ("energy_joules",), "service_samples": ("slo_seconds", "first_token_seconds_p99")}
SEEDS = range(2)


@pytest.fixture(scope="module")
def beside() -> Fleet:
    """The site, and beside it hosts whose floats are no device's, of each seed one that owns a GPU; analysed once."""
    fleet = Fleet()
    make_tier_tables(fleet.store)
    fill(fleet)
    with fleet.together():
        for seed in SEEDS:
            node = f"{EVIL}-{seed}"
            fleet.own(node, [f"{node}g0"])
            fleet.hold(f"{EVIL}/{seed}", node, [f"{node}g0"], MONDAY, MONDAY + HOUR)
            floats = {name: [one.name for one in TABLES[name].columns if one.type == "float64"] for name in SAMPLES}
            for name, columns in floats.items():
                _tell(fleet, name, columns, f"{EVIL}/{seed}", node, 1, random.Random(f"{seed}{name}"))
            for name, amounts in AMOUNTS.items():
                _tell(fleet, name, amounts, f"{EVIL}/stray{seed}", f"{node}s", 3, random.Random(f"{seed}{name}"))
    fleet.analyze(now=NOW)
    return fleet


def _tell(fleet: Fleet, name: str, columns: Iterable[str], run: str, node: str, gpus: int, draw: random.Random) -> None:
    """Say what no device tells in these columns, minute by minute."""
    table = TABLES[name]
    texts = {column.name: "x" for column in table.columns if column.required and column.type == "string"}
    for number, at in enumerate(range(MONDAY, MONDAY + HOUR, MINUTE)):
        known: Row = {"node": node, "gpu_uuid": f"{node}g{number % gpus}", "run_id": run}
        known |= {"started_at": at, "ended_at": at + MINUTE}
        row = texts | known | {column: value(draw, table.column(column)) for column in columns}
        fleet.add(name, [{column: row[column] for column in row if column in table.names}])


def _of_others(rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    return [row for row in rows if not any(str(value).startswith(EVIL) for value in row)]


def test_absurd_rows_of_some_hosts_leave_the_ledger_of_others_as_it_is(beside: Fleet) -> None:
    """The door takes none of them; a store that is older than its rules may hold them, and one pass books for all."""
    mine = _of_others(beside.rows())
    assert len(SAMPLES) > 6
    assert 10 < len(mine) < len(beside.rows())
    assert mine == site().rows()


def test_absurd_rows_of_some_hosts_leave_what_is_booked_of_others_as_it_is(beside: Fleet) -> None:
    """One pass books for all: a value that cannot be cast must not end it for everybody."""
    with beside.store.session() as session, site().store.session() as alone:
        for table in BOOKED:
            booked = f"SELECT * FROM {table}_amounts ORDER BY ALL"
            assert _of_others(session.rows(booked)) == alone.rows(booked) != []
