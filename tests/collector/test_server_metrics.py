"""What the server's /metrics tells of the server itself: release, process, and requests by route."""

import json
import re
import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from agent.metrics.families import Scraped, registry
from agent.metrics.scrape_server import ScrapeServer
from collector.access.gate import ENDPOINTS
from tests.agent.situations import SITUATIONS, lived
from tests.agent.test_exposition import PROMETHEUS
from tests.analyzer.interfaces.api_sites import TOKEN, Site
from tests.analyzer.interfaces.api_sites import site as small_site
from tests.collector.batches import body
from tests.collector.importing.server import prometheus
from tests.collector.serving import Running
from tests.waiting import PATIENCE_SECONDS, until


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server with pages on the small site."""
    with small_site(tmp_path_factory.mktemp("site")) as running:
        yield running


def requests(text: str) -> dict[tuple[str, str, str], float]:
    """Return how many requests were counted, by method, route and status."""
    return {
        (sample.labels["method"], sample.labels["route"], sample.labels["status"]): sample.value
        for family in text_string_to_metric_families(text)
        if family.name == "gpuledger_server_requests"
        for sample in family.samples
    }


def test_requests_are_counted_by_route_and_status(collector: Running) -> None:
    """Batches too, which pass by the framework; a scrape counts itself when it has been answered."""
    collector.client.post(body())
    collector.client.post(b"no batch")
    for path in ("/v1/schema", "/v1/nothing", "/wp-login.php?x=1"):
        collector.client.get(path)
    counted = requests(collector.client.get("/metrics").text)
    assert counted == {
        ("POST", "/v1/batches", "200"): 1,
        ("POST", "/v1/batches", "400"): 1,
        ("GET", "/v1/schema", "200"): 1,
        ("GET", "(unknown)", "404"): 2,
    }
    assert requests(collector.client.get("/metrics").text)["GET", "/metrics", "200"] == 1


def test_no_path_and_no_method_of_a_client_is_a_label(site: Site) -> None:
    """Who sends a thousand paths would make a thousand series, and names of runs are in paths."""
    for number in range(50):
        site.client.request("GET", f"/v1/runs/slurm%2Falpha%2F{number}")
        site.client.request("GET", f"/{number}")
    for method in ("PROPFIND", "MKCOL", "PUT"):
        site.client.request(method, "/v1/runs")
    told = requests(site.get("/metrics").text)
    assert {route for _, route, _ in told} <= {each.path for each in ENDPOINTS} | {"(unknown)"}
    assert ("GET", "/v1/runs/{run_id:path}", "401") in told
    assert {method for method, _, _ in told} == {"GET", "PUT", "other"}


def test_times_are_told_by_route(collector: Running) -> None:
    """Each answer is in one bucket of its route, and the bounds rise."""
    for _ in range(3):
        collector.client.get("/v1/schema")
    text = collector.client.get("/metrics").text
    series = r'gpuledger_server_request_seconds_bucket\{le="([^"]+)",method="GET",route="/v1/schema"\} (\S+)'
    found = re.findall(f"^{series}$", text, re.MULTILINE)
    assert [float(bound) for bound, _ in found] == sorted(float(bound) for bound, _ in found)
    assert found[-1] == ("+Inf", "3.0")


def test_the_process_and_the_release_are_told(collector: Running) -> None:
    """Memory, processor time, files: the first thing that is asked of a server that is slow."""
    families = {family.name: family for family in text_string_to_metric_families(collector.client.get("/metrics").text)}
    for name in ("resident_memory_bytes", "open_fds", "start_time_seconds", "max_fds"):
        assert families[f"process_{name}"].samples[0].value > 0
    assert families["process_cpu_seconds"].samples[0].value > 0
    (build,) = families["gpuledger_server_build_info"].samples
    assert build.labels.keys() == {"version", "python"}


@pytest.mark.parametrize("path", ["/metrics", "/metrics?name=x"])
def test_the_servers_port_answers_in_openmetrics(site: Site, path: str) -> None:
    """The whole page, fleet and analysis too, as a strict reader takes it; and text for who does not ask."""
    answer = site.get(path, Accept=PROMETHEUS)
    assert answer.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert answer.headers["Vary"] == "Accept"
    names = [family.name for family in openmetrics_families(answer.text)]  # type: ignore[no-untyped-call]
    assert len(names) == len(set(names))
    assert {"gpuledger_fleet_info", "gpuledger_analysis_passes", "gpuledger_pages_made", "process_open_fds"} <= set(
        names
    )
    text = site.get(path)
    assert text.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert {family.name for family in text_string_to_metric_families(text.text)} == set(names)


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="optional: prometheus is not here; make services")
def test_prometheus_takes_both_ports(site: Site, tmp_path: Path) -> None:
    """It asks for OpenMetrics, and refuses a page whole for one line that it cannot read."""
    host = ScrapeServer("127.0.0.1", 0, registry(lived(SITUATIONS["mig"]()), Scraped(version="1.2.3")))
    host.start()
    jobs = [
        {"job_name": "host", "static_configs": [{"targets": [f"127.0.0.1:{host.port}"]}]},
        {
            "job_name": "server",
            "authorization": {"credentials": TOKEN},
            "static_configs": [{"targets": [site.client.base_url.netloc.decode()]}],
        },
    ]
    try:
        with prometheus(tmp_path / "data", {"scrape_configs": jobs}) as address:
            until(lambda: _of(address, "count(up == 1) == 2 and count(scrape_samples_scraped > 0)"), "both are scraped")
            assert _of(address, 'gpuledger_server_build_info{job="server"}')
            assert _of(address, 'gpuledger_agent_build_info{job="host"}')
    finally:
        host.stop()


def _of(address: str, query: str) -> list[object]:
    """Return the series that a query finds."""
    with urllib.request.urlopen(f"{address}/api/v1/query?query={quote(query)}", timeout=PATIENCE_SECONDS) as answer:
        found: list[object] = json.load(answer)["data"]["result"]
    return found
