import json
from collections.abc import Callable
from typing import Any

import pytest

from agent.source import Reading, Source
from agent.sources.disk import DiskSource
from agent.sources.host import HostSource
from agent.sources.network import NetworkSource
from agent.sources.processes import ProcessSource
from agent.wire.tables import TABLES
from tests.agent.sources.conftest import told


@pytest.fixture
def readings(host: Any, attribution: Any, holder: Any) -> tuple[Reading, Reading]:
    """Return what all sources say of n14, and what they say ten seconds later."""
    held = [
        holder("GPU-a", 4711, 70 * 2**30, 0.4),
        holder("GPU-a", 4712, 300 * 2**20),
        holder("GPU-b", 4712, 70 * 2**30, 0.5),
        holder("GPU-c", 5000, 2**30),
    ]
    sources: list[Source] = [
        HostSource(host.proc, monotonic=host.monotonic),
        DiskSource(host.proc, monotonic=host.monotonic),
        NetworkSource(host.proc, host.sys),
        ProcessSource(lambda: told(held), attribution, host.wall, tuple, host.proc, host.sys, monotonic=host.monotonic),
    ]
    first = {table: rows for source in sources for table, rows in source.read().items()}
    host.move_on()
    return first, {table: rows for source in sources for table, rows in source.read().items()}


def test_a_captured_host_reads_as_it_always_did(
    readings: tuple[Reading, Reading], golden: Callable[[str, str], None]
) -> None:
    """Every number of a whole host is compared, so that no change of a parser passes unseen."""
    golden("host/n14.json", json.dumps(readings, indent=1) + "\n")


def test_rows_bear_the_contracts_names_and_stay_in_its_ranges(readings: tuple[Reading, Reading]) -> None:
    """The collector refuses what the contract does not know or does not believe."""
    for table, rows in [*readings[0].items(), *readings[1].items()]:
        for row in rows:
            for name, value in row.items():
                bounds = TABLES[table].column(name).range
                if bounds is not None and value is not None:
                    assert bounds[0] <= float(value) <= bounds[1], (table, name, value)


def test_first_readings_tell_no_amounts(readings: tuple[Reading, Reading]) -> None:
    """What a counter held before the agent came is nobody's use of an interval."""
    for table, rows in readings[0].items():
        amounts = {column.name for column in TABLES[table].columns if column.kind == "amount"}
        for row in rows:
            assert not [name for name in amounts & row.keys() if row[name] is not None], (table, row)
