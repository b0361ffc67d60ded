"""What is on a page can be reached without a mouse, sent as a link, and taken along as a sheet."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import PATIENCE_MS, RUN, Visit

MORE_STOPS = 20  # boxes that scroll are stops too, and are no ways
# Numbers all that can be clicked and is seen; the cells of the fleet are one stop, and the arrow keys go on from it.
NUMBERED = """() => {
  const ways = [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, summary, [tabindex]")];
  const seen = ways.filter((way) => way.checkVisibility() && !way.disabled && !way.closest(".modebar"));
  const stops = seen.filter((way) => way.tabIndex >= 0 || !way.closest(".racks"));
  stops.forEach((way, place) => { way.dataset.stop = place; });
  return stops.length;
}"""
STOP = """() => {
  const here = document.activeElement;
  const style = getComputedStyle(here);
  return [here.dataset.stop ?? "", style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0, here.outerHTML];
}"""

# Whether the timeline shows what the address asks for: finer data follows a moment after the click.
DRAWN = """() => {
  const timeline = document.getElementById("timeline");
  const from = Date.parse(new URLSearchParams(location.search).get("from")) * 1000;
  const shown = Number((timeline?.dataset.shown ?? "").split("-")[0]);
  return !timeline || (shown > 0 && (Number.isNaN(from) || Math.abs(shown - from) < 60e6));
}"""


@pytest.mark.parametrize(
    "path", ["/?node=s01", RUN, "/money", "/placement", "/placement?view=traffic", "/recommendations", "/health"]
)
def test_the_tabulator_comes_to_everything(browser: Browser, demo_fleet: str, path: str) -> None:
    """In whatever order, each way once around, with a frame around where one is."""
    visit = Visit(browser, demo_fleet + path)
    page = visit.page
    stops = page.evaluate(NUMBERED)
    assert stops > 10
    reached = set()
    for _ in range(stops + MORE_STOPS):
        page.keyboard.press("Tab")
        stop, is_framed, html = page.evaluate(STOP)
        assert is_framed or html.startswith("<body"), html[:200]
        reached.add(stop)
    assert [place for place in range(stops) if str(place) not in reached] == []
    visit.close()


def seen(page: Page) -> str:
    """Return all that the page says, without when it was made."""
    page.wait_for_selector('[aria-busy="true"]', state="detached")
    page.wait_for_function(DRAWN)
    if "node=" in page.url:
        page.wait_for_selector("#node .panel")
    page.evaluate("document.querySelectorAll('.chart').forEach(each => { each.hidden = true; })")  # drawn once in view
    return page.inner_text("main").partition("\nAnalysed")[0]


@pytest.mark.parametrize(
    ("path", "clicks"),
    [
        ("/", ["text='the week'", "a.name >> nth=1", ".key[data-label] >> nth=0"]),
        ("/money", ["nav.choice >> text='model'"]),
        ("/placement", ["nav.tabs >> text='Traffic'", "nav.tabs >> text='Racks and nodes'", "h2 a >> nth=0"]),
        ("/recommendations", ["a:has-text('f-') >> nth=0"]),
        (RUN, ["text='Zoom in'", "text='Zoom in'", "button[aria-label=Later]"]),
    ],
)
def test_who_opens_the_link_sees_the_same(browser: Browser, demo_fleet: str, path: str, clicks: list[str]) -> None:
    """The address has the state: after any clicks, reloading it and opening it elsewhere show what was seen."""
    visit = Visit(browser, demo_fleet + path)
    for click in clicks:
        if visit.page.locator(click).count():  # of a small fleet all racks are open, and none is a way
            visit.page.locator(click).first.click()
            visit.page.wait_for_load_state("networkidle")
    here = seen(visit.page)
    shown = visit.page.evaluate("document.querySelector('#timeline')?.dataset.shown")
    pressed = visit.page.locator("[aria-pressed=true], [aria-current]").all_inner_texts()
    visit.page.reload()
    assert seen(visit.page) == here
    other = Visit(browser, visit.page.url)
    assert seen(other.page) == here
    assert other.page.evaluate("document.querySelector('#timeline')?.dataset.shown") == shown
    assert other.page.locator("[aria-pressed=true], [aria-current]").all_inner_texts() == pressed
    other.close()
    visit.close()


def test_tables_of_the_fleet_are_taken_along(browser: Browser, demo_fleet: str) -> None:
    """As a sheet that a spreadsheet reads, and in which no name is a formula."""
    visit = Visit(browser, demo_fleet)
    for name, first in (("findings", '"id","run or place"'), ("runs", '"run","team"'), ("where-it-went", '"class"')):
        with visit.page.expect_download() as download:
            visit.page.click(f"button[aria-label='CSV, {name}.csv']")
        assert Path(download.value.path()).read_text("utf-8").startswith(first)
    with visit.page.expect_download() as download:
        visit.page.click("button[aria-label='CSV, fleet.csv']")
    rows = Path(download.value.path()).read_text("utf-8").splitlines()
    assert rows[1].startswith('"rack-1","s01 GPU 0 (H100-80GB)","')
    assert len(rows) == 1 + 16
    visit.page.evaluate("document.querySelector('[data-csv=\"runs.csv\"] a').textContent = '=1+1'")
    with visit.page.expect_download() as download:
        visit.page.click("button[aria-label='CSV, runs.csv']")
    assert '\r\n"\'=1+1",' in Path(download.value.path()).read_bytes().decode()
    visit.close()


def test_a_screen_reader_hears_once_that_there_is_something_new(browser: Browser, demo_fleet: str) -> None:
    """Of a page that stays open, and not each of its cells."""
    visit = Visit(browser, demo_fleet)
    expect(visit.page.locator("#news")).to_have_text("")
    visit.page.evaluate("live().then(() => live())")
    visit.page.wait_for_load_state("networkidle")
    expect(visit.page.locator("#news")).to_have_text("")
    visit.page.evaluate("document.querySelector('[data-live]').dataset.live = '/parts/grid?at=week'")
    visit.page.evaluate("live()")
    expect(visit.page.locator("#news")).to_contain_text("New figures since")
    visit.close()


def test_a_recommendation_is_rejected_by_keys_alone_and_without_a_script(browser: Browser, demo_fleet: str) -> None:
    """Enter in the reason rejects, and can never accept; what was rejected can be taken back."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{demo_fleet}/recommendations")
    change = page.locator(".change", has_text="notebook").first
    change.locator("summary", has_text="Reject").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("it is <b>needed</b>")
    page.keyboard.press("Enter")
    page.wait_for_url("**#r-*")
    expect(page.locator("main")).to_contain_text("it is <b>needed</b>.", timeout=PATIENCE_MS)
    page.get_by_role("button", name="Accept " + page.url.partition("#")[2]).press("Enter")
    expect(page.locator(".stage")).to_have_text("accepted", timeout=PATIENCE_MS)
    context.close()
