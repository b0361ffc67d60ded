"""The pages of money, placement, requests and health, and the login, in a real browser against a demo fleet."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.analyzer.interfaces.api_sites import Site
from tests.analyzer.interfaces.test_api_capacity import asked, own
from tests.browser import Visit
from tests.dashboards.keys import Guarded, guarded

__all__ = ["own"]  # a site with requests

PAGES = (
    "/money", "/money?by=stage", "/placement", "/placement?view=traffic", "/recommendations", "/requests",
    "/health",
)  # fmt: skip
# What can be said of any page without a library: a name for each picture and field, one h1, no id twice.
FAULTS = """() => {
  const faults = [];
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  ids.filter((id, place) => ids.indexOf(id) !== place).forEach((id) => faults.push("id twice: " + id));
  if (document.querySelectorAll("h1").length !== 1) faults.push("h1: " + document.querySelectorAll("h1").length);
  document.querySelectorAll("svg:not([aria-hidden])").forEach((one) => {
    if (!one.ariaLabel && !one.getAttribute("aria-labelledby")) faults.push("a picture without a name");
  });
  document.querySelectorAll("[aria-labelledby]").forEach((one) => {
    const label = one.getAttribute("aria-labelledby");
    if (!document.getElementById(label)) faults.push("no label: " + label);
  });
  document.querySelectorAll("input:not([type=hidden]), select").forEach((one) => {
    if (!one.labels.length) faults.push("a field without a label");
  });
  document.querySelectorAll("a, button, summary").forEach((one) => {
    if (!one.textContent.trim()) faults.push("nothing to read on a link or button");
  });
  document.querySelectorAll("td.number, th.number").forEach((one) => {
    if (one.closest(".folds")) return; // under its heading
    if (getComputedStyle(one).textAlign !== "right") faults.push("a number that is not right-aligned");
  });
  let level = 1;
  document.querySelectorAll("main h1, main h2, main h3").forEach((one) => {
    const now = Number(one.tagName[1]);
    if (now > level + 1) faults.push("a heading is left out before " + one.textContent);
    level = now;
  });
  return faults;
}"""


@pytest.mark.parametrize("path", PAGES)
def test_a_page_fits_and_keeps_to_itself(browser: Browser, demo_fleet: str, path: str) -> None:
    """At three widths: no complaint, no request to another host, no sideways scroll, and a name for everything."""
    visit = Visit(browser, demo_fleet + path)
    for one in visit.page.locator("details").all():
        one.evaluate("each => { each.open = true; }")
    for width, scheme in ((1280, "light"), (768, "dark"), (390, "light")):
        visit.look(width, scheme)
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        assert visit.page.evaluate(FAULTS) == [], width
    visit.close()


def test_the_site_is_clicked_through_with_its_week(browser: Browser, demo_fleet: str) -> None:
    """Every way leads to its page, and the period that was chosen comes along."""
    visit = Visit(browser, demo_fleet + "/money", 1280)
    week = visit.page.inner_text("nav.period strong")
    paths = {"Capacity": "/requests"}
    for title in ("Runs", "Findings", "Recommendations", "Placement", "Health", "Capacity", "Money"):
        visit.page.click(f'nav.ways >> text="{title}"')
        expect(visit.page.locator("h1")).to_contain_text(title)
        here = visit.page.get_attribute("nav.ways [aria-current=page]", "href")
        assert (here or "").partition("?")[0] == paths.get(title, f"/{title.lower()}")
    visit.page.goto(f"{demo_fleet}/money?week={week}")
    visit.page.click('nav.choice >> text="stage"')
    expect(visit.page.locator("h2").first).to_have_text("By stage")
    visit.page.wait_for_url(f"**week={week}*")
    visit.page.click('nav.ways >> text="Placement"')
    visit.page.wait_for_url(f"**/placement?week={week}")
    for tab in ("Traffic", "Racks and nodes"):
        visit.page.click(f'nav.tabs >> text="{tab}"')
        expect(visit.page.locator("nav.tabs [aria-current]")).to_have_text(tab)
        visit.page.wait_for_url(f"**week={week}*")
    assert (visit.complaints, visit.elsewhere) == ([], [])
    visit.page.close()


def test_the_keyboard_reaches_everything(browser: Browser, demo_fleet: str) -> None:
    """First the way past the navigation, then each page; what has the focus can be seen."""
    visit = Visit(browser, demo_fleet + "/money", 1280)
    visit.page.keyboard.press("Tab")
    assert visit.page.evaluate("document.activeElement.textContent") == "Skip to the content"
    assert visit.page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    visit.page.keyboard.press("Enter")
    visit.page.wait_for_url("**#content")
    reached = set()
    for _ in range(14):
        visit.page.keyboard.press("Tab")
        reached.add(visit.page.evaluate("document.activeElement.textContent.trim()"))
        assert visit.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    assert {"project", "stage"} <= reached
    visit.page.close()


def test_lines_are_copied_with_one_click(browser: Browser, demo_fleet: str) -> None:
    """From the recommendation into the shell: what is copied is what is shown."""
    visit = Visit(browser, demo_fleet + "/recommendations", 1280)
    visit.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button = visit.page.locator("button.copy").first
    shown = visit.page.locator("pre").first.inner_text()
    button.click()
    expect(button).to_have_text("Copied")
    assert visit.page.evaluate("navigator.clipboard.readText()").strip() == shown.strip()
    assert visit.complaints == []
    visit.page.close()


@pytest.fixture(scope="module")
def site() -> Iterator[Guarded]:
    """Yield a server with keys."""
    with guarded() as one:
        yield one


def entered(page: Page, key: str) -> None:
    """Log in as a person does."""
    page.get_by_label("Your key").fill(key)
    page.get_by_role("button", name="Log in").click()


@pytest.mark.parametrize("width", [1280, 768, 390])
def test_a_person_logs_in_looks_and_leaves(browser: Browser, site: Guarded, width: int) -> None:
    """From a link, past a mistyped key, to the page that was meant; afterwards nothing is left open."""
    visit = Visit(browser, f"{site.address}/money?week=2026-W46&by=stage", width)
    page = visit.page
    expect(page.locator("h1")).to_have_text("Log in")
    assert page.evaluate(FAULTS) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    entered(page, "gl_read_mistyped_x")
    expect(page.get_by_role("alert")).to_contain_text("This key is not valid here")
    entered(page, site.keys["read"])
    expect(page.locator("h1")).to_have_text("Money")
    page.wait_for_url("**/money?week=2026-W46&by=stage")
    assert page.evaluate("document.cookie") == ""
    page.click('nav.ways >> text="Overview"')
    page.wait_for_selector(".cell")
    page.click("a.account")
    assert site.keys["read"].split("_")[2] in page.inner_text("main")
    page.get_by_role("button", name="Log out").click()
    expect(page.locator("h1")).to_have_text("Log in")
    page.goto(f"{site.address}/money")
    expect(page.locator("h1")).to_have_text("Log in")
    refused = [one for one in visit.complaints if not re.search("status of 401", one)]  # of the mistyped key
    assert (refused, visit.elsewhere) == ([], [])
    page.context.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (768, "light"), (390, "dark")])
def test_a_request_fits_and_is_waived_by_hand(browser: Browser, own: Site, width: int, scheme: str) -> None:
    """Every gate on a phone too, and the form of an approver at the end."""
    one = asked(own, why=f"looked at {width} wide")
    visit = Visit(browser, f"{str(own.client.base_url).rstrip('/')}/requests", width, scheme)
    entered(visit.page, own.keys["approver"])
    visit.page.click(f'text="{one["id"]}"')
    expect(visit.page.locator("h1")).to_contain_text(one["id"])
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
    assert visit.page.evaluate(FAULTS) == []
    visit.page.get_by_label("Reason").fill("the release is in March")
    visit.page.get_by_role("button", name="Override").click()
    expect(visit.page.locator("main")).to_contain_text("useful: the release is in March")
    assert (visit.complaints, visit.elsewhere) == ([], [])
    visit.page.context.close()


def test_a_team_s_key_finds_its_pages_and_is_told_of_the_others(browser: Browser, site: Guarded) -> None:
    """The navigation has what may be seen; an address of the whole site says why not, and where to go."""
    visit = Visit(browser, f"{site.address}/", 1280)
    entered(visit.page, site.keys["nlp"])
    expect(visit.page.locator("h1")).to_have_text("Week 2026-W46")
    ways = ["Overview", "Runs", "Findings", "Recommendations", "Money", "Placement", "Capacity"]
    assert visit.page.locator("nav.ways a").all_inner_texts() == ways
    expect(visit.page.locator('[aria-busy="true"]')).to_have_count(0)
    assert "team-vision" not in visit.page.inner_text("body")
    for way in ways[1:]:
        visit.page.click(f'nav.ways >> text="{way}"')
        expect(visit.page.locator("h1")).to_have_count(1)
        assert "team-vision" not in visit.page.inner_text("body"), way
    visit.page.click('nav.ways >> text="Runs"')
    visit.page.click('main >> text="llama-sft"')
    expect(visit.page.locator("h1")).to_have_text("llama-sft")
    visit.page.wait_for_selector("#timeline[data-shown]")
    visit.page.goto(f"{site.address}/health")
    expect(visit.page.locator("main")).to_contain_text("this key is limited to team-nlp")
    visit.page.click('main >> text="Money"')
    expect(visit.page.locator("h1")).to_have_text("Money")
    visit.page.context.close()
