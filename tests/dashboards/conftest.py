"""A server on the example week, in process and on a real port."""

from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest
from fastapi import FastAPI

from collector.config import CollectorConfig
from collector.store.database import Store
from dashboards.server.app import ServerConfig, create_server
from tests.analyzer.reports import example_week
from tests.analyzer.reports.test_reading import BERLIN, EXAMPLE
from tests.dashboards.serving import served
from tests.small_demo import shown, small_demo

HOSTILE = '<script>alert("x")</script>'


@pytest.fixture(scope="session")
def app() -> Iterator[FastAPI]:
    """Yield the application on the example week, with one hostile name among the recommendations."""
    advice = example_week.recommendations()
    advice[4] = replace(advice[4], subject=HOSTILE)
    loss_source = replace(EXAMPLE, recommendations=lambda *_: advice)
    config = ServerConfig(CollectorConfig(listen="127.0.0.1:0"), BERLIN, analyze_seconds=None)
    with Store.open(None) as store:
        with store.session() as session:
            example_week.fill(session)
            session.execute("UPDATE runs SET name = ? WHERE run_id = 'slurm/alpha/81500'", [HOSTILE])
        yield create_server(config, store, loss_source)


@pytest.fixture(scope="session")
def client(app: FastAPI) -> Iterator[httpx.Client]:
    """Yield a client of the application on a free port."""
    with served(app) as client:
        yield client


@pytest.fixture(scope="session")
def address(client: httpx.Client) -> str:
    """Return the address of the application, for browsers."""
    return str(client.base_url).rstrip("/")


@pytest.fixture(scope="module")
def demo_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a small demo fleet, this module's alone: agents' batches, ledger and pages are real."""
    with shown(small_demo(tmp_path_factory)) as client:
        yield str(client.base_url).rstrip("/")
