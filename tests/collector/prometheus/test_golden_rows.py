"""Pages of our exporter under dcgm-exporter's names, through remote write: the rows, as a diff to be read."""

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from collector.config import CollectorConfig
from collector.pipeline.writer import Writer
from collector.prometheus.labels import Clusters
from collector.prometheus.receiver import Limits, Receiver
from collector.prometheus.request import V1
from collector.store.database import Store
from tests.collector.prometheus.writes import STEP, Series, content
from tests.conftest import GOLDEN
from tests.waiting import PATIENCE_SECONDS

LINE = re.compile(r"^(DCGM_\w+)\{(.*)\} (\S+)$")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
TABLES = ("gpu_samples", "inventory", "allocations")
GROWS = re.compile(r"(?<!FB)_TOTAL|_VIOLATION|_COUNTER|ENERGY")


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    """A writer on a store in memory."""
    with Store.open(None) as store:
        writer = Writer(store, CollectorConfig(store=tmp_path / "none", lake="none", gather_seconds=0))
        writer.start()
        yield writer
        writer.close()


def page(name: str, at: int, number: int) -> list[Series]:
    """Return what a page says as samples; counters have grown by a tenth of a percent from one scrape to the next."""
    told: list[Series] = []
    for line in (GOLDEN / "scrapes" / f"{name}.txt").read_text().splitlines():
        if match := LINE.match(line):
            metric, labels, value = match[1], dict(LABEL.findall(match[2])), float(match[3])
            grown = value * (1 + number / 1000) if GROWS.search(metric) and "BANDWIDTH" not in metric else value
            told.append((labels | {"__name__": metric, "instance": "n14:9400", "job": "dcgm"}, [(at, grown)]))
    return told


@pytest.mark.parametrize("name", ["healthy", "since_4_9", "mig", "time_sliced", "xid_storm", "without_gpm"])
def test_a_page_becomes_rows(golden: Callable[[str, str], None], writer: Writer, name: str) -> None:
    """What a fleet's exporters say today is what its ledger is made of; a change of any number must be meant."""
    receiver = Receiver(writer, Limits(10_000, 0.0), Clusters("prod", "alpha"))
    receiver.start()
    began = time.time_ns() // 1_000_000 - 3_600_000
    for number in range(2):
        said = content(V1, page(name, began + number * STEP, number))
        assert receiver.take(said, V1).result(PATIENCE_SECONDS).refused == 0
    receiver.stop()
    with writer._store.session() as session:
        told = {
            table: [_shown(row, began) for row in session.arrow(f"SELECT * EXCLUDE (batch) FROM {table}").to_pylist()]
            for table in TABLES
        }
    shown = {table: sorted(rows, key=lambda row: str(row.get("gpu_uuid"))) for table, rows in told.items()}
    golden(f"prometheus/{name}.json", json.dumps(shown, indent=1) + "\n")


def _shown(row: dict[str, Any], began: int) -> dict[str, Any]:
    """Return a row without what is null; times in seconds from the first scrape on."""
    known = {name: value for name, value in row.items() if value is not None}
    for name in ("started_at", "ended_at"):
        known[name] = (known[name] // 1000 - began) / 1000
    return {name: round(value, 9) if isinstance(value, float) else value for name, value in known.items()}
