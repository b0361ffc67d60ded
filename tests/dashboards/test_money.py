"""The page of money: the API's figures, adding up as printed, and each table as CSV."""

import csv
import io
import json
import re
from pathlib import Path

import httpx
import pytest

from analyzer.finops.unit_cost.units import TOKENS, Hour
from analyzer.settings.settings import Settings
from collector.config import CollectorConfig
from collector.store.database import Store
from dashboards.pages.money import daily
from dashboards.server.app import ServerConfig, create_server
from tests.analyzer.ledger.fleet import HOUR, MONDAY, Fleet
from tests.analyzer.reports import example_week
from tests.analyzer.reports.test_reading import BERLIN, EXAMPLE
from tests.collector.access.conftest import bearer
from tests.dashboards.serving import served, whole

SHEETS = ("costs", "days", "budgets", "burn", "units", "runs", "prices", "savings")


def cells(page: str, section: str) -> list[list[str]]:
    """Return the cells of the first table of a section, as they are read."""
    found = re.search(rf'aria-labelledby="{section}">.*?<table[^>]*>(.*?)</table>', page, re.DOTALL)
    assert found is not None, section
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", found[1], re.DOTALL)
    return [
        [
            re.sub(r"<svg.*?</svg>|<[^>]+>", "", cell).replace("\u00a0", " ").strip()
            for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        ]
        for row in rows
    ]


def sheet(client: httpx.Client, path: str, key: str | None = None) -> list[dict[str, str]]:
    """Return a CSV by its columns."""
    answer = client.get(path, headers=bearer(key) if key else {})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/csv")
    return list(csv.DictReader(io.StringIO(answer.text)))


def amount(text: str) -> int:
    """Return a printed whole amount; nothing where none is told."""
    return 0 if text == "-" else int(text.replace(",", ""))


def test_teams_cost_what_the_report_and_the_api_say(client: httpx.Client) -> None:
    """One figure for one thing, wherever it is read."""
    page = client.get("/money?week=2026-W46").text
    rows = {row[0]: row for row in cells(page, "costs")[1:]}
    assert rows["team-nlp"][2:] == ["12,880", "33,488", "75.2%", "4,123"]
    assert rows["nobody (not allocated)"][2:] == ["7,424", "14,982", "-", "-"]
    assert rows["total"][2:4] == ["32,256", "67,738"]
    assert "$67,738 in 2026-W46, of which $9,226 was avoidable (13.6" in page
    costs = client.get("/v1/costs?since=2026-W46").json()
    assert costs["total"]["display"]["cost"] == "$67,738"


@pytest.mark.parametrize("by", ["team", "project", "model", "stage", "queue", "node_group", "sku"])
def test_every_grouping_adds_up_as_printed(client: httpx.Client, by: str) -> None:
    """Hours, money, and what was avoidable of it: the lines are the total."""
    rows = cells(client.get(f"/money?week=2026-W46&by={by}").text, "costs")[1:]
    *lines, total = rows
    for column in (2, 3, 5):
        assert sum(amount(line[column]) for line in lines) == amount(total[column])
    assert (total[2], total[3], total[5]) == ("32,256", "67,738", "9,226")


def test_a_sheet_is_exact_and_says_its_units(client: httpx.Client) -> None:
    """Who takes the numbers on takes them unrounded."""
    costs = sheet(client, "/money/costs.csv?week=2026-W46")
    days = sheet(client, "/money/days.csv?week=2026-W46")
    total = client.get("/v1/costs?since=2026-W46").json()["total"]
    for rows in (costs, days):
        assert sum(int(row["cost_micros"]) for row in rows) == total["cost_micros"]
        assert sum(int(row["milliseconds"]) for row in rows) == total["milliseconds"]
    assert len(days) == 7
    burn = sheet(client, "/money/burn.csv?week=2026-W46")
    assert int(burn[-1]["together_micros"]) == sum(int(row["spent_micros"]) for row in burn)


@pytest.mark.parametrize("name", SHEETS)
def test_every_table_has_its_sheet(client: httpx.Client, name: str) -> None:
    """Each link on the page leads to a file that a spreadsheet opens."""
    page = client.get("/money?week=2026-W46").text
    if f"/money/{name}.csv" in page:
        assert f'href="/money/{name}.csv?week=2026-W46&amp;by=team"' in page
    assert client.get(f"/money/{name}.csv?week=2026-W46").status_code == 200


