"""A document with charts opens anywhere by itself and draws them, in light, in the dark and on paper."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from analyzer.capacity.planner.text import plan_html
from analyzer.capacity.profile.page import page as profile_page
from analyzer.capacity.profile.signature import signed
from analyzer.interfaces.cli.recording import report_recording
from analyzer.interfaces.html import finding_html
from tests.analyzer.capacity.planner_answers import on_time
from tests.analyzer.capacity.profile_example import EXAMPLE
from tests.analyzer.capacity.test_profile_page import KEY
from tests.analyzer.reports.example_recording import write_recording
from tests.analyzer.reports.test_finding_html import explained

WORKING = ".chart .bars >> nth=0 >> .point path >> nth=0"
LIGHT, DARK = "rgb(42, 111, 48)", "rgb(127, 203, 160)"  # of what is useful, as palette.css has them


def recorded(minutes: int = 20, **told: Any) -> str:
    """Return the document of a command that was watched, as `gpuledger run --report x.html` makes it."""
    with TemporaryDirectory() as folder:
        path, page = write_recording(Path(folder) / "r.json", minutes, True, **told), Path(folder) / "r.html"
        assert report_recording([str(path), "--price", "2.60", "--format", "html", "--out", str(page)]) == 0
        return page.read_text("utf-8")


MADE: dict[str, tuple[Callable[[], str], int, str]] = {
    "finding": (lambda: finding_html(explained()), 8 * 3, ".bars .point"),
    "plan": (lambda: plan_html(on_time()), 4, ".bars .point"),
    "profile": (lambda: profile_page(signed(EXAMPLE, KEY), key=KEY), 3, ".cartesianlayer .subplot"),
    "recording": (recorded, 1 + 7 + 1, ".cartesianlayer .subplot"),  # states, signals and ranks
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


def test_a_recording_is_zoomed_into_and_tells_its_moments_without_a_server(browser: Browser, tmp_path: Path) -> None:
    """A researcher keeps the file: all signals zoom together, and a moment is told in words."""
    page, complaints = opened(browser.new_context(offline=True), saved(tmp_path, recorded()))
    shown = "document.querySelector('.chart').layout.xaxis.range.map((at) => +new Date(at))"
    whole = page.evaluate(shown)
    place = page.locator(".chart .nsewdrag").first.bounding_box()
    assert place is not None
    y = place["y"] + place["height"] / 2
    page.mouse.move(place["x"] + place["width"] / 4, y)
    page.mouse.down()
    page.mouse.move(place["x"] + place["width"] / 2, y, steps=8)
    page.mouse.up()
    page.wait_for_function(
        f"most => {{ const [from, until] = {shown}; return until - from < most / 2 }}", arg=whole[1] - whole[0]
    )
    page.mouse.move(place["x"] + place["width"] / 2, y)
    expect(page.locator(".hoverlayer .hovertext").first).to_be_visible()
    told = " ".join(page.locator(".hoverlayer").all_text_contents())
    assert "SM activity" in told
    assert complaints == []


def test_what_cannot_be_judged_has_no_timeline_and_its_text_is_there(tmp_path: Path) -> None:
    """Others worked on its GPUs, or nothing was watched: the page says so in the sentence, and draws nothing."""
    shared = recorded(shared_gpus=1, others="ann (pid 7)")
    assert "Not separable: others used 1 of its 4 GPUs beside it" in shared
    none = recorded(gpus=0)
    assert "No GPU was watched (libnvidia-ml.so.1 is not installed)" in none
    for text in (shared, none):
        assert "<details open>" in text
        assert "data-chart" not in text.partition("<body>")[2].partition("<script>")[0]


def test_a_command_s_words_are_words(tmp_path: Path) -> None:
    """What was typed is anybody's: nothing of it runs in the file that is sent around."""
    text = recorded(command="python <script>alert(1)</script> --name '\u202egnp'")
    assert "<script>alert(1)" not in text
    assert "&lt;script&gt;alert(1)" in text
