"""The pages in a real browser: they draw, fit a phone, load nothing from elsewhere, and shut nobody out."""

from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.browser import PATIENCE_MS, RUN, Visit


@pytest.mark.parametrize("path", ["/", RUN])
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (820, "dark"), (390, "light")])
def test_a_page_draws_fits_and_keeps_to_itself(
    browser: Browser, demo_fleet: str, path: str, width: int, scheme: str
) -> None:
    """Charts appear under the strict policy, nothing is asked of another host, and a phone needs no sideways scroll."""
    visit = Visit(browser, demo_fleet + path, width, scheme)
    if path == "/":
        visit.page.locator("#fleet-time").scroll_into_view_if_needed()
        visit.page.wait_for_selector(".nsewdrag", timeout=PATIENCE_MS)
    else:
        visit.page.wait_for_selector("#timeline[data-shown]")
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
    visit.close()


def test_no_button_sends_a_chart_away(browser: Browser, demo_fleet: str) -> None:
    """plotly's mode bar has a button that uploads the chart; costs of a site must not leave by a click."""
    visit = Visit(browser, demo_fleet)
    visit.page.locator("#fleet-time").scroll_into_view_if_needed()
    visit.page.wait_for_selector(".modebar-btn", timeout=PATIENCE_MS)
    titles = visit.page.eval_on_selector_all(".modebar-btn", "buttons => buttons.map(b => b.dataset.title || '')")
    assert titles
    assert not [title for title in titles if "cloud" in title.lower() or "share" in title.lower()]
    visit.close()


@pytest.mark.parametrize("what", ["week", "explain"])
def test_a_report_opened_from_the_server_is_the_document_that_is_saved(
    browser: Browser, demo_fleet: str, what: str
) -> None:
    """The server's policy lets its style and the scripts of its charts be, and a saved one has no other."""
    found = httpx.get(f"{demo_fleet}/v1/findings", params={"since": "2026-W46"}).json()["items"]
    subject = f"&subject={found[0]['id']}" if what == "explain" else ""
    visit = Visit(browser, f"{demo_fleet}/v1/read?what={what}&since=2026-W46&format=html{subject}")
    expect(visit.page.locator("th").first).to_have_css("text-align", "left")
    expect(visit.page.locator("main")).not_to_have_css("max-width", "none")
    if what == "explain":
        visit.page.wait_for_selector(".chart .main-svg .bars")
    visit.close()


def test_a_cell_leads_to_its_run(browser: Browser, demo_fleet: str) -> None:
    """From a red cell to the reason in one click."""
    visit = Visit(browser, f"{demo_fleet}/?at=week")
    visit.page.click('a.cell[title^="s01 "]')
    visit.page.wait_for_selector(".finding", timeout=PATIENCE_MS)
    assert "llama-sft" in visit.page.inner_text("h1")
    visit.settle()
    visit.close()


def test_a_list_is_sorted_by_a_click_on_its_heading(browser: Browser, demo_fleet: str) -> None:
    """Figures the largest first, then the other way; names as they are read."""
    visit = Visit(browser, f"{demo_fleet}/findings")
    heads = visit.page.locator("table.names").first.locator("thead th")
    names = heads.all_inner_texts()
    column = visit.page.locator(f"table.names >> nth=0 >> tbody tr td:nth-child({names.index('$') + 1})")
    dearest = [float(text) for text in column.all_inner_texts()]
    heads.nth(names.index("$")).locator("button").click()
    assert [float(text) for text in column.all_inner_texts()] == sorted(dearest, reverse=True)
    heads.nth(names.index("$")).locator("button").click()
    assert [float(text) for text in column.all_inner_texts()] == sorted(dearest)
    assert heads.nth(names.index("$")).get_attribute("aria-sort") == "ascending"
    heads.nth(names.index("what")).locator("button").click()
    said = visit.page.locator(
        f"table.names >> nth=0 >> tbody tr td:nth-child({names.index('what') + 1})"
    ).all_inner_texts()
    assert said == sorted(said)
    visit.close()


