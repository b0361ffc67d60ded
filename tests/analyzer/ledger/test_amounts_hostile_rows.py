"""Rows of one host that no device could have told neither fail the booking nor change what is booked of another."""

import random

import pytest

from agent.wire.contract import Table
from agent.wire.tables import TABLES
from analyzer.ledger.amounts import TABLES as BOOKED
from collector.store.schemas import make_tier_tables
from tests.analyzer.ledger.amounts_site import NOW, fill, site
from tests.analyzer.ledger.fleet import HOUR, MINUTE, MONDAY, Fleet, Row
from tests.collector.lake.test_tiers_hostile_rows import EVIL, value

# Of each table what is booked as an amount, of floats: what the ledger judges states by is not looked at here.
ABSURD = {"gpu_samples": ("energy_joules",), "service_samples": ("slo_seconds", "first_token_seconds_p99")}


def told(seed: int) -> Fleet:
    """Return the site, not analysed yet, with a host beside it whose floats are no device's."""
    fleet, draw = Fleet(), random.Random(seed)
    make_tier_tables(fleet.store)
    fill(fleet)
    for name in ABSURD:
        for number, at in enumerate(range(MONDAY, MONDAY + HOUR, MINUTE)):
            row = {"node": EVIL, "gpu_uuid": f"evil{number % 3}", "run_id": "evil", "started_at": at}
            values = {column: value(draw, TABLES[name].column(column)) for column in ABSURD[name]}
            fleet.add(name, [_of(TABLES[name], row | {"ended_at": at + MINUTE} | values)])
    return fleet


def _of(table: Table, row: Row) -> Row:
    return {column: row[column] for column in row if column in table.names}


def booked(fleet: Fleet) -> dict[str, list[tuple[object, ...]]]:
    """Return all that is booked of others."""
    subject = {"latency": "run_id <> 'evil'"}
    with fleet.store.session() as session:
        return {
            table: session.rows(
                f"SELECT * FROM {table}_amounts WHERE {subject.get(table, 'node IS DISTINCT FROM ?')} ORDER BY ALL",
                [] if table in subject else [EVIL],
            )
            for table in BOOKED
        }


@pytest.mark.parametrize("seed", range(2))
def test_absurd_rows_of_one_host_leave_what_is_booked_of_others_as_it_is(seed: int) -> None:
    """One pass books for all: a value that cannot be cast must not end it for everybody."""
    beside = told(seed)
    beside.analyze(now=NOW)
    assert booked(beside) == booked(site())
