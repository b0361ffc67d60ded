"""Whole scrapes of hosts in situations that matter, byte for byte, and clean in Prometheus' eyes."""

import shutil
import subprocess
from collections.abc import Callable

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from agent.config import DcgmNames
from agent.metrics.families import Scraped, registry
from agent.metrics.snapshot import Snapshot
from agent.sampling.sampler import Stamped
from agent.sampling.stamp import Identity
from agent.source import Value
from agent.wire.contract import Table, metric_name
from agent.wire.tables import TABLES
from agent.wire.units import SECOND_US
from tests.agent.situations import SITUATIONS, Situation, lived, mig, time_sliced, uuid, without_gpm

NAMES: tuple[DcgmNames, ...] = ("legacy", "v4.9", "both", "off")


def scrape(situation: Situation, dcgm: DcgmNames = "legacy", identity: Identity | None = None) -> str:
    """Return what a scrape of a host says after some beats of a situation."""
    scraped = Scraped(supported=lambda: situation.supported, dcgm=dcgm, version="1.2.3")
    return generate_latest(registry(lived(situation, identity), scraped)).decode()


def promtool() -> str:
    """Return the path of promtool."""
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is missing: apt-get install prometheus")
    return found


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_whole_scrape(golden: Callable[[str, str], None], name: str) -> None:
    """Dashboards and rules are written against these bytes; a change of any of them must be meant."""
    golden(f"scrapes/{name}.txt", scrape(SITUATIONS[name]()))


@pytest.mark.parametrize(("name", "dcgm"), [("since_4_9", "v4.9"), ("both_names", "both")])
def test_a_whole_scrape_under_newer_names(golden: Callable[[str, str], None], name: str, dcgm: DcgmNames) -> None:
    """Who has moved to dcgm-exporter 4.9 finds its names and units, and who is moving finds both."""
    golden(f"scrapes/{name}.txt", scrape(mig() if dcgm == "v4.9" else without_gpm(), dcgm))


@pytest.mark.parametrize("dcgm", NAMES)
@pytest.mark.parametrize("name", SITUATIONS)
def test_a_scrape_has_no_series_twice(name: str, dcgm: DcgmNames) -> None:
    """Prometheus refuses the whole scrape for one series that is there twice."""
    families = list(text_string_to_metric_families(scrape(SITUATIONS[name](), dcgm)))
    series = [(sample.name, *sorted(sample.labels.items())) for family in families for sample in family.samples]
    assert len(series) == len(set(series))
    assert len(families) == len({family.name for family in families})


@pytest.mark.parametrize("name", SITUATIONS)
def test_promtool_finds_nothing(name: str) -> None:
    """Names, units and types are what Prometheus' own linter asks for; dcgm-exporter's names are not ours."""
    assert lint(scrape(SITUATIONS[name](), "off")) == ""


def test_promtool_finds_nothing_in_the_whole_contract() -> None:
    """A column that no situation has must be clean all the same."""
    tables = {table.name: [_filled(table)] for table in TABLES.values() if table.family}
    snapshot = Snapshot(lambda: 0)
    snapshot.observe([Stamped("all", SECOND_US, 0, SECOND_US, tables)])
    text = generate_latest(registry(snapshot)).decode()
    names = {metric_name(table, column) for table in TABLES.values() for column in table.columns} - {None}
    assert [name for name in names if f"# TYPE {name} " not in text] == []
    assert lint(text) == ""


def test_a_scrape_tells_no_more_names_than_a_batch() -> None:
    """Who may scrape a host must not learn what `identity` keeps from the collector."""
    shared = scrape(time_sliced())
    assert 'user="nobody"' in shared
    assert "user=" not in scrape(time_sliced(), identity=Identity("none"))


def test_a_shared_gpu_is_told_once() -> None:
    """One series for each sharer would make every sum over GPUs count the GPU as often."""
    lines = scrape(time_sliced()).splitlines()
    assert sum(line.startswith("DCGM_FI_DEV_POWER_USAGE{") for line in lines) == 1
    assert not [line for line in lines if line.startswith("DCGM_") and ("pod=" in line or "hpc_job=" in line)]
    assert sum(line.startswith("gpuledger_gpu_run_info{") and uuid(0) in line for line in lines) == 2


def lint(text: str) -> str:
    """Return what promtool says against a scrape."""
    done = subprocess.run([promtool(), "check", "metrics"], input=text, capture_output=True, text=True)
    return done.stdout + done.stderr


def _filled(table: Table) -> dict[str, Value]:
    """Return a row with every label and every number."""
    numbers = [column.name for column in table.columns if column.kind in ("gauge", "amount", "counter")]
    return dict.fromkeys(table.labels, "x") | dict.fromkeys(numbers, 1)
