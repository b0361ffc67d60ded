"""What the collector says of itself."""

from agent.wire.contract import SCHEMA_VERSION
from agent.wire.tables import TABLES
from tests.collector.batches import body
from tests.collector.serving import Running


def test_the_schema_page_is_the_contract(collector: Running) -> None:
    """An agent may ask what a collector understands before it sends."""
    answer = collector.client.get("/v1/schema").json
    assert answer["schema_version"] == SCHEMA_VERSION
    assert answer["tables"].keys() == TABLES.keys()
    assert answer["tables"]["gpu_samples"][0] == ["node", "string"]


def test_metrics_count_what_was_committed(collector: Running) -> None:
    """The collector is watched like everything else."""
    for _ in range(2):
        collector.client.post(body())
    text = collector.client.get("/metrics").text
    for line in (
        'gpuledger_collector_batches_total{result="accepted"} 1.0',
        'gpuledger_collector_batches_total{result="repeated"} 1.0',
        'gpuledger_collector_rows_total{table="gpu_samples"} 2.0',
        "gpuledger_collector_commit_seconds_count 1.0",
        "gpuledger_collector_queue_depth 0.0",
        f"gpuledger_collector_received_bytes_total {2 * len(body())}.0",
    ):
        assert line in text
    assert "gpuledger_collector_store_bytes 0.0" not in text
    assert "_created" not in text


def test_no_page_loads_anything_from_elsewhere(collector: Running) -> None:
    """The framework's documentation pages fetch scripts from another host; they are off."""
    assert {collector.client.get(path).status for path in ("/docs", "/redoc", "/openapi.json")} == {404}


def test_only_post_brings_a_batch(collector: Running) -> None:
    """Anything else is a mistake that should show."""
    assert collector.client.get("/v1/batches").status == 405
