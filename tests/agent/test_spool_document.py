"""docs/spool.md: its figures are those of the code, and its metrics exist."""

import re
from pathlib import Path

from agent.clock import Timeline
from agent.delivery.batch import MOST_WAITING
from agent.delivery.link import LONGEST_ASKED_SECONDS, LONGEST_SECONDS
from agent.spool.queue import MEMORY_BYTES
from agent.spool.segment_store import BLOCK, PRIVATE, QUARANTINED_BYTES_MAX, QUARANTINED_FILES_MAX
from agent.wire.contract import metric_name
from agent.wire.tables import TABLES
from agent.wire.units import SECOND_US
from bench.contract_document import OWN_METRICS

TEXT = (Path(__file__).parent.parent.parent / "docs" / "spool.md").read_text("utf-8")


def test_the_figures_are_those_of_the_code() -> None:
    """An operator plans a disk with them."""
    assert f"blocks of {BLOCK // 1024} KiB" in TEXT
    assert f"{QUARANTINED_BYTES_MAX // 10**6} MB or {QUARANTINED_FILES_MAX} files" in TEXT
    assert f"mode {PRIVATE:04o}" in TEXT
    assert f"{MEMORY_BYTES // 10**6} MB of batches" in TEXT
    assert f"for {MOST_WAITING} batches" in TEXT
    assert f"off by up to {Timeline.STEP_TOLERANCE // SECOND_US} s" in TEXT
    assert (Timeline.HOLD, LONGEST_SECONDS, LONGEST_ASKED_SECONDS) == (60 * SECOND_US, 300, 3600), "in words there"


def test_the_metrics_exist() -> None:
    """A name that nobody exports is an alert that never fires."""
    columns = {metric_name(table, column) for table in TABLES.values() for column in table.columns}
    for name in re.findall(r"gpuledger_\w+", TEXT):
        assert name in columns or name in OWN_METRICS, name
