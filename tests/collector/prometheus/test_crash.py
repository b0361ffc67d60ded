"""A collector with a lake that is killed between an answer and the next: every scrape is there once."""

import time
from pathlib import Path

import pytest

from collector.prometheus.request import V2
from collector.store.database import Store
from tests.collector.prometheus.test_remote_write import PATH, scrape
from tests.collector.prometheus.writes import HEADERS_2, STEP, body
from tests.collector.serving import CollectorProcess

SCRAPES = 6
KILLED_AFTER = (2, 3)


@pytest.mark.soak
def test_a_kill_costs_no_row_and_doubles_none(tmp_path: Path) -> None:
    """The sender repeats what it heard no answer to; what counters moved across a kill is all that may be unknown."""
    collector = CollectorProcess(tmp_path / "store.duckdb")
    collector.start()
    began = time.time_ns() // 1_000_000 - 3_600_000
    for number in range(SCRAPES):
        said = body(V2, scrape(began + number * STEP, number))
        for _ in range(2 if number in KILLED_AFTER else 1):
            assert collector.client.request("POST", PATH, said, HEADERS_2).status == 204
            if number in KILLED_AFTER:
                collector.kill()
                collector.start()
    collector.stop()
    with Store.open(tmp_path / "store.duckdb") as store, store.session() as session:
        told = session.rows(
            "SELECT gpu_uuid, count(*), count(DISTINCT started_at), min(started_at), max(ended_at), sum(energy_joules) "
            "FROM gpu_samples GROUP BY ALL ORDER BY 1"
        )
    whole = SCRAPES - 1
    first, last = began * 1000, (began + whole * STEP) * 1000
    known = 1000.0 * (whole - len(KILLED_AFTER))
    assert told == [(f"GPU-{gpu}", whole, whole, first, last, known) for gpu in range(2)]
