"""Who is silent, what waits to be sealed, and how old is what readers see: on /metrics, without asking the store."""

import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from agent.exposition import exposition
from collector.background import OWN_SENDERS
from collector.config import CollectorConfig
from collector.http.server_metrics import MetricsPoller
from collector.lake.sealing import seal
from collector.pipeline.decoding.batch import decode
from collector.pipeline.metrics import FORGOTTEN_SECONDS, NAMED, SILENT_SECONDS, WITHIN, Freshness, Metrics
from collector.pipeline.writer import Writer
from collector.store.database import Store
from collector.store.lake import default_lake
from tests.agent.test_exporter_situations import promtool
from tests.collector.batches import body
from tests.collector.serving import Running
from tests.waiting import PATIENCE_SECONDS

NOW = 1_794_178_800_000_000
SECOND = 1_000_000


def values(metrics: Metrics) -> dict[str, float]:
    """Return every sample of a page by its name and labels."""
    return {
        sample.name.removeprefix("gpuledger_collector_") + "".join(f" {value}" for value in sample.labels.values()): (
            sample.value
        )
        for family in text_string_to_metric_families(exposition(metrics.registry)[0].decode())
        for sample in family.samples
    }


@given(st.dictionaries(st.text("abc", min_size=1), st.integers(0, FORGOTTEN_SECONDS), max_size=40))
def test_every_agent_is_counted_once(ages: dict[str, int]) -> None:
    """Those within a bound are those within a smaller one and more; who is silent is within none of the first."""
    agents = Freshness()
    for agent, age in ages.items():
        agents.heard(agent, NOW - age * SECOND)
    seen = agents.ages(NOW)
    assert seen.known == len(ages)
    assert seen.within == {bound: sum(age <= bound for age in ages.values()) for bound in WITHIN}
    assert seen.silent == sum(age > SILENT_SECONDS for age in ages.values())
    assert len(seen.longest) == min(NAMED, seen.silent)
    assert [age for _, age in seen.longest] == sorted((age for _, age in seen.longest), reverse=True)


def test_an_old_word_makes_nobody_older() -> None:
    """Batches may be counted out of order."""
    agents = Freshness()
    agents.heard("n1", NOW)
    agents.heard("n1", NOW - 1000 * SECOND)
    assert agents.ages(NOW).silent == 0


@pytest.mark.parametrize("sender", OWN_SENDERS)
def test_what_the_server_writes_itself_is_no_agent(sender: str) -> None:
    """An import of this morning, and a scheduler whose last run has ended, are not silent since."""
    agents = Freshness()
    agents.heard("n1", NOW)
    agents.heard(f"{sender}a", NOW - 1000 * SECOND)
    assert (agents.ages(NOW).known, agents.ages(NOW).silent) == (1, 0)


def test_who_left_is_forgotten_in_the_end() -> None:
    """A host that was taken away must not be called silent for ever."""
    agents = Freshness()
    agents.heard("gone", NOW)
    assert agents.ages(NOW + FORGOTTEN_SECONDS * SECOND).silent == 1
    assert agents.ages(NOW + (FORGOTTEN_SECONDS + 1) * SECOND).known == 0


def test_no_number_of_agents_is_too_many() -> None:
    """10,000 hosts, half of them silent: their number is told whole, and twenty of them by name."""
    metrics = Metrics()
    for number in range(10_000):
        metrics.agents.heard(f"n{number:05d}", NOW - (number % 2) * 1000 * SECOND - number)
    metrics.agents_page.show(metrics.agents.ages(NOW))
    found = {name: value for name, value in values(metrics).items() if "agent" in name}
    assert (found["agents"], found["agents_silent"], found["agents_heard 60"]) == (10_000, 5_000, 5_000)
    assert len(found) == 2 + len(WITHIN) + NAMED
    assert found["silent_agent_age_seconds n09999"] > 1000


def test_memory_has_a_bound() -> None:
    """Whoever may write may invent names; the one heard longest ago goes first."""
    agents = Freshness(most=3)
    for number in range(5):
        agents.heard(f"n{number}", NOW + number)
    assert agents.ages(NOW + 10).known == 3


def test_promtool_finds_nothing(collector: Running) -> None:
    """All that the collector tells of itself, after a batch."""
    collector.client.post(body())
    text = collector.client.get("/metrics").text
    done = subprocess.run([promtool(), "check", "metrics"], input=text, capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_restart_does_not_forget_who_was_silent(collector: Running) -> None:
    """Otherwise the alert would clear itself with every update."""
    collector.client.post(body())
    agent = "n14"
    later = Freshness()
    with collector.store.hot_session() as session:
        (received,) = session.row("SELECT max(received_at) FROM receipts")
        later.remember(session, received + 3600 * SECOND)
    seen = later.ages(received + 3600 * SECOND)
    assert (seen.silent, [name for name, _ in seen.longest]) == (1, [agent])


def test_what_waits_for_the_lake_is_told(tmp_path: Path) -> None:
    """Until it is sealed nobody can read it; then nothing waits."""
    path, metrics = tmp_path / "store.duckdb", Metrics()
    with Store.open(path, lake=default_lake(path)) as store:
        writer = Writer(store, CollectorConfig(store=path, gather_seconds=0))
        poller = MetricsPoller(store, writer.mark, metrics)
        writer.start()
        writer.submit(decode(body(), time.time_ns() // 1000 - 60 * SECOND)).result(PATIENCE_SECONDS)
        poller.once()
        found = values(metrics)
        assert found["arrivals_waiting"] == 1
        assert found["unsealed_age_seconds"] >= 60
        seal(store, writer.mark)
        poller.once()
        found = values(metrics)
        assert (found["arrivals_waiting"], found["unsealed_age_seconds"]) == (0, 0)
        assert found["ingest_lag_seconds"] >= 60
        writer.close()


def test_a_store_that_is_gone_leaves_the_page(collector: Running, tmp_path: Path) -> None:
    """The look is tried again; the scrape never waits for it."""
    collector.client.post(body())
    metrics = Metrics()
    poller = MetricsPoller(collector.store, collector.writer.mark, metrics)
    poller.once()
    before = values(metrics)["ingest_lag_seconds"]
    with collector.store.hot_session() as session:
        session.execute("ALTER TABLE receipts RENAME TO lost")
        poller.once()
        session.execute("ALTER TABLE lost RENAME TO receipts")
    assert values(metrics)["ingest_lag_seconds"] >= before
