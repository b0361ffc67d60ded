"""Each page at three widths looks as it was when somebody last looked at it.

`pytest tests/dashboards/test_pictures.py --update-golden` keeps new pictures: look at each before you commit it.
"""

from collections.abc import Iterator
from pathlib import Path
from subprocess import run

import pytest
from PIL import Image
from playwright.sync_api import Browser

from dashboards.demo import DemoConfig, demo
from tests.browser import RUN, Visit
from tests.dashboards.pictures import KEPT, PIXELS, compared, keep, kept, steady, taken

MAKER = KEPT / "made-with.txt"  # which Chromium draws as these pictures were drawn
PAGES = {
    "fleet": "/?at=week&node=s01", "run": RUN, "money": "/money", "racks": "/placement",
    "traffic": "/placement?view=traffic", "recommendations": "/recommendations", "runs": "/runs",
    "requests": "/requests", "health": "/health",
}  # fmt: skip
WIDTHS = {1280: "light", 820: "dark", 390: "light"}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of the small demo fleet, whose seed makes it the same each time.

    This one is shown by the server that took it in, which says so on the page of health.
    """
    with demo(DemoConfig(port=0, store=tmp_path_factory.mktemp("demo") / "demo.duckdb", small=True)) as shown:
        yield shown.url


def opened(browser: Browser, address: str, width: int) -> Visit:
    """Open a page, drawn to its end and without what a clock says."""
    visit = Visit(browser, address, width, WIDTHS[width])
    if visit.page.locator("#timeline").count():
        visit.page.wait_for_selector("#timeline[data-shown]")
    steady(visit.page)
    return visit


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_looks_as_it_did(
    browser: Browser, fleet: str, name: str, width: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A style that reaches further than was meant shows here first."""
    visit = opened(browser, fleet + PAGES[name], width)
    picture, file = taken(visit.page), f"{name}-{width}.png"
    visit.close()
    if request.config.getoption("--update-golden"):
        keep(file, picture)
        MAKER.write_text(f"{browser.version.partition('.')[0]}\n", encoding="utf-8")
    assert (KEPT / file).exists(), f"there is no picture {file}; make it with pytest --update-golden"
    found = compared(picture, Image.open(KEPT / file))
    if found.pixels > PIXELS:
        _may_differ(browser)
        picture.save(tmp_path / file)
        found.shown.save(tmp_path / f"differs-{file}")
    assert found.pixels <= PIXELS, f"look at {tmp_path}/{file} and differs-{file}"


def _may_differ(browser: Browser) -> None:
    """Skip where letters are drawn otherwise than where the pictures were made: then nothing can be said."""
    here, there = browser.version.partition(".")[0], MAKER.read_text("utf-8").strip()
    if here != there:
        pytest.skip(f"optional: the pictures were made with Chromium {there}, and this is {here}")
    fonts = run(["fc-list", ":family=DejaVu Sans"], capture_output=True, text=True, check=False).stdout
    if not fonts:
        pytest.skip("optional: the pictures were made with fonts-dejavu-core, which is not installed")


@pytest.mark.parametrize(
    "change",
    [
        "document.querySelector('.tile dd').textContent += '0'",
        "document.querySelector('.tile.avoidable').className = 'tile'",
        "document.querySelector('.cell').classList.replace('useful', 'spare')",
        "document.querySelector('.skip').style.position = 'static'",
        "document.querySelector('svg.stack').remove()",
    ],
)
def test_a_change_is_seen(browser: Browser, fleet: str, change: str) -> None:
    """One digit more, one colour, one bar: a comparison that forgives these forgives everything."""
    visit = opened(browser, fleet + "/", 1280)
    before = kept(taken(visit.page))
    assert compared(taken(visit.page), before).pixels == 0
    visit.page.evaluate(change)
    assert compared(taken(visit.page), before).pixels > PIXELS
    visit.close()