def test_every_chart_has_its_numbers_below_it(client: httpx.Client) -> None:
    """Who cannot see the bars, or runs no script, reads the table; nothing that runs stands inline."""
    page = client.get("/money?week=2026-W46").text
    assert page.count("data-chart=") == page.count("<summary>The numbers") == 2
    assert all("src=" in one or "application/json" in one for one in re.findall("<script[^>]*>", page))
    assert "style=" not in page


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/money?by=nonsense", 400, "there is no grouping by"),
        ("/money?week=nonsense", 400, "nonsense"),
        ("/money/nonsense.csv", 404, "there is no sheet"),
        ("/money/costs.csv?week=nonsense", 400, "nonsense"),
        ("/money?week=2026-W40", 200, "The ledger has no GPU time of 2026-W40"),
    ],
)
def test_what_is_not_there_is_a_sentence(client: httpx.Client, path: str, status: int, said: str) -> None:
    """An address that somebody typed answers in words."""
    answer = client.get(path)
    assert (answer.status_code, said in answer.text) == (status, True)


def test_the_page_is_strict(client: httpx.Client) -> None:
    """No script, no style and no form that is not ours."""
    policy = client.get("/money").headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "form-action 'self'" in policy


@pytest.fixture
def planned(tmp_path: Path) -> Settings:
    """Settings with budgets of the fleet and of one team."""
    budgets = tmp_path / "budgets.toml"
    rows = [("", 200_000), ('team = "team-nlp"', 30_000), ('project = "no-such"', 1_000)]
    budgets.write_text(
        "".join(
            f'[[budget]]\n{whose}\nusd_per_month = {usd}\nfrom = 2026-01-01\nsource = "plan"\n' for whose, usd in rows
        )
    )
    settings: Settings = BERLIN.__class__(**{**{n: getattr(BERLIN, n) for n in BERLIN.__slots__}, "budgets": budgets})
    return settings


def test_a_budget_stands_beside_what_was_spent(planned: Settings) -> None:
    """Who is over, in words and not by colour alone; the course of the month has the budget's line."""
    with Store.open(None) as store:
        with store.session() as session:
            example_week.fill(session)
        config = ServerConfig(CollectorConfig(listen="127.0.0.1:0"), planned, analyze_seconds=None)
        with served(create_server(config, store, EXAMPLE)) as client:
            page = client.get("/money?week=2026-W46").text
            rows = {row[0]: row for row in cells(page, "budgets")[1:]}
            told = sheet(client, "/money/budgets.csv?week=2026-W46")
    assert rows["team-nlp"][-1] == "over"
    assert rows["team-nlp"][3] == "30,000"
    course = re.search(r'id="burn-time-data">(.*?)</script>', page)
    assert course is not None
    lines = {one["name"]: one["y"] for one in json.loads(course[1])["data"]}
    assert lines["budget"] == [200_000.0] * 2
    assert "team-nlp has spent" in page
    assert {row["name"]: row["verdict"] for row in told}["team-nlp"] == "over"


def test_ten_minutes_without_a_price_are_not_told_as_no_time() -> None:
    """The first minutes of a site, before anybody brought prices."""
    with Store.open(None) as store:
        fleet = Fleet(store)
        fleet.own("n1", ["g1"])
        fleet.sample("n1", "g1", MONDAY, MONDAY + HOUR // 6)
        fleet.analyze(MONDAY + HOUR, Settings())
        config = ServerConfig(CollectorConfig(listen="127.0.0.1:0"), Settings(), analyze_seconds=None)
        with served(create_server(config, store)) as client:
            money, overview = whole(client, "/money"), whole(client, "/?week=2025-W46")
            budgets, burn = (sheet(client, f"/money/{name}.csv") for name in ("budgets", "burn"))
    assert "0.167 GPU-hours were owned, and no price is known" in money
    assert "The fleet has no known cost: none of its GPU time has a price." in money
    assert not re.findall(r"\$\s?0|≥", money + overview)
    assert {row["spent_usd"] for row in (*budgets, *burn)} == {""}
    (later,) = re.findall(r"Mon 10 Nov 03:00</td>(.*?)</tr>", overview, re.DOTALL)
    assert re.sub("<[^>]+>", "", later).strip() == ""  # hours that the ledger does not have yet


def test_the_trend_of_a_unit_is_told_by_day_and_silence_is_no_0() -> None:
    """A day on which nothing was said, or had no price, has no point."""
    day = 86_400_000_000

    def hour(at: int, tokens: int | None, micros: int | None) -> Hour:
        return Hour(at, 3_600_000, micros, {TOKENS.column: tokens})

    hours = [hour(0, 10**9, 5_000_000), hour(1, 10**9, 7_000_000), hour(day, None, 1), hour(2 * day, 10**9, None)]
    assert daily(hours, TOKENS, [0, day, 2 * day, 3 * day]) == [6.0, None, None, None]
