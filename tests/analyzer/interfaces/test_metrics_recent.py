"""The newest ten minutes on /metrics: known while their hour still runs, a run's states summing to what it held."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from analyzer.interfaces.metrics.fleet_query import STRETCH_US, read_recent
from tests.analyzer.interfaces.api_sites import settings
from tests.analyzer.interfaces.test_metrics_fleet_page import families, page
from tests.analyzer.ledger.fleet import HOUR, MINUTE, MONDAY, Fleet
from tests.analyzer.small_site import IDLE

RUN, GPUS = "slurm/alpha/asleep", ["n0g0", "n0g1"]
KNOWN_UNTIL = MONDAY + HOUR + 27 * MINUTE


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    """One run that sleeps on two GPUs; of its second hour 27 minutes are known."""
    made = Fleet()
    made.own("n0", GPUS)
    made.hold(RUN, "n0", GPUS, MONDAY)
    for gpu in GPUS:
        made.sample("n0", gpu, MONDAY, KNOWN_UNTIL, **IDLE)
    yield made
    made.store.close()


def test_what_is_known_is_told_while_its_hour_runs(fleet: Fleet, tmp_path: Path) -> None:
    """Who waits for the hour hears of it an hour and a half later."""
    chosen = settings(tmp_path)
    fleet.analyze(now=KNOWN_UNTIL + 2 * MINUTE, settings=chosen)
    with fleet.store.session() as session:
        recent = read_recent(session)
    assert recent.until == MONDAY + HOUR + 20 * MINUTE
    assert sum(part.milliseconds for part in recent.runs) == 2 * STRETCH_US // 1000
    found = families(page(fleet.store, chosen))
    (until,) = found["gpuledger_fleet_recent_until_timestamp_seconds"].samples
    assert until.value == recent.until / 1e6
    told = found["gpuledger_fleet_run_recent_gpus"].samples
    assert sum(sample.value for sample in told) == 2
    assert {sample.labels["run_id"] for sample in told} == {RUN}


def test_the_fleet_is_told_whole_where_runs_are_cut(fleet: Fleet, tmp_path: Path) -> None:
    """Twenty runs that lose most are named; a fleet's share of them would hide what the rest does."""
    fleet.own("n1", ["n1g0"])
    fleet.hold("slurm/alpha/works", "n1", ["n1g0"], MONDAY)
    fleet.sample("n1", "n1g0", MONDAY, KNOWN_UNTIL)
    chosen = settings(tmp_path)
    fleet.analyze(now=KNOWN_UNTIL + 2 * MINUTE, settings=chosen)
    told = families(page(fleet.store, chosen))["gpuledger_fleet_recent_gpus"].samples
    assert sum(sample.value for sample in told) == 3
    asleep = [sample.value for sample in told if sample.labels["state"] == "held_idle"]
    assert sum(asleep) == 2
