"""POST /api/v1/write over HTTP: what is answered, what is stored, and that it counts once."""

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from collector.config import CollectorConfig
from collector.prometheus.request import V1, V2
from tests.collector.prometheus.writes import HEADERS, HEADERS_1, HEADERS_2, STEP, Series, body, labels, packed
from tests.collector.serving import Answer, Running, running

PATH = "/api/v1/write"
BOTH = pytest.mark.parametrize("proto", [V1, V2])


@pytest.fixture
def began() -> int:
    """When the scrapes of a test began, milliseconds UTC: an hour ago."""
    return time.time_ns() // 1_000_000 - 3_600_000


def send(collector: Running, proto: str, series: Sequence[Series]) -> Answer:
    """Send samples."""
    return collector.client.request("POST", PATH, body(proto, series), HEADERS[proto])


def scrape(at: int, number: int = 0, gpus: int = 2) -> list[Series]:
    """Return what a scrape of a host says."""
    return [
        series
        for gpu in range(gpus)
        for series in (
            (labels("DCGM_FI_DEV_GPU_UTIL", gpu), [(at, 10.0 * number + gpu)]),
            (labels("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", gpu), [(at, 1e6 * number)]),
        )
    ]


def rows(collector: Running, columns: str = "gpu_uuid, utilization_ratio, energy_joules") -> list[tuple[Any, ...]]:
    """Return what is stored of GPUs."""
    with collector.store.session() as session:
        return session.rows(f"SELECT {columns} FROM gpu_samples ORDER BY started_at, gpu_uuid")


@BOTH
def test_scrapes_become_rows(collector: Running, began: int, proto: str) -> None:
    """A row a GPU and scrape, from the second scrape on; both versions of the protocol say the same."""
    for number in range(3):
        answer = send(collector, proto, scrape(began + number * STEP, number))
        assert (answer.status, answer.text) == (204, "")
        assert answer.headers["x-prometheus-remote-write-samples-written"] == "4"
        assert answer.headers["x-prometheus-remote-write-histograms-written"] == "0"
        assert answer.headers["x-prometheus-remote-write-exemplars-written"] == "0"
    assert rows(collector) == [("GPU-0", 0.1, 1000), ("GPU-1", 0.11, 1000), ("GPU-0", 0.2, 1000), ("GPU-1", 0.21, 1000)]


def test_an_answer_that_got_lost_counts_once(collector: Running, began: int) -> None:
    """Who hears nothing sends again: the same request, to the same effect."""
    for number in range(3):
        for _ in range(3):
            assert send(collector, V1, scrape(began + number * STEP, number)).status == 204
    assert len(rows(collector)) == 4


def test_a_scrape_that_comes_in_parts_is_one_row(collector: Running, began: int) -> None:
    """Senders shard a target's series over parallel requests; a row of half the columns would be wrong for ever."""
    for number in range(3):
        whole = scrape(began + number * STEP, number, gpus=1)
        parts = [threading.Thread(target=send, args=(collector, V1, [series])) for series in whole]
        for part in parts:
            part.start()
        for part in parts:
            part.join()
    assert rows(collector) == [("GPU-0", 0.1, 1000), ("GPU-0", 0.2, 1000)]


def test_a_backlog_in_one_request(collector: Running, began: int) -> None:
    """After an outage a sender brings many scrapes at once; each is a row, and each a batch of its own."""
    told = [
        (labels("DCGM_FI_DEV_GPU_UTIL"), [(began + n * STEP, float(n)) for n in range(20)]),
        (labels("DCGM_FI_DEV_GPU_TEMP"), [(began + n * STEP, 60.0) for n in range(20)]),
    ]
    assert send(collector, V2, told).status == 204
    assert [row[1] for row in rows(collector)] == [n / 100 for n in range(1, 20)]
    assert collector.count("receipts") == 19
    assert send(collector, V2, told).status == 204
    assert collector.count("receipts") == 19


def test_a_restart_costs_no_row(config: CollectorConfig, began: int) -> None:
    """A collector that comes back knows when each target was last scraped; only what counters moved is unknown."""
    with running(config) as first:
        for number in range(2):
            send(first, V1, scrape(began + number * STEP, number))
    with running(config) as second:
        send(second, V1, scrape(began + STEP, 1))  # sent again: the answer was lost
        for number in range(2, 4):
            assert send(second, V1, scrape(began + number * STEP, number)).status == 204
        told = rows(second, "gpu_uuid, started_at, energy_joules, energy_joules_total")
    ours = [row[1:] for row in told if row[0] == "GPU-0"]
    assert ours == [
        (began * 1000, 1000, 1000),
        ((began + STEP) * 1000, None, 2000),
        ((began + 2 * STEP) * 1000, 1000, 3000),
    ]


def test_what_the_contract_has_no_word_for_is_accepted(collector: Running, began: int) -> None:
    """A sender that is told that nothing was written of go_goroutines complains with every request."""
    answer = send(collector, V2, [({"__name__": "go_goroutines", "instance": "n14:9400"}, [(began, 7.0)])])
    assert answer.status == 204
    assert answer.headers["x-prometheus-remote-write-samples-written"] == "1"
    assert collector.count("receipts") == 0


