"""The page in a real browser: it draws, it fits a phone, it loads nothing from elsewhere, and no policy is broken."""

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: make services installs it"),
    pytest.mark.xdist_group("browser"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Yield one browser for all tests of this file."""
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield running
        running.close()


class Visit:
    """A page that was opened, and what went wrong on the way."""

    def __init__(self, browser: Browser, url: str, width: int, scheme: str = "light") -> None:
        self.page: Page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
        self.complaints: list[str] = []
        self.elsewhere: list[str] = []
        self.page.on(
            "console", lambda message: self.complaints.append(message.text) if message.type == "error" else None
        )
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda asked: self.elsewhere.append(asked.url) if not _ours(asked.url) else None)
        self.page.goto(url)


def _ours(url: str) -> bool:
    return url.startswith(("http://127.0.0.1:", "data:", "blob:"))


@pytest.mark.parametrize("path", ["/", "/runs/slurm/alpha/81234"])
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light")])
def test_a_page_draws_fits_and_keeps_to_itself(
    browser: Browser, address: str, path: str, width: int, scheme: str
) -> None:
    """Charts appear under the strict policy, nothing is asked of another host, and a phone needs no sideways scroll."""
    visit = Visit(browser, address + path, width, scheme)
    visit.page.wait_for_selector(".nsewdrag")
    assert visit.complaints == []
    assert visit.elsewhere == []
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
    visit.page.close()


def test_no_button_sends_a_chart_away(browser: Browser, address: str) -> None:
    """plotly's mode bar has a button that uploads the chart; costs of a site must not leave by a click."""
    visit = Visit(browser, address, 1280)
    visit.page.wait_for_selector(".modebar-btn")
    titles = visit.page.eval_on_selector_all(".modebar-btn", "buttons => buttons.map(b => b.dataset.title || '')")
    assert titles
    assert not [title for title in titles if "cloud" in title.lower() or "share" in title.lower()]
    visit.page.close()


def test_a_cell_leads_to_its_run(browser: Browser, address: str) -> None:
    """From a red cell to the reason in one click."""
    visit = Visit(browser, address, 1280)
    visit.page.click('a.cell[title^="n14 "]')
    visit.page.wait_for_selector(".finding")
    assert "llama-sft" in visit.page.inner_text("h1 >> nth=1")
    visit.page.close()
