"""How soon the pages can be read and answer a hand: python -m bench.bench_pages [--gpus 10000 --times 3].

A browser opens each over loopback: at once after a server's very first start, when nothing is made; at once after a
pass of the analysis has changed the ledger; then again; and at once after the server has been started again and a pass
has changed the ledger. First paint is the browser's own word (first contentful paint), `useful` is when every part
shows figures, of now or of before with their time; `complete` is when nothing is awaited any more. `shown` says what
was painted first: the page, the page of before the pass with its time, or the frame alone (waiting). What a hand does
is timed by the browser too (event timing: from the key or the click to the next frame), in steps of 8 ms.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median

import httpx
import psutil
from playwright.sync_api import Browser, Error, Page, sync_playwright

from bench.machine import add_record, keep, machine, told
from bench.page_site import RUN, write
from collector.backup.manifest import Layout
from collector.store.database import Store

PORT = 18_499
PATIENCE_SECONDS = 600.0
WAITING = 202
PAINT_SECONDS, HAND_SECONDS, AT_GPUS = 1.0, 0.1, 10_000
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
PAGES = {
    "fleet": "/", "fleet, the week": "/?at=week", "run": f"/runs/{RUN}", "money": "/money", "placement": "/placement",
    "traffic": "/placement?view=traffic", "what to move": "/recommendations", "requests": "/requests",
    "health": "/health", "the week's report": "/v1/read?what=week&format=html",
}  # fmt: skip
WATCH = """
window.hands = [];
new PerformanceObserver((list) => list.getEntries().forEach((each) => window.hands.push([each.name, each.duration])))
    .observe({ type: "event", durationThreshold: 16, buffered: true });
new PerformanceObserver((list) => list.getEntriesByName("first-contentful-paint").forEach((each) => {
    sessionStorage.painted ??= each.startTime; // of the first document: a page that is not there yet is asked for again
})).observe({ type: "paint", buffered: true });
"""
USEFUL = """document.readyState === "complete" && !document.querySelector('[aria-busy="true"]')"""
COMPLETE = """document.readyState === "complete" && !document.querySelector('[aria-busy="true"], [data-again]')"""


class Serving:
    """A server in a process of its own; it answers when this is made."""

    def __init__(self, store: Path) -> None:
        words = [sys.executable, "-m", "bench.page_site", str(store), str(PORT)]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = f"http://127.0.0.1:{PORT}"
        self.seen = psutil.Process(self._process.pid)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                httpx.get(f"{self.address}/healthz")
                break
            except httpx.TransportError:
                time.sleep(0.02)

    def turned(self) -> dict[str, float]:
        """Wait until what is made ahead is made, and return what was told of it."""
        assert self._process.stdout is not None
        told: dict[str, float] = json.loads(self._process.stdout.readline())
        return told

    def passes(self) -> None:
        """Let a pass change the ledger."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        time.sleep(0.1)

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(120)


@contextmanager
def serving(store: Path) -> Iterator[Serving]:
    """Yield a server that was started now."""
    server = Serving(store)
    try:
        yield server
    finally:
        server.stop()


def visited(browser: Browser, address: str) -> tuple[Page, dict[str, object]]:
    """Open a page anew and return it with when it was painted, useful and complete, in seconds."""
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.add_init_script(WATCH)
    began = time.monotonic()
    answer = page.goto(address, wait_until="load", timeout=PATIENCE_SECONDS * 1000)
    _until(page, USEFUL, began)
    useful = time.monotonic() - began
    _until(page, COMPLETE, began)
    complete = time.monotonic() - began
    _until(page, "Boolean(sessionStorage.painted)", began)
    painted = float(page.evaluate("sessionStorage.painted")) / 1000
    shown = "page"
    if answer is not None and "refresh" in answer.headers:
        shown = "waiting" if answer.status == WAITING else "of before"
    return page, {
        "painted": round(painted, 3), "useful": round(useful, 3), "complete": round(complete, 3), "shown": shown,
    }  # fmt: skip


def _until(page: Page, said: str, began: float) -> None:
    """Wait until something holds; a page that asks for itself again answers nothing meanwhile."""
    while time.monotonic() < began + PATIENCE_SECONDS:
        with suppress(Error):
            if page.evaluate(said):
                return
        page.wait_for_timeout(20)
    raise TimeoutError(f"after {PATIENCE_SECONDS} s {page.url} is not there yet")


def slowest(page: Page, act: Callable[[], object]) -> float:
    """Return the longest time in seconds from an event of an act to the next frame; 0.016 stands for less."""
    page.evaluate("window.hands = []")
    act()
    page.wait_for_timeout(400)
    found: list[float] = [0.016, *(duration / 1000 for _, duration in page.evaluate("window.hands"))]
    return max(found)


def hands_on_fleet(page: Page) -> dict[str, float]:
    """Pick a state, walk the grid, look into a node."""
    found = {"pick a state": slowest(page, page.locator(".key[data-label]").first.click)}
    page.locator(".racks a").first.focus()
    found["walk down"] = slowest(page, lambda: page.keyboard.press("ArrowDown"))
    found["walk right"] = slowest(page, lambda: page.keyboard.press("ArrowRight"))
    found["open a node"] = slowest(page, page.locator(".racks a[data-into]").nth(3).click)
    return found


