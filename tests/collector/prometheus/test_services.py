"""What serving stacks count, by Prometheus: requests and tokens of each interval, by the run that its labels name."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from collector.prometheus.client import Client, Server
from collector.prometheus.labels import Clusters, ServedModels, Subject, subject
from collector.prometheus.names import catalogue
from collector.prometheus.pull import pull
from collector.store.database import Store
from tests.collector.prometheus.servers import Exporter, prometheus
from tests.collector.serving import Running
from tests.waiting import until

SCRAPES = 9
MISSED = 5  # this scrape fails
RESET = 7  # before this one the server was started again
COLUMNS = (
    "run_id, engine, model, requests, requests_failed, tokens_in, tokens_cached, tokens_out, running, waiting, "
    "kv_cache_ratio"
)
POD = {"pod": "chat-0", "namespace": "search", "node": "n1"}
ENGINES = 'engine="{engine}",model_name="llama"'


class Vllm(Exporter):
    """A vLLM of two engines: each scrape finds 3 + 2 requests more, two that failed, and 14 whose client left."""

    def answered(self) -> str | None:
        """Return the page of the next scrape."""
        self.scrapes += 1
        if self.scrapes == MISSED:
            return None
        count = self.scrapes - RESET if self.scrapes >= RESET else self.scrapes + 100
        lines = []
        for engine, each in enumerate((3, 2)):
            labels = ENGINES.format(engine=engine)
            lines += [
                f'vllm:request_success_total{{{labels},finished_reason="stop"}} {each * count}',
                f'vllm:request_success_total{{{labels},finished_reason="abort"}} {7 * count}',
                f'vllm:request_success_total{{{labels},finished_reason="error"}} {count}',
                f"vllm:prompt_tokens_cached_total{{{labels}}} {40 * each * count}",
                f"vllm:prompt_tokens_total{{{labels}}} {100 * each * count}",
                f"vllm:generation_tokens_total{{{labels}}} {50 * each * count}",
                f"vllm:num_requests_running{{{labels}}} {each}",
                f"vllm:num_requests_waiting{{{labels}}} 0",
                f"vllm:kv_cache_usage_perc{{{labels}}} {0.2 + 0.4 * engine}",
            ]
        return "\n".join(lines) + "\n"


class Triton(Exporter):
    """A Triton of two models, whose backend tells its tokens under vLLM's names."""

    def answered(self) -> str | None:
        """Return the page of the next scrape."""
        self.scrapes += 1
        lines = [
            f'nv_inference_request_success{{model="{model}",version="1"}} {each * self.scrapes}'
            for model, each in (("rank", 4), ("embed", 6))
        ]
        return "\n".join([*lines, f'vllm:generation_tokens_total{{model="rank",version="1"}} {9 * self.scrapes}', ""])


@pytest.fixture
def servers() -> Iterator[tuple[Vllm, Triton]]:
    """Two servers."""
    found = Vllm(), Triton()
    try:
        yield found
    finally:
        for one in found:
            one.close()


