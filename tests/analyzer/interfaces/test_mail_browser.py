"""The mail in a real browser: it fits a phone, it is dark where the reader's screen is, and it asks nobody anything."""

from dataclasses import replace

import pytest
from playwright.sync_api import Browser

from analyzer.finops.charges.sums import Charged
from analyzer.interfaces.mail.compose import compose
from analyzer.interfaces.mail.content import Extras, Footer, Month, mail_html
from analyzer.recommendations.recommendation import Range
from analyzer.reports.week import WeekReport

PAPER = {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 25, 29)"}


@pytest.fixture
def html(week: WeekReport) -> str:
    """The widest mail: a long name, a change that is not predicted, the columns of the month, and charges."""
    teams = tuple(replace(row, name=row.name and f"{row.name}-{'x' * 60}") for row in week.teams)
    months = {(row.name, row.held): Month(145_152_000_000, 290_304_000_000, is_over=True) for row in teams}
    costs = [(row, row.breakdown.cost_micros or 0) for row in teams]
    charged = tuple(
        Charged(row.name, row.held, row.breakdown.milliseconds, cost, cost * 9 // 10 if row.name else cost)
        for row, cost in costs
    )
    nothing = Range(0, 0, 0)
    tried = replace(week.recommendations[1], saves_milliseconds=nothing, saves_micros=nothing)
    advice = (week.recommendations[0], tried)
    content = compose(
        replace(week, teams=teams, recommendations=advice, charged=charged),
        extras=Extras(months=months),
        site_url="https://gpuledger.example",
    )
    return mail_html(content, Footer("Once a week.", "https://gpuledger.example/mail/stop/1.2", None), None)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 800])
def test_it_fits_and_is_legible(browser: Browser, html: str, width: int, scheme: str) -> None:
    """No scrolling sideways, a line of at most 640 pixels, the reader's own dark or light, nothing fetched."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.set_content(html)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    widest = page.evaluate(
        "Math.max(...[...document.querySelectorAll('h2')].map(e => e.getBoundingClientRect().width))"
    )
    assert widest <= 640
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == PAPER[scheme]
    ink = page.evaluate("getComputedStyle(document.querySelector('.ink')).color")
    assert ink == {"light": "rgb(32, 36, 42)", "dark": "rgb(232, 234, 237)"}[scheme]
    assert asked == []
    page.close()
