"""Who reads with a screen reader, sees little contrast, or holds a phone reads the same pages: axe-core and a ruler."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from dashboards.demo import DemoConfig, demo
from tests.analyzer.interfaces.api_sites import Site
from tests.analyzer.interfaces.test_api_capacity import asked, own
from tests.browser import RUN, Visit
from tests.dashboards.test_site_browser import PAGES, entered

__all__ = ["own"]

FOUND = find_spec("axe_playwright_python")
pytestmark = pytest.mark.skipif(FOUND is None, reason="axe-playwright-python is not installed")
LOOKS = [(1280, "dark"), (390, "light")]
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
def fleet() -> Iterator[str]:
    """Yield the address of a small demo fleet."""
    with demo(DemoConfig(port=0, small=True)) as shown:
        yield shown.url


@pytest.fixture(scope="module")
def documents(fleet: str) -> dict[str, str]:
    """Return what is read without a server: the week's report and a finding of it, and a capacity profile's page."""
    profile = _json(f"{fleet}/v1/capacity-profile?run=slurm/mini/1&run=slurm/mini/2")["page"]
    subject = {"what": "explain", "subject": _json(f"{fleet}/v1/findings")["items"][0]["id"]}
    return {"week": _html(fleet, {"what": "week"}), "finding": _html(fleet, subject), "profile": profile}


def check(page: Page) -> None:
    """Say that axe finds nothing serious, with everything open that can be opened, and that nothing is too wide."""
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    for holder in page.locator("[data-chart]").all():
        holder.scroll_into_view_if_needed()
        holder.locator(".main-svg").first.wait_for()
    assert FOUND is not None
    assert FOUND.origin is not None
    page.evaluate((Path(FOUND.origin).parent / "axe.min.js").read_text("utf-8"))
    # What passes is not gathered, which takes as long again of a page of thousands of parts; each violation is.
    violations = page.evaluate("axe.run({ resultTypes: ['violations'] })")["violations"]
    assert [
        (one["id"], each["html"], each["failureSummary"])
        for one in violations
        if one["impact"] in ("serious", "critical")
        for each in one["nodes"]
    ] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(WIDER) == []


@pytest.mark.parametrize("path", ["/?at=week&node=s01", RUN, "/findings/{finding}", *PAGES])
@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_a_page_is_for_everybody(browser: Browser, fleet: str, path: str, width: int, scheme: str) -> None:
    """Wide and dark, narrow and light; contrast and names do not depend on both at once."""
    if "{finding}" in path:
        path = path.format(finding=_json(f"{fleet}/v1/findings")["items"][0]["id"])
    visit = Visit(browser, fleet + path, width, scheme)
    check(visit.page)
    visit.close()


@pytest.mark.parametrize("name", ["week", "finding", "profile"])
@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_a_document_is_for_everybody(
    browser: Browser, documents: dict[str, str], name: str, width: int, scheme: str
) -> None:
    """What is sent by mail or printed has nobody beside it to explain."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    page.set_content(documents[name])
    check(page)
    context.close()


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
