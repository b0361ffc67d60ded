"""One question, one figure: the mail, the page, the API and the bill for finance are readings of one ledger."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from analyzer.finops.focus.columns import Issuer
from analyzer.finops.focus.export import ExportOptions, export_focus
from analyzer.interfaces.mail.compose import compose
from analyzer.interfaces.mail.content import Footer, mail_html
from analyzer.interfaces.mail.message import mail_text
from analyzer.reports.reader import Reader
from analyzer.text.words import money
from tests.analyzer.finops.focus_checker import rows_of
from tests.analyzer.interfaces.api_sites import Site, settings, site

DAY = "2025-11-10"
MICROS = Decimal(1_000_000)
FOOTER = Footer("all@example.com gets this once a week, never more.", None, None)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield a server on a small ledger with prices and two teams."""
    with site(tmp_path_factory.mktemp("figures")) as running:
        yield running


def billed(own: Site, tmp_path: Path) -> list[dict[str, str]]:
    """Return the day's bill for finance."""
    chosen = settings(tmp_path)
    with own.fleet.store.session() as session:
        period = Reader(session, chosen).period(DAY)
        asked = ExportOptions(Issuer("1.2", "alpha", "alpha", "USD", "Europe/Berlin"), period)
        export_focus(session, asked, tmp_path / "bill.csv")
    return rows_of(tmp_path / "bill.csv")


def summed(rows: list[dict[str, str]], column: str) -> int:
    """Return a column's sum in millionths, exactly."""
    return int(sum((Decimal(row[column]) for row in rows), Decimal(0)) * MICROS)


def test_mail_page_api_and_bill_tell_the_same(own: Site, tmp_path: Path) -> None:
    """Two figures for one thing, and neither is believed again."""
    costs = own.json(f"/v1/costs?by=team&since={DAY}")
    total, avoidable = costs["total"]["cost_micros"], sum(
        item["classes"]["avoidable"]["cost_micros"] for item in costs["items"]
    )  # fmt: skip
    rows = billed(own, tmp_path)
    assert summed(rows, "EffectiveCost") == total
    assert summed(rows, "x_AvoidableCost") == avoidable
    assert 0 < avoidable < total

    with own.fleet.store.session() as session:
        reader = Reader(session, settings(tmp_path))
        week = reader.week(reader.period(DAY))
    assert week.breakdown.cost_micros == total
    assert week.avoidable.cost_micros == avoidable
    content = compose(week, oldest_price=None, site_url=None)
    page = own.get(f"/v1/read?what=week&format=html&since={DAY}").text
    text = own.get(f"/v1/read?what=week&since={DAY}").text
    for told in (money(total, "USD"), money(avoidable, "USD")):
        bare = told.lstrip("$")
        assert told in mail_text(content, FOOTER)
        assert bare in mail_html(content, FOOTER, "chart")
        assert bare in page
        assert bare in text


def test_teams_cost_the_same_in_all_four(own: Site, tmp_path: Path) -> None:
    """The row of a team is what its lead looks for, in whichever of them is at hand."""
    rows = billed(own, tmp_path)
    with own.fleet.store.session() as session:
        reader = Reader(session, settings(tmp_path))
        report = reader.week(reader.period(DAY))
    by_team = {(row.name, row.held): row.breakdown for row in report.teams}
    content = mail_text(compose(report, oldest_price=None, site_url=None), FOOTER)
    seen = 0
    for item in own.json(f"/v1/costs?by=team&since={DAY}")["items"]:
        holder = item["team"] or ("unmapped" if item["held"] else "nobody")
        mine = [row for row in rows if (row["SubAccountName"] or row["x_Holder"]) == holder]
        cost, lost = item["cost_micros"], item["classes"]["avoidable"]["cost_micros"]
        assert summed(mine, "EffectiveCost") == cost, holder
        assert summed(mine, "x_AvoidableCost") == lost, holder
        assert by_team[item["team"], item["held"]].cost_micros == cost
        assert money(cost, "USD").lstrip("$") in content
        seen += 1
    assert seen == len(by_team) >= 3
