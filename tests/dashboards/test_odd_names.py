"""Names are anybody's: of 1 to 300 characters, without spaces, from right to left, wide, combining. Pages hold."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup
from playwright.sync_api import Browser

from analyzer.text.templating import NAME_SHOWN, name_mark
from analyzer.text.words import plain
from collector.config import CollectorConfig
from collector.store.database import Store
from dashboards.server.app import ServerConfig, create_server
from tests.analyzer.reports import example_week
from tests.analyzer.reports.test_reading import BERLIN, EXAMPLE
from tests.browser import Visit
from tests.dashboards.serving import served

LONG = "x" * 300
ODD = (
    "a", LONG, "run-" * 75, "train_" + "7b" * 60, "عملية-تدريب-" * 12, "אימון" * 40, "訓練" * 60, "e\u0301" * 120,
    "👩‍🚀" * 40, "<b>bold</b>" * 10, "a/b/c/" * 40, "W" * 120,
)  # fmt: skip
PAGES = (
    "/", "/runs?week=2026-W46", "/runs/slurm/alpha/81234", "/findings?week=2026-W46", "/findings/f-7kq2?week=2026-W46",
    "/recommendations?week=2026-W46", "/money?week=2026-W46", "/placement?week=2026-W46", "/requests", "/health",
    "/compare?before=81001&after=81234", "/?week=2026-W46&at=week", f"/?week=2026-W46&at=week&node=1{LONG}",
)  # fmt: skip
WIDTHS = (390, 1440)  # a page is opened on a phone, and made wider


_NARROWEST = """
() => {
    const names = [...document.querySelectorAll("main .name.long")].filter((each) => each.offsetWidth);
    return names.length ? Math.min(...names.map((each) => each.offsetWidth)) : null;
}
"""


# A name in a table or a heading that no filter has had a hand in.
_BARE = """
(most) => {
    const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
    for (let each = texts.nextNode(); each; each = texts.nextNode()) {
        const word = each.data.split(" ").find((one) => one.length > most);
        const place = each.parentElement.closest("td, th, h1, h2, h3, .nodechip");
        if (word && place && !each.parentElement.closest("pre, code, .name, .unseen")) return word;
    }
    return null;
}
"""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """Yield the example week, of which every run, team and finding has one of the odd names."""
    config = ServerConfig(CollectorConfig(listen="127.0.0.1:0"), BERLIN, analyze_seconds=None)
    found = [replace(one, subject=ODD[n % len(ODD)]) for n, one in enumerate(example_week.findings())]
    advice = [replace(one, subject=ODD[n % len(ODD)]) for n, one in enumerate(example_week.recommendations())]
    source = replace(EXAMPLE, findings=lambda *_: found, recommendations=lambda *_: advice)
    with Store.open(None) as store:
        with store.session() as session:
            example_week.fill(session)
            runs = session.rows("SELECT run_id FROM runs ORDER BY run_id")
            for n, (run_id,) in enumerate(runs):
                name, team = ODD[n % len(ODD)], ODD[(n + 1) % len(ODD)]
                session.execute(
                    "UPDATE runs SET name = ?, team = ?, project = ? WHERE run_id = ?", [name, team, name, run_id]
                )
            nodes = session.rows("SELECT DISTINCT node FROM ledger ORDER BY node")
            for n, (node,) in enumerate(nodes):
                session.execute("UPDATE ledger SET node = ? WHERE node = ?", [f"{n}{ODD[n % len(ODD)]}", node])
        with served(create_server(config, store, source)) as client:
            yield str(client.base_url).rstrip("/")


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_as_wide_as_its_window(browser: Browser, site: str, path: str) -> None:
    """A name is cut or broken, and what stands beside it stays where one sees it; nothing of it runs."""
    visit = Visit(browser, site + path, WIDTHS[0])
    assert visit.page.locator("main b", has_text="bold").count() == 0
    for width in WIDTHS:
        visit.look(width, "light")
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        narrow = visit.page.evaluate(_NARROWEST)
        assert narrow is None or narrow > 40, f"{width}: a name is squeezed to {narrow} pixels"
        bare = visit.page.evaluate(_BARE, NAME_SHOWN * 2)
        assert not bare, f"{width}: a name stands whole in the line, {bare[:60]}"
    visit.close()


def test_every_figure_of_a_long_row_is_in_sight(browser: Browser, site: str) -> None:
    """A run with a long name still says what it cost, on a screen that is wide enough for a table."""
    visit = Visit(browser, f"{site}/runs?week=2026-W46", 1440)
    reach = visit.page.evaluate(
        "Math.max(...[...document.querySelectorAll('table.runs td')].map((e) => e.getBoundingClientRect().right))"
    )
    assert reach <= 1440
    visit.close()


@given(st.text(min_size=1, max_size=300), st.text("abc", min_size=1, max_size=9))
def test_a_name_is_isolated_bounded_and_never_blank(name: str, instead: str) -> None:
    """Whatever it is, it is one piece that says something, cut with a mark, and nothing of it is markup."""
    made = name_mark(name, instead)
    shown = Markup(made.partition(">")[2].rpartition("</bdi>")[0]).unescape()
    whole = plain(name, 300).strip() or instead
    assert made.startswith("<bdi class=")
    assert made.count("<") == 2, "nothing of it is markup"
    assert len(shown) <= NAME_SHOWN
    assert whole.startswith(shown.removesuffix("…"))
    assert shown.strip()
    assert ("title=" in made) == (len(whole) > NAME_SHOWN)