def test_counters_become_amounts_by_run_and_both_ways_say_the_same(
    tmp_path: Path, collector: Running, servers: tuple[Vllm, Triton]
) -> None:
    """No agent on the serving hosts: what Prometheus scrapes of them is what their requests cost."""
    vllm, triton = servers
    scrape = (
        f"[{{job_name: vllm, static_configs: [{{targets: ['127.0.0.1:{vllm.port}'], labels: {_yaml(POD)}}}]}}, "
        f"{{job_name: triton, static_configs: [{{targets: ['127.0.0.1:{triton.port}'], "
        f"labels: {_yaml({'run_id': 'slurm/alpha/7', 'node': 'n2'})}}}]}}]"
    )
    address = f"http://127.0.0.1:{collector.client.port}/api/v1/write"
    ours = f"[{{url: '{address}', queue_config: {{batch_send_deadline: 100ms}}}}]"
    with prometheus(tmp_path / "prometheus", scrape, ours) as url:
        until(lambda: vllm.scrapes > SCRAPES and triton.scrapes > SCRAPES, "enough was scraped")
        until(lambda: len(_rows(collector.store)) >= 2 * (SCRAPES - 4), "the collector has the rows")
        written = _rows(collector.store)
        last = max(row[1] for row in written)
        first = min(row[0] for row in written) - 3_000_000
        with Client(Server(url)) as client, Store.open(None) as store:
            pulled = pull(client, store, first, last, tables=("gpu_samples", "service_samples"))
            assert [row for row in _rows(store) if row[1] <= last] == written
    (mixed,) = pulled.notes
    assert mixed.startswith("1 services of Triton have several models (such as slurm/alpha/7): their requests are left")
    chat = {row[2:] for row in written if row[2] == "kubernetes/default/search.chat-0"}
    working = ("kubernetes/default/search.chat-0", "vllm", "llama", 5, 2, 500, 200, 250, 5, 0, pytest.approx(0.4))
    restarted = (*working[:3], None, None, None, None, None, *working[8:])
    assert sorted(chat, key=str) == sorted((working, restarted), key=str), "a restart's amounts are unknown, and no 0"
    rank = {row[2:] for row in written if row[2] == "slurm/alpha/7"}
    unknown = "two models, or an ensemble and its member: of which requests count nobody says"
    assert rank == {("slurm/alpha/7", "triton", None, None, None, None, None, 9, None, None, None)}, unknown


def of(name: str, **labels: str) -> list[Subject]:
    """Return whose a series is, by any of its slots."""
    metric = catalogue()[name]
    told = [subject(metric, slot, labels, Clusters("prod", "alpha")) for slot in metric.slots]
    return [one for one in told if one is not None]


def test_whose_run_it_is_the_labels_say() -> None:
    """By a run_id that a relabelling put there, else by the server's own pod; nothing is guessed from an address."""
    name = "vllm:request_success_total"
    (by_pod,) = of(name, instance="10.0.0.1:8000", pod="chat-0", namespace="search", node="n1", model_name="m")
    assert (by_pod.node, by_pod.key("run_id")) == ("n1", "kubernetes/prod/search.chat-0")
    (named,) = of(name, instance="n1:8000", run_id="slurm/alpha/7", pod="chat-0", model_name="m")
    assert named.key("run_id") == "slurm/alpha/7"
    assert of(name, instance="n1:8000", model_name="m") == []
    assert of(name, instance="n1:8000", run_id="seven", model_name="m") == []


@pytest.mark.parametrize(("reason", "counted"), [("abort", []), ("error", ["requests_failed"]), ("stop", ["requests"])])
def test_a_failure_is_no_request(reason: str, counted: list[str]) -> None:
    """Its client got nothing; one that went away has neither an answer nor an error."""
    metric = catalogue()["vllm:request_success_total"]
    labels = {"instance": "n:1", "run_id": "slurm/a/1", "finished_reason": reason, "model_name": "m"}
    assert [slot.column for slot in metric.slots if subject(metric, slot, labels) is not None] == counted


def test_of_an_ensemble_that_is_kept_alone_the_requests_count() -> None:
    """Its members may still tell their tokens."""
    models, kept = ServedModels(), Subject("service_samples", "n", (("run_id", "slurm/a/1"), ("engine", "triton")))
    for name, model in (("nv_inference_request_success", "chain"), ("nv_llm_input_token_len_sum", "llm")):
        models.note(kept, catalogue()[name].slots[0], model)
    assert models.mixed == set()
    models.note(kept, catalogue()["nv_inference_request_failure"].slots[0], "llm")
    assert (models.mixed, models.one(kept)) == ({kept}, None)


def test_two_replicas_of_a_run_on_one_host_are_two_rows() -> None:
    """Their scrapes come at different times: as one, neither would have an interval."""
    one, other = (of("vllm:prompt_tokens_total", instance=f"n1:{port}", run_id="slurm/a/1") for port in (8000, 8001))
    assert one != other


def _yaml(labels: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{name}: '{value}'" for name, value in labels.items()) + "}"


def _rows(store: Store) -> list[tuple[Any, ...]]:
    with store.session() as session:
        return session.rows(f"SELECT started_at, ended_at, {COLUMNS} FROM service_samples ORDER BY run_id, started_at")
