"""A document with charts opens anywhere by itself and draws them, in light, in the dark and on paper."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from analyzer.capacity.planner.text import plan_html
from analyzer.capacity.profile.page import page as profile_page
from analyzer.capacity.profile.signature import signed
from analyzer.interfaces.html import finding_html
from tests.analyzer.capacity.planner_answers import on_time
from tests.analyzer.capacity.profile_example import EXAMPLE
from tests.analyzer.capacity.test_profile_page import KEY
from tests.analyzer.reports.test_finding_html import explained

WORKING = ".chart .bars >> nth=0 >> .point path >> nth=0"
LIGHT, DARK = "rgb(42, 111, 48)", "rgb(127, 203, 160)"  # of what is useful, as palette.css has them


MADE: dict[str, tuple[Callable[[], str], int, str]] = {
    "finding": (lambda: finding_html(explained()), 8 * 3, ".bars .point"),
    "plan": (lambda: plan_html(on_time()), 4, ".bars .point"),
    "profile": (lambda: profile_page(signed(EXAMPLE, KEY), key=KEY), 3, ".cartesianlayer .subplot"),
}  # each kind of document, with how much of what its figures have


def saved(folder: Path, text: str) -> str:
    """Return the address of a document that was saved."""
    file = folder / "document.html"
    file.write_text(text, encoding="utf-8")
    return file.as_uri()


@pytest.fixture
def document(tmp_path: Path) -> str:
    """Return the address of a finding's saved document."""
    return saved(tmp_path, finding_html(explained()))


def opened(context: BrowserContext, document: str) -> tuple[Page, list[str]]:
    """Open a document; return it with what the browser complains of."""
    page, complaints = context.new_page(), []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(document)
    return page, complaints


@pytest.mark.parametrize("kind", MADE)
@pytest.mark.parametrize("width", [1280, 390])
def test_a_saved_document_draws_its_charts_without_a_network(
    browser: Browser, tmp_path: Path, kind: str, width: int
) -> None:
    """It is one file: it may be opened on a plane, and on a phone."""
    make, count, drawn = MADE[kind]
    context = browser.new_context(viewport={"width": width, "height": 900}, offline=True)
    page, complaints = opened(context, saved(tmp_path, make()))
    assert page.locator(f".chart {drawn}").count() >= count
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert complaints == []


def test_its_policy_lets_nothing_else_run_and_nothing_load(browser: Browser, document: str) -> None:
    """Whatever gets into it does not run and tells nobody."""
    page, complaints = opened(browser.new_context(), document)
    page.evaluate("""() => {
        const script = document.createElement("script");
        script.textContent = "window.ran = true";
        const picture = new Image();
        picture.src = "http://127.0.0.1:9/opened.png";
        document.body.append(script, picture);
    }""")
    assert page.evaluate("window.ran") is None
    assert len([one for one in complaints if "Content Security Policy" in one]) == 2


def test_a_figure_has_the_colours_of_the_screen_and_on_paper_those_of_paper(browser: Browser, document: str) -> None:
    """One figure is both: it is drawn anew where the scheme changes, and where it is printed from a dark screen."""
    page, _ = opened(browser.new_context(color_scheme="dark"), document)
    working = page.locator(WORKING)
    expect(working).to_have_css("fill", DARK)
    page.emulate_media(color_scheme="light")
    expect(working).to_have_css("fill", LIGHT)
    page.emulate_media(color_scheme="dark")
    expect(working).to_have_css("fill", DARK)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(working).to_have_css("fill", LIGHT)
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(working).to_have_css("fill", DARK)
