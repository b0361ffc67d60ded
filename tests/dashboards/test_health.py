"""The page of health: the doctor's words, how much was measured, who is silent, what could not be judged."""

import time
from collections.abc import Mapping
from html import unescape

import httpx

from agent.wire.units import SECOND_US
from analyzer.settings.settings import Settings
from collector.config import CollectorConfig
from collector.store.database import Store
from dashboards.server.app import ServerConfig, create_server
from tests.dashboards.serving import served, whole
from tests.dashboards.test_money import sheet
from tests.waiting import until


def test_the_page_says_what_the_doctor_says(client: httpx.Client) -> None:
    """One examination, whether it is read on a terminal or here; the ledger is read when it is asked for."""
    before = client.get("/health").text
    assert "read the whole ledger too" in before
    page = unescape(client.get("/health?ledger=read").text)
    told = client.get("/v1/doctor").json()
    for section in told["sections"]:
        if section["name"] != "JOBS":  # tells seconds
            assert f"<h3>{section['name'].capitalize()}</h3>" in page
    assert all(line["what"] in page for line in told["sections"][0]["lines"])
    assert "The ledger was read" in client.get("/health").text


def test_what_was_measured_is_the_report_s_figure(client: httpx.Client) -> None:
    """99.7% on the terminal, and here."""
    text = client.get("/v1/read?what=week&since=2026-W46").text
    page = client.get("/health?week=2026-W46").text.replace("\u00a0", " ")
    assert "99.7%" in text
    assert "<strong>99.7%</strong>" in page
    rows = sheet(client, "/health/coverage.csv?week=2026-W46")
    assert len(rows) == 168
    assert sum(int(row["owned_milliseconds"]) for row in rows) == 32_256 * 3_600_000


def test_what_could_not_be_judged_is_listed_with_what_it_lacked(client: httpx.Client) -> None:
    """As many rules as the list of findings counts; where that takes long, the page's script may ask for it."""
    answer = client.get("/health?week=2026-W46")
    assert "connect-src 'self'" in answer.headers["content-security-policy"]
    page = whole(client, "/health?week=2026-W46")
    rules = {row["rule"] for row in sheet(client, "/health/unjudged.csv?week=2026-W46")}
    assert rules
    assert all(rule in page for rule in rules)


def test_a_new_server_has_a_page_too() -> None:
    """Before the first hour is booked is when somebody looks whether anything comes at all."""
    config = ServerConfig(CollectorConfig(listen="127.0.0.1:0"), Settings(), analyze_seconds=None)
    with Store.open(None) as store, served(create_server(config, store)) as client:
        page = client.get("/health")
        assert page.status_code == 200
        assert "No agent has sent anything in the past week." in page.text
        assert client.get("/health/agents.csv").status_code == 200
        assert "0 of 4 done" in client.get("/money").text
        assert client.get("/money/bill.csv").status_code == 404


def _heard(store: Store, senders: Mapping[str, int]) -> None:
    """Let these senders, and nobody else, have sent a batch each, so many seconds ago."""
    now = time.time_ns() // 1000
    with store.session() as session:
        session.execute("DELETE FROM receipts")
        for batch, (agent, seconds) in enumerate(senders.items()):
            at = now - seconds * SECOND_US
            values = [batch + 1, agent, agent, 0, "", at, at, 1, 1]
            session.execute("INSERT INTO receipts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)


def test_a_scheduler_and_a_prometheus_are_no_silent_agents() -> None:
    """A scheduler is heard when a job changes, and what was imported of a Prometheus once is never heard again."""
    config = ServerConfig(CollectorConfig(listen="127.0.0.1:0"), Settings(), analyze_seconds=None)
    with Store.open(None) as store, served(create_server(config, store)) as client:
        _heard(store, {"scheduler:slurm/alpha": 7200})
        assert "No agent has sent anything in the past week" in client.get("/health").text
        assert "0 of 4 done" in client.get("/").text, "no agent is there yet"
        _heard(store, {"scheduler:slurm/alpha": 7200, "prometheus:http://p": 7200})
        home = client.get("/").text
        assert "1 of 4 done" in home
        assert "A Prometheus is read." in home
        _heard(store, {"scheduler:slurm/alpha": 7200, "prometheus:http://p": 7200, "n1": 10, "n2": 7200})
        page = client.get("/health").text
        assert "<strong>1 of 2</strong><span>agents seen in the last 5 minutes" in page
        assert page.count(", silent</span>") == 1
        assert "prometheus:http://p" in page
        assert "2 agents seen." in client.get("/").text


def test_a_browser_is_shown_the_last_seconds_and_a_program_is_told_anew(client: httpx.Client) -> None:
    """The page must not wait for what is counted; who asks by program, or for the ledger, gets what is so now."""
    opened = {"Sec-Fetch-Dest": "document"}

    def page() -> httpx.Response | None:
        answer = client.get("/health", headers=opened)
        return answer if answer.status_code != 202 else None

    answer = until(page, "the page is made")
    assert answer.status_code == 200
    assert "agents seen in the last 5 minutes" in answer.text
    assert "The ledger was read" in client.get("/health?ledger=read", headers=opened).text
    assert "The ledger was read" in client.get("/health").text