SORTED = (
    "/?week=2026-W46", "/findings?week=2026-W46", "/money?week=2026-W46", "/placement?week=2026-W46", "/health",
    "/compare?before={earlier}&after={later}", RUN,
)  # fmt: skip
_UNSORTED = """
() => [...document.querySelectorAll("main table")]
    .filter((each) => each.tHead && each.tBodies[0]?.rows.length > 1 && !each.matches(".went, .matrix, .runs"))
    .filter((each) => ![...each.rows].some((row) => [...row.cells].some((cell) => cell.colSpan > 1)))
    .filter((each) => each.tHead.querySelector("th:not(.share, :has(button))"))
    .map((each) => each.outerHTML.slice(0, 200))
"""


def test_every_table_sorts_and_a_link_keeps_its_order(browser: Browser, demo_fleet: str) -> None:
    """By a button that is told to who cannot see it; who opens the link sees it as it was sorted, its total last."""
    known = httpx.get(f"{demo_fleet}/v1/runs").json()["items"]
    names = {"earlier": known[0]["run_id"], "later": known[1]["run_id"]}
    for path in SORTED:
        visit = Visit(browser, demo_fleet + path.format(**names))
        visit.settle()
        assert visit.page.evaluate(_UNSORTED) == [], path
        visit.close()
    visit = Visit(browser, f"{demo_fleet}/?week=2026-W46")
    visit.settle()
    table = visit.page.locator("#week table:has(caption:text('By team'))")
    table.locator("thead th", has_text="useful").locator("button").click()
    address, shown = visit.page.url, table.inner_text()
    assert "order=by-team." in address
    assert table.locator("tbody tr").last.inner_text().startswith("total")
    visit.close()
    again = Visit(browser, address)
    again.settle()
    table = again.page.locator("#week table:has(caption:text('By team'))")
    assert table.inner_text() == shown
    assert table.locator("th[aria-sort=descending]").inner_text().startswith("useful")
    again.close()


def test_of_a_service_what_it_served_stands_above_its_curves(browser: Browser, demo_fleet: str) -> None:
    """Who opens it asks how fast and at what price; of training he asks why it was slow."""
    found = httpx.get(f"{demo_fleet}/v1/runs").json()["items"]
    service = next(run["run_id"] for run in found if run["name"] == "llm-serve" or "serve" in run["name"])
    for run, is_above in ((f"/runs/{service}", True), (RUN, False)):
        visit = Visit(browser, demo_fleet + run)
        visit.settle()
        above = (
            "document.querySelector('[data-part$=rest]').compareDocumentPosition(document.querySelector('#timeline'))"
        )
        assert bool(visit.page.evaluate(f"{above} & Node.DOCUMENT_POSITION_FOLLOWING")) == is_above
        visit.close()


def test_two_runs_are_laid_over_one_another(browser: Browser, demo_fleet: str) -> None:
    """Which began to wait earlier is seen, and not worked out from two pages."""
    known = httpx.get(f"{demo_fleet}/v1/runs").json()["items"]
    visit = Visit(browser, f"{demo_fleet}/compare?before={known[0]['run_id']}&after={known[1]['run_id']}")
    visit.page.locator("#curve-1").scroll_into_view_if_needed()
    visit.page.wait_for_selector("#curve-1 .main-svg", timeout=PATIENCE_MS)
    assert visit.page.locator("#curve-1 .scatterlayer .trace").count() == 2
    assert visit.page.locator("#curve-1 .legendtext").all_text_contents() == ["before", "after"]
    visit.close()


@pytest.mark.parametrize(
    ("text", "figure"),
    [
        ("1,234.5", 1234.5), ("$9,452", 9452), ("-", None), ("unknown", None), ("−12.5%", -12.5), ("-$3", -3),
        ("70 h 30 min", 253_800), ("45 min 00 s", 2700), ("1.5 GB", 1.5e9), ("900 MB", 9e8), ("8 of 8", 8),
        ("≥12.00", 12), ("3.91 billion", 3.91e9), ("2 × H100-80GB", 2), ("+0.3", 0.3), ("12 s ago", 12),
    ],
)  # fmt: skip
def test_a_cell_is_sorted_by_what_it_comes_to(browser: Browser, demo_fleet: str, text: str, figure: float) -> None:
    """Amounts in other units stand beside each other: 900 MB is less than 1.5 GB."""
    visit = Visit(browser, f"{demo_fleet}/findings")
    assert visit.page.evaluate("text => figureOf(text)", text) == figure
    visit.close()


