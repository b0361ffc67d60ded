"""A real Prometheus over a real demo fleet: its server, its hosts' exporters, and a second site with more to tell."""

import json
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dashboards.demo import DemoConfig, demo
from simulator.fleet import Fleet
from simulator.site import small_site
from tests.analyzer.interfaces.api_sites import TOKEN
from tests.collector.prometheus.servers import prometheus
from tests.dashboards.grafana.hosts import SimulatedHost
from tests.dashboards.grafana.older import older_site
from tests.fleet.ports import free_port
from tests.waiting import PATIENCE_SECONDS, until

BUDGETS = """
[[budget]]
usd_per_month = 1_000
from = 2020-01-01
source = "a test"

[[budget]]
team = "team-nlp"
usd_per_month = 10
from = 2020-01-01
source = "a test"
"""
SETTINGS = """
[analyzer]
cluster = "alpha"
timezone = "Europe/Berlin"
prices = "prices.toml"
teams = "teams.toml"
budgets = "budgets.toml"
"""
RULES = Path(__file__).parents[3] / "dashboards" / "prometheus"
RULE_FILES = ("recording.yml", "fleet.yml", "hosts.yml")
SCRAPES = 12  # of each host: its simulated hour is then over


@dataclass(frozen=True)
class Asked:
    """A Prometheus that has scraped; `pages` is where the demo's server is."""

    url: str
    pages: str

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the series of an instant query; a query that Prometheus refuses fails the test."""
        address = f"{self.url}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
        with urllib.request.urlopen(address, timeout=PATIENCE_SECONDS) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return found

    def values(self, label: str) -> list[str]:
        """Return all values of a label."""
        with urllib.request.urlopen(f"{self.url}/api/v1/label/{label}/values", timeout=PATIENCE_SECONDS) as answer:
            found: list[str] = json.load(answer)["data"]
        return found


@pytest.fixture(scope="package")  # it goes on scraping, which costs others their time
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """A Prometheus that has scraped two servers, and the hosts of the demo for a simulated hour."""
    folder = tmp_path_factory.mktemp("grafana")
    with ExitStack() as stack:
        shown = stack.enter_context(demo(_demo(folder / "demo")))
        other = stack.enter_context(older_site(_made(folder / "older")))
        fleet = Fleet(small_site(seed=1, every_seconds=60))
        hosts = [stack.enter_context(closing(SimulatedHost(fleet, host))) for host in fleet.site.hosts]
        jobs = [
            _job("server", "alpha", [shown.url]),
            _job("server of another site", "older", [str(other.base_url)], TOKEN),
            _job("hosts", "alpha", [f"127.0.0.1:{host.port}" for host in hosts]),
        ]
        scraping = prometheus(folder / "prometheus", json.dumps(jobs), rules=[RULES / name for name in RULE_FILES])
        found = Asked(stack.enter_context(scraping), shown.url)
        until(lambda: all(host.scrapes > SCRAPES for host in hosts), "every host was scraped often enough")
        budgets = 'gpuledger_fleet_month_budget_usd{cluster="alpha"}'
        until(lambda: len(found.query(budgets)) == 2, "the budgets are on the page, which is made anew after a while")
        until(lambda: found.query('gpuledger_fleet_gpus{cluster="older"}'), "the other site was scraped")
        yield found


def _demo(folder: Path) -> DemoConfig:
    _made(folder)
    (folder / "gpuledger.toml").write_text(SETTINGS, encoding="utf-8")
    (folder / "budgets.toml").write_text(BUDGETS, encoding="utf-8")
    return DemoConfig(once=True, port=free_port(), store=folder / "demo.duckdb", small=True)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _job(name: str, cluster: str, targets: list[str], token: str | None = None) -> dict[str, object]:
    bare = [target.removeprefix("http://").rstrip("/") for target in targets]
    job: dict[str, object] = {
        "job_name": name,
        "honor_labels": True,
        "static_configs": [{"targets": bare, "labels": {"cluster": cluster}}],
    }
    return job | ({"authorization": {"credentials": token}} if token else {})
