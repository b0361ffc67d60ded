"""What runs beside the server: the analysis."""

from pathlib import Path

import pytest

from analyzer.errors import LedgerError
from analyzer.interfaces.cli.command import ask
from analyzer.ledger.booking import Analysis
from analyzer.reports.request import Request
from analyzer.settings.settings import Settings
from collector.config import CollectorConfig
from collector.http.server import settings_of
from collector.store.database import Store
from dashboards.analysis import AnalysisJob
from dashboards.server.app import ServerConfig, create_server
from tests.dashboards.serving import served

TOKEN = "a-token-of-twenty-letters"


def test_a_failing_analysis_is_told_and_tried_again() -> None:
    """A broken price file must not take the collector down, and its repair must need no restart."""
    answers = iter([Analysis(24, 24, 10, 0), Analysis()])
    failures = iter([LedgerError("the price file is gone")])

    def analyze(_: int) -> Analysis:
        for failure in failures:
            raise failure
        return next(answers)

    job = AnalysisJob(analyze, 3600)
    assert job.once().error == "the price file is gone"
    again = job.once()
    assert (again.error, again.generation, again.failures, again.passes) == (None, 1, 1, 2)
    assert job.once().generation == 1


def test_the_analysis_runs_beside_the_server_and_ends_with_it() -> None:
    """A server that cannot end holds the store that the next one needs."""
    with Store.open(None) as store:
        config = ServerConfig(CollectorConfig(), Settings(), analyze_seconds=3600)
        app = create_server(config, store)
        with served(app) as client:
            assert client.get("/healthz").json() == {"healthy": True}
            assert "0 of 4 done" in client.get("/").text
        assert app.state.job.last.passes >= 1


def test_pages_ask_for_the_token_too() -> None:
    """Costs and names of runs are nobody's business but the site's."""
    for collects in (True, False):
        with Store.open(None) as store:
            config = ServerConfig(CollectorConfig(tokens=(TOKEN,)), Settings(), None, collects)
            with served(create_server(config, store)) as client:
                assert client.get("/").status_code == 401
                assert client.get("/v1/read?what=week").status_code == 401
                assert client.get("/", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_a_missing_token_is_a_sentence_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """--server against a server with tokens is the first thing tried; JSON in a sentence is no sentence."""
    monkeypatch.delenv("GPULEDGER_TOKEN", raising=False)
    with Store.open(None) as store:
        config = ServerConfig(CollectorConfig(tokens=(TOKEN,)), Settings(), None, collects=False)
        with served(create_server(config, store)) as client, pytest.raises(LedgerError) as refused:
            ask(str(client.base_url), Request("week"))
    assert "answers 401: this collector requires a token; " in str(refused.value)
    assert "; set GPULEDGER_TOKEN to a key; on the server, gpuledger admin access add --role read" in str(refused.value)


def test_the_analyzer_alone_takes_no_batches() -> None:
    """--only analyzer reads a store; it must not look like a collector to an agent."""
    with Store.open(None) as store:
        app = create_server(ServerConfig(CollectorConfig(), Settings(), None, collects=False), store)
        with served(app) as client:
            assert client.post("/v1/batches").status_code in (404, 405)


def test_the_analyzer_alone_can_be_listened_to(tmp_path: Path) -> None:
    """It has no door for batches, and must start without one."""
    config = CollectorConfig(store=tmp_path / "store.duckdb")
    with Store.open(None) as store:
        app = create_server(ServerConfig(config, Settings(), None, collects=False), store)
        assert settings_of(app, config).loaded
        assert app.state.alive() is not None
