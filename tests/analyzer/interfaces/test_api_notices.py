"""Notices over HTTP: what the rules say, page by page, and of a team's runs to that team alone."""

from collections.abc import Iterator
from typing import Any

import pytest

from analyzer.settings.settings import Settings
from dashboards.server.app import ServerConfig, create_server
from tests.analyzer.findings.health_fleets import compute, hosts, train
from tests.analyzer.interfaces.api_sites import TEAMS, Site, collector
from tests.analyzer.ledger.fleet import HOUR, MONDAY
from tests.collector.access.conftest import add_key
from tests.dashboards.serving import served

SICK: dict[str, dict[str, Any]] = {
    "n1-a": {"utilization_ratio": 0.0, "sm_active_ratio": 0.0},
    "n2-b": {"pcie_width": 8, "ecc_uncorrected_events": 1},
    "n3-a": {"pcie_replay_events": 30},
}


@pytest.fixture(scope="module")
def sick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield a server before hosts of which several are not well; two teams train on them."""
    teams = tmp_path_factory.mktemp("sick") / "teams.toml"
    teams.write_text(TEAMS)
    fleet, chosen = hosts(SICK), Settings(teams=teams)
    train(fleet, ["n1-a"], name="notebook-prep")  # of the holders
    train(fleet, ["n1-b", "n2-a", "n2-b", "n3-a", "n3-b"], "slurm/alpha/2", "slurm/alpha/2")
    compute(fleet, "slurm/alpha/1", "n1", cores=20.0)
    fleet.analyze(now=MONDAY + 6 * HOUR, settings=chosen)
    app = create_server(ServerConfig(collector(), chosen, analyze_seconds=None), fleet.store)
    registry = app.state.access.registry
    keys = {team: add_key(registry, "read", teams=(team,)) for team in ("holders", "workers")}
    with served(app) as client:
        yield Site(client, fleet, keys, registry)


def test_pages_are_parts_of_one_list(sick: Site) -> None:
    """In the order of the rules; filters keep what they name."""
    whole = sick.json("/v1/notices?limit=1000")["items"]
    assert sick.items("/v1/notices?limit=1") == whole
    rules = [item["rule"] for item in whole]
    assert {"hardware/pcie_width", "fleet/ecc/uncorrected", "fleet/links/pcie", "fleet/cpu_only"} <= set(rules)
    assert [item for item in whole if item["rule"].startswith("fleet/")] == sick.items("/v1/notices?rule=fleet")
    assert [item for item in whole if item["node"] == "n2"] == sick.items("/v1/notices?node=n2")
    assert sick.items("/v1/notices?rule=fle") == []
    assert {item["confidence"] for item in sick.items("/v1/notices?confidence=high")} == {"high"}


def test_what_could_not_be_judged_is_told(sick: Site) -> None:
    """Not evaluated is an answer."""
    told = {one["rule"]: one["missing"] for one in sick.json("/v1/notices")["not_judged"]}
    assert told["fleet/links/nvlink"] == "agents send NVLink traffic but no NVLink error counters"


def test_a_team_sees_what_is_its_own(sick: Site) -> None:
    """Hosts and queues are the site's to look after."""
    (own,) = sick.items("/v1/notices", "holders")
    assert (own["rule"], own["run_ids"], own["team"]) == ("fleet/cpu_only", ["slurm/alpha/1"], "holders")
    assert sick.items("/v1/notices", "workers") == []
    assert sick.json("/v1/notices", "workers")["not_judged"] == [
        {"rule": one["rule"], "missing": one["missing"]}
        for one in sick.json("/v1/read?what=findings&format=json&unjudged=True", "workers")["not_judged"]
    ]


def test_a_cursor_of_what_is_gone_is_refused(sick: Site) -> None:
    """As with the other listings: better anew than half."""
    cursor = sick.json("/v1/notices?limit=1")["next_cursor"]
    assert sick.get(f"/v1/notices?limit=1&cursor={cursor}").status_code == 200
    assert sick.get(f"/v1/notices?limit=1&node=n2&cursor={cursor}").status_code == 404
    assert sick.get("/v1/notices?confidence=maybe").status_code == 422


def test_the_reports_of_a_server_have_them_too(sick: Site) -> None:
    """The command line asks a running server, within its transaction."""
    answer = sick.get("/v1/read?what=findings&everything=True")
    assert answer.status_code == 200
    assert "OBSERVATIONS" in answer.text
    assert "reseat it" in answer.text