def test_who_holds_a_gpu_is_told(collector: Running, began: int) -> None:
    """Where nobody asks the scheduler, the exporter's labels are all there is to know of who held what."""
    pods = [{"exported_pod": "train-0", "exported_namespace": "research"}] * 3 + [{}] * 2 + [{"hpc_job": "81234"}] * 2
    for number, held in enumerate(pods):
        named = labels("DCGM_FI_DEV_GPU_UTIL", pod="dcgm-exporter-x") | held
        assert send(collector, V1, [(named, [(began + number * STEP, 50.0)])]).status == 204
    with collector.store.session() as session:
        told = session.rows(
            "SELECT run_id, member, scheduler, (started_at // 1000 - ?) // ?, max((ended_at // 1000 - ?) // ?) "
            "FROM allocations GROUP BY ALL ORDER BY 4",
            [began, STEP, began, STEP],
        )
        assert session.rows("SELECT gpu_uuid, gpu_index, sku FROM inventory") == [("GPU-0", 0, "H100-80GB")]
    assert told == [
        ("kubernetes/default/research.train-0", "research/train-0", "kubernetes", 0, 2),
        ("slurm/default/81234", None, "cgroup", 4, 5),
    ]


@pytest.mark.parametrize(
    ("headers", "sent", "status", "reason"),
    [
        ({"Content-Type": "application/json"}, b"{}", 415, "content_type"),
        (HEADERS_1 | {"Content-Type": "application/x-protobuf;proto=prometheus.v3"}, b"", 415, "content_type"),
        (HEADERS_1 | {"Content-Encoding": "gzip"}, b"", 415, "content_encoding"),
        ({"Content-Type": "application/x-protobuf"}, b"", 415, "content_encoding"),
        (HEADERS_1, b"\xff\x06\x00\x00sNaPpY", 400, "snappy"),
        (HEADERS_1, b"\x05abc", 400, "snappy"),
        (HEADERS_1, packed(b"\x0a\xff"), 400, "protobuf"),
        (HEADERS_2, packed(b"\x22\x01a\x2a\x02\x0a\x00"), 400, "symbols"),
        (HEADERS_1, b"\xff\xff\xff\xff\x0f", 413, "too_large"),
    ],
)  # fmt: skip
def test_what_is_no_request_is_refused(
    collector: Running, headers: dict[str, str], sent: bytes, status: int, reason: str
) -> None:
    """415 tells a sender to try the other version, 400 and 413 to drop it; none of them costs anything."""
    answer = collector.client.request("POST", PATH, sent, headers)
    assert (answer.status, answer.json["reason"]) == (status, reason)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-prometheus-remote-write-samples-written"] == "0"


def test_one_version_under_the_name_of_the_other_writes_nothing_and_says_so(collector: Running, began: int) -> None:
    """Their numbers of fields differ on purpose: a sender sees by the count that it spoke the wrong one."""
    answer = collector.client.request("POST", PATH, body(V1, scrape(began)), HEADERS_2)
    assert answer.headers["x-prometheus-remote-write-samples-written"] == "0"


@BOTH
def test_nothing_is_a_request(collector: Running, proto: str) -> None:
    """Senders ask with an empty request what we speak."""
    assert send(collector, proto, []).status == 204
    assert collector.client.request("POST", PATH, b"", HEADERS[proto]).status in (204, 400)


@BOTH
@pytest.mark.parametrize("wrong", ["future", "past"])
def test_a_part_that_cannot_be_true_does_not_cost_the_rest(
    collector: Running, began: int, proto: str, wrong: str
) -> None:
    """400 with the number that was written: the sender drops the rest, which would be wrong for ever."""
    send(collector, proto, scrape(began))
    bad = began + 10 * 86_400_000 if wrong == "future" else 1000
    told = [*scrape(began + STEP, 1), (labels("DCGM_FI_DEV_GPU_UTIL", 7), [(bad, 1.0)])]
    answer = send(collector, proto, told)
    assert answer.status == 400
    assert answer.headers["x-prometheus-remote-write-samples-written"] == "4"
    assert "1 of 5 samples" in answer.json["detail"]
    assert len(rows(collector)) == 2


def test_series_have_a_bound(config: CollectorConfig, began: int) -> None:
    """A sender with a million targets must not end the collector; those that are known go on."""
    with running(replace(config, remote_write_series=6)) as collector:
        for number in range(3):
            at = began + number * STEP
            known = send(collector, V1, scrape(at, number))
            stranger = (labels("DCGM_FI_DEV_GPU_UTIL", 7, node="n15"), [(at, 1.0)])
            assert send(collector, V1, [stranger]).status == 400
            assert known.status == 204
        assert len(rows(collector)) == 4


def test_a_better_exporter_is_believed_alone(collector: Running, began: int) -> None:
    """Where our agent and dcgm-exporter watch one GPU, rows of both would each claim the whole of its time."""
    for number in range(3):
        at = began + number * STEP
        ours = (
            {"__name__": "gpuledger_gpu_utilization_ratio", "gpu_uuid": "GPU-0", "instance": "n14:9477"},
            [(at, 0.5)],
        )
        assert send(collector, V1, [ours, (labels("DCGM_FI_DEV_GPU_UTIL"), [(at + 7, 40.0)])]).status == 204
    assert [row[1] for row in rows(collector)] == [0.5, 0.5]


def test_it_counts_what_it_does(collector: Running, began: int) -> None:
    """An operator sees that samples come, and what is left out of them."""
    send(collector, V1, [*scrape(began), ({"__name__": "up"}, [(began, 1.0)])])
    page = collector.client.get("/metrics").text
    assert "gpuledger_collector_remote_write_accepted_samples 4.0" in page
    assert "gpuledger_collector_remote_write_left_out_samples 1.0" in page
    assert 'gpuledger_collector_batches_total{result="remote_write"} 1.0' in page