def test_what_is_picked_out_of_the_grid_stands_in_the_address(browser: Browser, demo_fleet: str) -> None:
    """A link in a chat shows the state and the node that were talked about."""
    visit = Visit(browser, f"{demo_fleet}/?at=week")
    label = visit.page.locator(".key[data-label]").first.get_attribute("data-label")
    visit.page.locator(".key[data-label]").first.click()
    visit.page.locator("a.name >> nth=0").click()
    visit.page.wait_for_selector("#node .panel")
    visit.asks(lambda state: state == {"at": ["week"], "only": [label], "node": ["s01"]})
    visit.page.reload()
    visit.settle()
    expect(visit.page.locator("#node .panel")).to_contain_text("GPU 0")
    expect(visit.page.locator(".key[aria-pressed=true]")).to_contain_text(str(label))
    lit, dimmed = (visit.page.locator(f".cells .cell{which}").count() for which in (".picked", ":not(.picked)"))
    assert lit > 0
    assert lit + dimmed == visit.page.locator(".cells .cell").count()
    visit.page.click("#node a[data-close]")
    visit.asks(lambda state: "node" not in state)
    visit.close()


def test_arrow_keys_walk_through_the_grid(browser: Browser, demo_fleet: str) -> None:
    """Ten thousand GPUs are one stop of the tabulator, and each is reached."""
    visit = Visit(browser, demo_fleet, width=390)  # where racks stand below one another
    assert visit.page.locator(".racks a[tabindex='0']").count() == 1
    visit.page.locator(".racks a").first.focus()
    first = visit.page.evaluate("document.activeElement.textContent")
    visit.page.keyboard.press("ArrowDown")
    below = visit.page.evaluate("document.activeElement.textContent")
    visit.page.keyboard.press("Home")
    assert below != first
    assert visit.page.evaluate("document.activeElement.textContent") == first
    visit.close()


def test_a_zoom_stands_in_the_address_and_comes_back_with_it(browser: Browser, demo_fleet: str) -> None:
    """By key and by hand, finer data follows, and whoever opens the link sees the same stretch."""
    visit = Visit(browser, demo_fleet + RUN)
    page = visit.page
    page.wait_for_selector("#timeline[data-shown]")
    whole = page.get_attribute("#timeline", "data-shown")
    page.focus("#lanes")
    page.keyboard.press("+")
    page.wait_for_selector(f'#timeline:not([data-shown="{whole}"])')
    zoomed = page.get_attribute("#timeline", "data-shown")
    visit.asks(lambda state: {"from", "until"} <= state.keys())
    assert "productive" in page.inner_text("#lanes-said")
    page.select_option("#ranked", "power")
    page.reload()
    page.wait_for_selector("#timeline[data-shown]")
    assert page.get_attribute("#timeline", "data-shown") == zoomed
    assert page.input_value("#ranked") == "power"
    box = page.locator("#lanes").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 300, box["y"] + 80)
    page.mouse.down()
    page.mouse.move(box["x"] + 500, box["y"] + 80, steps=4)
    page.mouse.up()
    page.wait_for_selector(f'#timeline:not([data-shown="{zoomed}"])')
    link = page.get_attribute("#timeline-csv", "href")
    assert link is not None
    assert "start=" in link
    assert page.request.get(demo_fleet + link).text().startswith("from,productive,")
    page.click("text=All of it")
    page.wait_for_selector(f'#timeline[data-shown="{whole}"]')
    visit.asks(lambda state: "from" not in state)
    visit.settle()
    visit.close()


