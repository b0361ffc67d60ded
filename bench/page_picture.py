"""Take docs/page.png, the first screen of the demo in a browser: python -m bench.page_picture OUT."""

import io
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from bench.bench_pages import ARGUMENTS, visited
from dashboards.demo import DemoConfig, demo

COLOURS = 96  # a third of the bytes; nothing on the page has a shade that is missed


def main(out: Path) -> None:
    """Show the demo, look at it, and keep what is seen."""
    with (
        tempfile.TemporaryDirectory() as folder,
        demo(DemoConfig(port=0, store=Path(folder) / "demo.duckdb")) as shown,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium-headless-shell"), args=ARGUMENTS)
        page, _ = visited(browser, shown.url)
        picture = Image.open(io.BytesIO(page.screenshot()))
        picture.convert("RGB").quantize(COLOURS).save(out, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