def hands_on_run(page: Page) -> dict[str, float]:
    """Zoom in and out, go left, point at a moment."""
    page.locator("#lanes").scroll_into_view_if_needed()
    page.focus("#lanes")
    found = {
        name: slowest(page, lambda key=key: page.keyboard.press(key))  # type: ignore[misc]
        for name, key in (("zoom in", "+"), ("zoom further", "+"), ("earlier", "ArrowLeft"), ("zoom out", "-"))
    }
    box = page.locator("#lanes").bounding_box() or {"x": 0, "y": 0}

    def drag() -> None:
        page.mouse.move(box["x"] + 300, box["y"] + 60)
        page.mouse.down()
        page.mouse.move(box["x"] + 420, box["y"] + 60, steps=5)
        page.mouse.up()

    return found | {"drag a stretch": slowest(page, drag)}


def hands_elsewhere(page: Page) -> dict[str, float]:
    """Open the numbers of a chart, where there are any."""
    numbers = page.locator("details summary").first
    return {"open the numbers": slowest(page, numbers.click)} if numbers.count() else {}


HANDS = {"fleet": hands_on_fleet, "fleet, the week": hands_on_fleet, "run": hands_on_run}


def measured(store: Path, times: int) -> dict[str, dict[str, object]]:
    """Return by page what was measured: of a server of its own first, of one for all, of one that starts again."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium-headless-shell"), args=ARGUMENTS)
        browser.new_page().context.close()  # what a browser does once is no server's doing
        found: dict[str, dict[str, object]] = {name: {"cold": _cold(browser, store, name)} for name in PAGES}
        with serving(store) as server:
            ahead = {"at_start": server.turned()}
            for name, path in PAGES.items():
                server.passes()
                found[name]["after_pass"] = _visit(browser, server.address + path, f"{name}, after a pass")
            server.passes()
            _last(server)
            for name, path in PAGES.items():
                found[name] |= _again(browser, server.address + path, name, times)
            ahead["rss_bytes"] = {"now": server.seen.memory_info().rss}
        for name in PAGES:
            found[name]["after_restart"] = _restarted(browser, store, name)
        browser.close()
    return found | {"made ahead": dict(ahead)}


def _cold(browser: Browser, store: Path, name: str) -> dict[str, object]:
    shutil.rmtree(Layout(store).pages, ignore_errors=True)
    with serving(store) as server:
        return _visit(browser, server.address + PAGES[name], f"{name}, after the first start")


def _restarted(browser: Browser, store: Path, name: str) -> dict[str, object]:
    with serving(store) as server:
        server.passes()
        return _visit(browser, server.address + PAGES[name], f"{name}, after a restart and a pass")


def _visit(browser: Browser, address: str, what: str) -> dict[str, object]:
    page, visit = visited(browser, address)
    page.context.close()
    print(f"{what}: {visit}", flush=True)
    return visit


def _last(server: Serving) -> None:
    """Wait until all is made of the newest state: a turn that gave way to the next is told of too."""
    while not server.turned()["is_whole"]:
        print("a turn gave way to the next", flush=True)


def _again(browser: Browser, address: str, name: str, times: int) -> dict[str, object]:
    again, hands = [], []
    for _ in range(times):
        page, visit = visited(browser, address)
        again.append(visit)
        hands.append(HANDS.get(name, hands_elsewhere)(page))
        page.context.close()
    print(f"{name}, again: {again[-1]}, {hands[-1]}", flush=True)
    return {"again": again, "hands": hands}


def main() -> int:
    """Write, open, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", type=int, default=AT_GPUS)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--store", type=Path, help="use this store; it is written where it is not there")
    add_record(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = options.store or Path(folder) / "store.duckdb"
        if not store.exists():
            write(store, options.gpus)
        with Store.open(store, read_only=True) as opened, opened.session() as session:
            (rows,) = session.row("SELECT count(*) FROM ledger")
            (windows,) = session.row("SELECT count(*) FROM run_windows")
        on = machine()
        found = measured(store, max(2, options.times))
    of = {"machine": on, "gpus": options.gpus, "ledger_rows": rows, "run_windows": windows}
    keep("pages", of | {"pages": found}, record=options.record)
    return told(_bars(found))


def _bars(found: dict[str, dict[str, object]]) -> dict[str, bool]:
    """Print a line a page, and return which bars hold."""
    bars = {}
    for name in PAGES:
        one = found[name]
        cold, passed, restarted = one["cold"], one["after_pass"], one["after_restart"]
        again, hands = one["again"], one["hands"]
        assert isinstance(cold, dict)
        assert isinstance(passed, dict)
        assert isinstance(restarted, dict)
        assert isinstance(again, list)
        assert isinstance(hands, list)
        kept = median(visit["painted"] for visit in again)
        worst = max((seconds for each in hands for seconds in each.values()), default=0.0)
        print(f"{name:<18} after the first start {_first(cold)}; after a pass {_first(passed)};", end=" ")
        print(f"after a restart {_first(restarted)};", end=" ")
        print(f"again {kept:.2f} s; slowest answer to a hand {worst * 1000:.0f} ms")
        bars[f"{name}: useful after a restart in {PAINT_SECONDS:g} s"] = restarted["useful"] <= PAINT_SECONDS
        bars[f"{name}: first paint after the first start in {PAINT_SECONDS:g} s"] = cold["painted"] <= PAINT_SECONDS
        bars[f"{name}: first paint after a pass in {PAINT_SECONDS:g} s"] = passed["painted"] <= PAINT_SECONDS
        bars[f"{name}: first paint then in {PAINT_SECONDS:g} s"] = kept <= PAINT_SECONDS
        bars[f"{name}: answers a hand in {HAND_SECONDS * 1000:.0f} ms"] = worst <= HAND_SECONDS
    return bars


def _first(visit: dict[str, float]) -> str:
    painted, useful, complete = visit["painted"], visit["useful"], visit["complete"]
    return f"{painted:.2f} s ({visit['shown']}), useful {useful:.2f} s, complete {complete:.1f} s"


if __name__ == "__main__":
    sys.exit(main())
