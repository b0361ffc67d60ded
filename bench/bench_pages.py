"""How soon the pages can be read and answer a hand: python -m bench.bench_pages [--gpus 10000 --times 3].

A browser opens them over loopback: the first time after the server has started, when nothing is kept, and then again.
First paint is the browser's own word (first contentful paint): the fleet's grid is in the document itself. What a hand
does is timed by the browser too (event timing: from the key or the click to the next frame), in steps of 8 ms.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import httpx
import psutil
from playwright.sync_api import Browser, Page, sync_playwright

from bench.machine import keep, machine, told
from bench.page_site import RUN, write
from collector.store.database import Store

PORT = 18_499
PATIENCE_MS = 900_000
PAINT_SECONDS, HAND_SECONDS, AT_GPUS = 1.0, 0.1, 10_000
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
PAGES = {"fleet": "/", "fleet, the week": "/?at=week", "run": f"/runs/{RUN}"}
WATCH = """
window.hands = [];
new PerformanceObserver((list) => list.getEntries().forEach((each) => window.hands.push([each.name, each.duration])))
    .observe({ type: "event", durationThreshold: 16, buffered: true });
"""
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
ANSWERED = "performance.getEntriesByType('navigation')[0].responseEnd"


@contextmanager
def serving(store: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Yield the address of a server in a process of its own, and the process."""
    words = [sys.executable, "-m", "bench.page_site", str(store), str(PORT)]
    with subprocess.Popen(words) as server:
        try:
            address = f"http://127.0.0.1:{PORT}"
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                try:
                    httpx.get(f"{address}/healthz")
                    break
                except httpx.TransportError:
                    time.sleep(0.1)
            yield address, psutil.Process(server.pid)
        finally:
            server.terminate()
            server.wait(60)


def visited(browser: Browser, address: str) -> tuple[Page, dict[str, float]]:
    """Open a page anew and return it with when it was answered, painted and complete, in seconds."""
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.add_init_script(WATCH)
    began = time.monotonic()
    page.goto(address, wait_until="load")
    page.wait_for_selector('[aria-busy="true"]', state="detached", timeout=PATIENCE_MS)
    complete = time.monotonic() - began
    answered, painted = page.evaluate(ANSWERED) / 1000, page.evaluate(PAINTED) / 1000
    return page, {"answered": round(answered, 3), "painted": round(painted, 3), "complete": round(complete, 3)}


def cold(store: Path, path: str) -> dict[str, float]:
    """Return the wall and the processor's seconds that a server takes for the first page after its start, alone."""
    with serving(store) as (address, server):
        before, began = sum(server.cpu_times()[:2]), time.monotonic()
        httpx.get(address + path, timeout=PATIENCE_MS / 1000).raise_for_status()
        return {"seconds": round(time.monotonic() - began, 3), "cpu": round(sum(server.cpu_times()[:2]) - before, 3)}


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


def measured(store: Path, times: int) -> dict[str, dict[str, object]]:
    """Return by page what was measured; the first visit of each is that of a server that has just been started."""
    found: dict[str, dict[str, object]] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        for name, path in PAGES.items():
            with serving(store) as (address, _):
                visits, hands = [], []
                for _ in range(times):
                    page, visit = visited(browser, address + path)
                    visits.append(visit)
                    hands.append(hands_on_run(page) if name == "run" else hands_on_fleet(page))
                    page.context.close()
            found[name] = {"cold": cold(store, path), "visits": visits, "hands": hands}
        browser.close()
    return found


def main() -> int:
    """Write, open, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", type=int, default=AT_GPUS)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--store", type=Path, help="use this store; it is written where it is not there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = options.store or Path(folder) / "store.duckdb"
        if not store.exists():
            write(store, options.gpus)
        with Store.open(store, read_only=True) as opened, opened.session() as session:
            (rows,) = session.row("SELECT count(*) FROM ledger")
        on = machine()
        found = measured(store, max(2, options.times))
    bars = {}
    for name, one in found.items():
        visits, hands = one["visits"], one["hands"]
        assert isinstance(visits, list)
        assert isinstance(hands, list)
        again = median(visit["painted"] for visit in visits[1:])
        worst = max(seconds for each in hands for seconds in each.values())
        first, last, alone = visits[0], visits[-1], one["cold"]
        print(
            f"{name:<16} the first page after the server's start, alone: {alone}"
        )  # on a busy machine only the second says something
        print(f"{name:<16} painted {first['painted']:.2f} s at first, {again:.2f} s then; complete", end=" ")
        print(f"{first['complete']:.1f} s, {last['complete']:.1f} s; slowest answer to a hand {worst * 1000:.0f} ms")
        bars[f"{name}: first paint in {PAINT_SECONDS:g} s"] = max(each["painted"] for each in visits) <= PAINT_SECONDS
        bars[f"{name}: answers a hand in {HAND_SECONDS * 1000:.0f} ms"] = worst <= HAND_SECONDS
    keep("pages", {"machine": on, "gpus": options.gpus, "ledger_rows": rows, "pages": found})
    return told(bars)


if __name__ == "__main__":
    sys.exit(main())
