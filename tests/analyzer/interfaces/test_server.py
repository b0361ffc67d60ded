"""The commands about money ask a running server as all reading commands do, and get the answer of the store itself."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from analyzer.errors import ConfigError, LedgerError
from analyzer.interfaces.cli.prices import charges, costs, prices
from tests.analyzer.interfaces.api_sites import TOKEN, Site, site
from tests.collector.access.conftest import bearer

BESIDE = """
[[charge]]
team = "holders"
usd_per_gpu_hour = 2.90
from = 2020-01-01
source = "internal"
as_of = 2025-11-01

[[energy]]
usd_per_kwh = 0.11
pue = 1.30
from = 2020-01-01
source = "power contract"
as_of = 2025-11-01
"""


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A server on the small site, with a rate and a tariff, and its token in the environment."""
    monkeypatch.setenv("GPULEDGER_TOKEN", TOKEN)
    with site(tmp_path) as served:
        prices = tmp_path / "prices.toml"
        prices.write_text(prices.read_text() + BESIDE)
        yield served


def test_charges_come_from_a_server_in_every_form(running: Site, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody stops a server to charge a week; the file has the same amounts as the ledger's own reading."""
    server = ["2025-11-10", "--server", str(running.client.base_url)]
    assert charges(server) == 0
    assert "one charge rate; otherwise a team is charged the cost of its GPUs" in capsys.readouterr().out
    assert charges([*server, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "gpuledger/charges"
    total = sum(line["cost_micros"] for line in document["charges"])
    assert total == running.json("/v1/ledger?since=2025-11-10")["total"]["cost_micros"]
    assert charges([*server, "--csv", "--by", "cost-centre"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("period,cost_centre,gpu_hours,currency,cost,avoidable,charged,difference,corrects\n")
    assert "no cost centre: holders" in said.out
    assert "hours of 2025-11-10 are in the ledger" in said.err


def test_costs_come_from_a_server(running: Site, capsys: pytest.CaptureFixture[str]) -> None:
    """The same text and the same integers."""
    server = ["2025-11-10", "--server", str(running.client.base_url)]
    assert costs(server) == 0
    assert "costs besides GPUs 2025-11-10" in capsys.readouterr().out
    assert costs([*server, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "gpuledger/costs"


def test_what_is_of_this_machine_is_refused_with_a_server(running: Site) -> None:
    """A price file that the server never sees must not seem to have counted."""
    server = ["--server", str(running.client.base_url)]
    with pytest.raises(ConfigError, match="a server answers by its own files"):
        charges([*server, "--prices", "other.toml"])
    with pytest.raises(LedgerError, match="no hour of 2024-01"):
        charges(["2024-01", *server])


def test_a_teams_key_sees_no_charges_of_others(running: Site) -> None:
    """They are the whole site's: what one team is charged is no other's to know."""
    for what in ("charges", "costs"):
        answer = running.client.get(f"/v1/read?what={what}", headers=bearer(running.keys["holders"]))
        assert answer.status_code == 403
    assert running.get("/v1/read?what=week&format=csv").status_code == 404
    assert running.get("/v1/read?what=charges&by=rack").status_code == 422


def test_the_book_and_its_check_come_from_a_server(running: Site, capsys: pytest.CaptureFixture[str]) -> None:
    """What prices the ledger is the server's file, and not one that happens to lie here."""
    server = ["--server", str(running.client.base_url)]
    assert prices(server) == 0
    text = capsys.readouterr().out
    assert text.startswith("prices of this site  prices.toml\n")
    assert prices(["--json", "--sku", "h100", *server]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["book_version"] == running.get("/v1/prices").headers["X-Price-Version"]
    assert {row["sku"] for row in told["prices"]} == {"H100-80GB"}
    assert prices(["check", "--json", *server]) == 1  # its prices were looked at long ago
    found = json.loads(capsys.readouterr().out)["complaints"]
    assert "stale" in {one["kind"] for one in found}
    assert prices(["check", *server]) == 1
    checked = " ".join(capsys.readouterr().out.split())
    assert all(" ".join(one["sentence"].split()) in checked for one in found)
    with pytest.raises(ConfigError, match="a server answers by its own files"):
        prices(["--prices", "other.toml", *server])
    for what in ("prices", "prices-check"):
        answer = running.client.get(f"/v1/read?what={what}", headers=bearer(running.keys["holders"]))
        assert answer.status_code == 403
