"""An invoice is held against the ledger of a server that runs: same answer, kept with who said it, by its own role."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from agent.wire.units import HOUR_US
from analyzer.errors import ConfigError, LedgerError
from analyzer.interfaces.cli.bills import prices_reconcile
from tests.analyzer.finops.reconcile_invoices import invoice
from tests.analyzer.interfaces.api_sites import Site, site
from tests.collector.access.conftest import add_key, bearer

USAGE = {
    "ChargePeriodStart": "2025-11-10T00:00:00Z",
    "ChargePeriodEnd": "2025-11-11T00:00:00Z",
    "SkuId": "H100-80GB",
    "ChargeDescription": "GPUs",
    "PricingUnit": "Hours",
}


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A server on the small site, and a key of finance in the environment."""
    with site(tmp_path) as served:
        monkeypatch.setenv("GPULEDGER_TOKEN", add_key(served.registry, "finance"))
        yield served


def bill_of(running: Site, path: Path, times: float = 1.0) -> Path:
    """Write the invoice that the ledger's day would have, so many times as dear."""
    day = running.json("/v1/ledger?since=2025-11-10T00:00:00Z&until=2025-11-11T00:00:00Z")["total"]
    cost, hours = day["cost_micros"] / 1e6 * times, day["milliseconds"] / 3.6e6
    price = {"EffectiveCost": f"{cost:.6f}", "BilledCost": f"{cost:.6f}", "PricingQuantity": f"{hours:.6f}"}
    return invoice(path, USAGE | price, {"ChargeCategory": "Tax", "EffectiveCost": "7.00", "ChargeDescription": "VAT"})


def test_a_server_holds_an_invoice_against_its_ledger(
    running: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The answer is the store's, reports say it at once, and the audit says whose key it was."""
    path = bill_of(running, tmp_path / "aws.csv")
    server = ["--invoice", str(path), "--server", str(running.client.base_url)]
    assert prices_reconcile([*server, "--dry-run"]) in (0, 1)
    shown = capsys.readouterr().out
    assert shown.startswith("invoice aws.csv   2025-11-10 UTC, USD\n")
    assert "NOT COMPARED: 1 kind of lines, USD 7.00" in shown
    assert running.json("/v1/invoices")["matches"] == []
    assert "not reconciled with an invoice" in _week(running)
    code = prices_reconcile([*server, "--json"])
    told = json.loads(capsys.readouterr().out)
    assert (told["schema"], code) == ("gpuledger/reconcile", 0 if told["matched"] else 1)
    (kept,) = running.json("/v1/invoices")["matches"]
    assert (kept["invoice"], kept["label"], kept["matched"]) == ("aws.csv", "2025-11-10", told["matched"])
    assert "not reconciled with an invoice" not in _week(running)
    (entry,) = [one for one in running.registry.audit.since(0) if one.action == "reconcile"]
    assert (entry.actor, entry.subject) == (kept["who"], "2025-11-10")
    assert entry.detail.startswith("aws.csv (")


def _week(running: Site) -> str:
    return " ".join(running.get("/v1/read?what=week&since=2025-11-10").text.split())


def test_the_sums_that_are_sent_say_what_the_file_says(
    running: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside the server, with the store read: not a millionth apart, whatever the span."""
    path = bill_of(running, tmp_path / "aws.csv", 1.5)
    for span in ([], ["--since", "2025-11-10"]):
        assert (
            prices_reconcile(["--invoice", str(path), "--server", str(running.client.base_url), "--json", *span]) == 1
        )
        report = json.loads(capsys.readouterr().out)
        assert report["invoice_micros"] == round(1.5 * report["ledger_micros"]) or not report["ledger_micros"]


def test_only_who_reconciles_may(running: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads cannot say that the invoice matches; and who says it can change no price to make it so."""
    path = bill_of(running, tmp_path / "aws.csv")
    finance = add_key(running.registry, "finance")
    for role in ("read", "owner", "approver"):
        monkeypatch.setenv("GPULEDGER_TOKEN", add_key(running.registry, role))
        with pytest.raises(LedgerError, match="answers 403"):
            prices_reconcile(["--invoice", str(path), "--server", str(running.client.base_url)])
    answer = running.client.put("/v1/prices", content=b"", headers=bearer(finance))
    assert answer.status_code == 403


def _post(running: Site, **more: object) -> httpx.Response:
    day = {"sku": "H100-80GB", "day": 1_762_732_800_000_000, "nanos": 1, "nano_hours": 1}
    body = {"invoice": "i", "digest": "0" * 64, "currencies": ["USD"], "lines": 1, "days": [day]} | more
    key = add_key(running.registry, "finance")
    return running.client.post("/v1/invoices", content=json.dumps(body), headers=bearer(key))


def test_what_cannot_be_is_refused_in_a_sentence(running: Site) -> None:
    """A body that was made up by somebody must not reach the store, nor pass its integers."""
    day = {"sku": "H100-80GB", "day": 1_762_732_800_000_000, "nanos": 1, "nano_hours": 1}
    assert _post(running).status_code == 200
    assert _post(running, days=[day, day]).status_code == 409
    assert "none of its 1 lines in the period is of a known GPU" in _post(running, days=[]).json()["detail"]
    for wrong in ({"nanos": 10**18}, {"day": 1}, {"day": -1}, {"sku": ""}, {"more": 1}, {"nanos": 0.5}):
        assert _post(running, days=[day | wrong]).status_code == 422
    assert _post(running, digest="x").status_code == 422
    assert _post(running, invoice="x" * 9_000_000).status_code == 413


def test_settings_of_this_machine_are_refused_with_a_server(running: Site, tmp_path: Path) -> None:
    """They would seem to have counted."""
    path = invoice(tmp_path / "i.csv", USAGE)
    with pytest.raises(ConfigError, match="answers by its own settings"):
        prices_reconcile(["--invoice", str(path), "--server", str(running.client.base_url), "--config", "x.toml"])


def test_a_server_compares_no_hours_that_the_bill_has_no_usage_in(running: Site) -> None:
    """The file is not there: from when to when it has usage is sent with its sums."""
    day = 1_762_732_800_000_000
    first = {"begins": day, "ends": day + HOUR_US}
    whole, part = (_post(running, keep=False, **more).json()["report"] for more in ({}, first))
    assert part["label"] == f"{whole['label']}, the first or last day in part"
    owned, owned_first = (sum(each["ledger_ms"] for each in report["differences"]) for report in (whole, part))
    assert 0 < owned_first < owned
