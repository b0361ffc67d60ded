"""Rows of one host that no device could have told neither fail a roll-up nor change what is kept of another host."""

import math
import random
from typing import Any

import pytest

from agent.wire.contract import Column, Table
from agent.wire.tables import TABLES
from collector.lake.tiers import roll_up
from collector.store.schemas import make_tier_tables
from collector.tier_tables import SIZES, TIERED, tiered
from tests.analyzer.ledger.fleet import HOUR, MINUTE, MONDAY, Fleet, Row

HONEST, EVIL = "n1", "n9"
SPAN = 3 * HOUR


def told(seed: int, *, hostile: bool) -> Fleet:
    """Return a store with three hours of every table that has tiers; of one host, or of a hostile one beside it."""
    fleet = Fleet()
    make_tier_tables(fleet.store)
    draw = random.Random(seed)
    for name in TIERED:
        rows = [row(TABLES[name], at) for at in range(MONDAY, MONDAY + SPAN, 6 * MINUTE)]
        fleet.add(name, rows + ([absurd(draw, TABLES[name]) for _ in range(60)] if hostile else []))
    return fleet


def row(table: Table, at: int) -> Row:
    """Return a plain row of the honest host."""
    values = {"string": "x", "bool": True, "int64": 12_345, "float64": 0.5}
    plain: Row = {column.name: values[column.type] for column in table.columns}
    return plain | {"node": HONEST, "started_at": at, "ended_at": at + 6 * MINUTE}


def absurd(draw: random.Random, table: Table) -> Row:
    """Return a row of the other: values at the contract's edges and beyond, and intervals that are none."""
    start = MONDAY + draw.randrange(0, SPAN, MINUTE)
    length = draw.choice((-HOUR, -1, 0, 1, MINUTE, 5 * HOUR))
    values = {column.name: value(draw, column) for column in table.columns if draw.random() < 0.8}
    key = {column.name: "evil" for column in table.columns if column.kind == "key" and column.type == "string"}
    return values | key | {"node": EVIL, "started_at": start, "ended_at": start + length}


def value(draw: random.Random, column: Column) -> Any:
    """Return what no device tells."""
    if column.type == "string":
        return draw.choice(("", "x", "'", "1,2,,3", "a" * 1_000))
    if column.type == "bool":
        return draw.random() < 0.5
    if column.type == "int64":
        return draw.choice((0, -1, 2**59, 2**60, 2**63 - 1, -(2**63)))
    return draw.choice((0.0, -0.0, -1.0, 5e-324, 2.0**59, 1e12, 1e300, -1e300, math.nan, math.inf, -math.inf))


def kept(fleet: Fleet) -> dict[str, list[tuple[object, ...]]]:
    """Return all that the tiers have of the honest host."""
    tiers = [tiered(name).name(size) for name in TIERED for size in SIZES]
    with fleet.store.session() as session:
        return {tier: session.rows(f"SELECT * FROM {tier} WHERE node = ? ORDER BY ALL", [HONEST]) for tier in tiers}


@pytest.mark.parametrize("seed", range(2))
def test_absurd_rows_of_one_host_leave_the_tiers_of_others_as_they_are(seed: int) -> None:
    """What is not rolled up never expires, and no chart outlives its samples: one host must not stop it for all."""
    alone, beside = told(seed, hostile=False), told(seed, hostile=True)
    for fleet in (alone, beside):
        assert not roll_up(fleet.store, 1e12).again
    right = kept(alone)
    assert all(len(rows) == SPAN // (HOUR if tier.endswith("hours") else MINUTE) for tier, rows in right.items())
    assert kept(beside) == right
    with beside.store.session() as session:
        assert session.row("SELECT count(*) > 0 FROM gpu_hours WHERE node = ?", [EVIL]) == (True,)
        assert session.rows("SELECT hour FROM tier_due") == []
