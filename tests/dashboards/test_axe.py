"""Who reads with a screen reader, sees little contrast, or holds a phone reads the same pages: axe-core and a ruler."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.analyzer.interfaces.api_sites import Site
from tests.analyzer.interfaces.test_api_capacity import asked, own
from tests.browser import RUN, Visit
from tests.dashboards.test_site_browser import PAGES, entered

__all__ = ["own"]

FOUND = find_spec("axe_playwright_python")
pytestmark = pytest.mark.skipif(FOUND is None, reason="axe-playwright-python is not installed")
LOOKS = [(390, "light"), (1280, "dark")]  # a page is opened on a phone; the other look is of the same page, made wider
# What a phone must not be made to move sideways for: all that is wider than the window, and not in a box that scrolls.
WIDER = """() => [...document.querySelectorAll("body *")].filter((each) => {
  const box = each.getBoundingClientRect();
  if (box.width === 0 || box.right <= innerWidth + 1) return false;
  for (let at = each; at; at = at.parentElement) {
    const style = getComputedStyle(at);
    if (["auto", "scroll", "hidden", "clip"].includes(style.overflowX) || style.clipPath !== "none") return false;
  }
  return true;
}).map((each) => each.outerHTML.slice(0, 120))"""


@pytest.fixture(scope="module")
def documents(demo_fleet: str) -> dict[str, str]:
    """Return what is read without a server: the week's report and a finding of it, and a capacity profile's page."""
    profile = _json(f"{demo_fleet}/v1/capacity-profile?run=slurm/mini/1&run=slurm/mini/2")["page"]
    subject = {"what": "explain", "subject": _json(f"{demo_fleet}/v1/findings")["items"][0]["id"]}
    return {"week": _html(demo_fleet, {"what": "week"}), "finding": _html(demo_fleet, subject), "profile": profile}


def check(page: Page) -> None:
    """Say that axe finds nothing serious, with everything open that can be opened, and that nothing is too wide."""
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    for holder in page.locator("[data-chart]").all():
        holder.scroll_into_view_if_needed()
        holder.locator(".main-svg").first.wait_for()
    assert FOUND is not None
    assert FOUND.origin is not None
    if not page.evaluate("'axe' in window"):
        page.evaluate((Path(FOUND.origin).parent / "axe.min.js").read_text("utf-8"))
    # What passes is not gathered, which takes as long again of a page of thousands of parts; each violation is.
    violations = page.evaluate("axe.run({ resultTypes: ['violations'] })")["violations"]
    assert [
        (one["id"], each["html"], each["failureSummary"])
        for one in violations
        if one["impact"] in ("serious", "critical")
        for each in one["nodes"]
    ] == [], page.viewport_size
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), page.viewport_size
    assert page.evaluate(WIDER) == []


@pytest.mark.parametrize("path", ["/?at=week&node=s01", RUN, "/findings/{finding}", *PAGES])
def test_a_page_is_for_everybody(browser: Browser, demo_fleet: str, path: str) -> None:
    """Wide and dark, narrow and light; contrast and names do not depend on both at once."""
    if "{finding}" in path:
        path = path.format(finding=_json(f"{demo_fleet}/v1/findings")["items"][0]["id"])
    visit = Visit(browser, demo_fleet + path, *LOOKS[0])
    for look in LOOKS:
        visit.look(*look)
        check(visit.page)
    visit.close()


@pytest.mark.parametrize("name", ["week", "finding", "profile"])
def test_a_document_is_for_everybody(browser: Browser, documents: dict[str, str], name: str) -> None:
    """What is sent by mail or printed has nobody beside it to explain."""
    visit = Visit(browser, "about:blank", *LOOKS[0])
    visit.page.set_content(documents[name])
    for look in LOOKS:
        visit.look(*look)
        check(visit.page)
    visit.close()


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_the_login_and_a_request_are_for_everybody(browser: Browser, own: Site, width: int, scheme: str) -> None:
    """What asks for something, too: the field of the key, the key itself, the form to waive."""
    one = asked(own, why=f"for everybody, {width} wide, {scheme}")
    address = str(own.client.base_url).rstrip("/")
    visit = Visit(browser, f"{address}/requests/{one['id']}", width, scheme)
    check(visit.page)
    entered(visit.page, own.keys["approver"])
    expect(visit.page.locator("h1")).to_contain_text(one["id"])
    check(visit.page)
    visit.page.goto(f"{address}/login")
    check(visit.page)
    visit.close()


def _json(address: str) -> dict[str, Any]:
    return dict(httpx.get(address, timeout=60).json())


def _html(address: str, reading: dict[str, str]) -> str:
    """Return a report as `gpuledger report --format html` writes it."""
    answer = httpx.get(f"{address}/v1/read", params=reading | {"format": "html"}, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.text