def test_a_double_click_sees_more_and_a_moment_is_told_where_one_points(browser: Browser, demo_fleet: str) -> None:
    """All that is drawn at a moment stands in the line below; a wheel with Ctrl zooms around it."""
    visit = Visit(browser, demo_fleet + RUN)
    page = visit.page
    page.wait_for_selector("#timeline[data-shown]")
    whole = page.get_attribute("#timeline", "data-shown")
    box = page.locator("#lanes").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 400, box["y"] + 150)
    expect(page.locator("#lanes-said")).to_contain_text("productive")
    expect(page.locator("#lanes-said")).to_contain_text("SM activity")
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    page.wait_for_selector(f'#timeline:not([data-shown="{whole}"])')
    page.mouse.dblclick(box["x"] + 400, box["y"] + 150)
    page.wait_for_selector(f'#timeline[data-shown="{whole}"]')
    visit.settle()
    visit.close()


def test_a_finger_on_the_timeline_scrolls_the_page(browser: Browser, demo_fleet: str) -> None:
    """It is taller than a phone: where it kept a finger to itself, nobody would come past it."""
    context = browser.new_context(viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(demo_fleet + RUN)
    page.wait_for_selector("#timeline[data-shown]")
    page.locator("#lanes").evaluate("lanes => lanes.scrollIntoView()")
    before = page.evaluate("scrollY")
    finger = context.new_cdp_session(page)
    for kind, y in (("touchStart", 500), *(("touchMove", 500 - 30 * step) for step in range(1, 11))):
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": 200, "y": y}]})
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.wait_for_function("before => scrollY > before + 100", arg=before)
    context.close()


def test_a_run_gives_out_its_numbers_its_advice_and_its_profile(browser: Browser, demo_fleet: str) -> None:
    """What is seen can be taken along: rows, the lines to paste, the signed profile."""
    visit = Visit(browser, demo_fleet + RUN)
    page = visit.page
    page.wait_for_selector("#timeline[data-shown]")
    page.click("#timeline-numbers summary")
    page.wait_for_selector("#timeline-numbers tbody tr >> nth=10")
    page.click("summary:has-text('Its states from start to end')")
    with page.expect_download() as download:
        page.click("details[open] button:has-text('CSV')")
    assert download.value.suggested_filename == "llama-sft-states.csv"
    assert Path(download.value.path()).read_text("utf-8").startswith('"from","productive"')
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator(".advice button").first.click()
    expect(page.locator(".advice button").first).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == page.locator(".advice pre").first.inner_text()
    page.click("#profile")
    page.wait_for_selector("#profile-said a", timeout=PATIENCE_MS)
    with page.expect_download() as download:
        page.click("#profile-said a >> nth=1")
    assert '"signature"' in Path(download.value.path()).read_text("utf-8")
    visit.close()


@pytest.mark.parametrize("path", ["/?week=2026-W46", "/findings?week=2026-W46", "/placement?week=2026-W46", "/health"])
def test_on_a_phone_every_figure_of_a_row_is_in_sight_under_its_heading(
    browser: Browser, demo_fleet: str, path: str
) -> None:
    """What is too wide folds: nobody looks for a column that he does not know to be there."""
    visit = Visit(browser, demo_fleet + path, 390)
    visit.settle()
    wide = "[...document.querySelectorAll('.scroll')].filter((e) => e.scrollWidth > e.clientWidth + 1).length"
    assert visit.page.evaluate(wide) == 0
    bare = "[...document.querySelectorAll('.folds td:not(:first-child)')].filter((e) => !e.dataset.label).length"
    assert visit.page.evaluate(bare) == 0
    visit.close()


def test_a_phone_that_is_turned_folds_what_is_too_wide_then(browser: Browser, demo_fleet: str) -> None:
    """Tables folded when they came, and never after: upright, a phone hid the last column of money."""
    visit = Visit(browser, demo_fleet + "/?week=2026-W46", 844)
    visit.look(390, "light")
    all_fit = "[...document.querySelectorAll('.scroll')].every((e) => e.scrollWidth <= e.clientWidth + 1)"
    visit.page.wait_for_function(f"document.querySelector('.folds') && {all_fit}", timeout=10_000)
    visit.close()
