"""Pictures of pages that are kept, and how a new one is held against them.

A picture is kept at half its size and with few colours: small enough for the repository, and hair lines of letters
weigh less. What is compared is how many pixels differ by more than a shade.
"""

import io
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageChops
from playwright.sync_api import Page

KEPT = Path(__file__).parents[1] / "golden" / "pictures"
COLOURS = 48  # the rare ones too, so that none is told wrongly by more than 25 of 255
SHADE = 40  # of 255, of the channel that differs most
PIXELS = 12  # that may differ so; one digit of a figure is more
# What would be another picture on another machine or day: fonts by their fallbacks, blinking, and the clock's words.
STEADY = """
*, *::before, *::after { animation: none !important; transition: none !important; caret-color: transparent !important;
  font-family: "DejaVu Sans" !important; }
pre, code, .id, .cell, .nodechip { font-family: "DejaVu Sans Mono" !important; }
"""
CLOCKS = (
    "footer p",
    ".ended",  # so many days ago
    "section[aria-labelledby=prices] td:last-child",  # so many days ago
    ".doctor ul",
    "section[aria-labelledby=agents] td",
    "ul.tiles strong",
    "ul.tiles span",
    "main > .answer:has(~ ul.tiles)",  # of Health: how many things need mending
)


@dataclass(frozen=True)
class Compared:
    """How many pixels differ, and the picture that shows where."""

    pixels: int
    shown: Image.Image


def steady(page: Page) -> None:
    """Make a page look the same whenever and wherever its picture is taken; all that is drawn late is drawn."""
    page.evaluate(
        "css => { const s = new CSSStyleSheet(); s.replaceSync(css); document.adoptedStyleSheets = [s]; }", STEADY
    )
    page.evaluate(
        "places => document.querySelectorAll(places).forEach(each => { each.textContent = '…'; })", ", ".join(CLOCKS)
    )
    for holder in page.locator("[data-chart]").all():
        holder.scroll_into_view_if_needed()
        holder.locator(".main-svg").first.wait_for()
    page.evaluate("document.fonts.ready.then(() => scrollTo(0, 0))")
    page.mouse.move(0, 0)


def taken(page: Page) -> Image.Image:
    """Return the whole page at half its size."""
    seen = Image.open(io.BytesIO(page.screenshot(full_page=True))).convert("RGB")
    return seen.resize((seen.width // 2, seen.height // 2), Image.Resampling.BOX)


def kept(picture: Image.Image) -> Image.Image:
    """Return a picture as it is kept: with few colours."""
    return picture.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)


def keep(name: str, picture: Image.Image) -> None:
    """Write a picture over the one that was kept."""
    KEPT.mkdir(parents=True, exist_ok=True)
    kept(picture).save(KEPT / name, optimize=True)


def compared(picture: Image.Image, before: Image.Image) -> Compared:
    """Return what differs; where one is larger, all that the other does not have."""
    size = max(picture.width, before.width), max(picture.height, before.height)
    one, other = (_on(size, each) for each in (picture, before))
    apart = ImageChops.difference(one, other)
    most = ImageChops.lighter(ImageChops.lighter(*apart.split()[:2]), apart.split()[2])
    differs = most.point(lambda value: 255 if value > SHADE else 0)
    beyond = size[0] * size[1] - min(picture.width, before.width) * min(picture.height, before.height)
    return Compared(differs.histogram()[255] + beyond, differs)


def _on(size: tuple[int, int], picture: Image.Image) -> Image.Image:
    ground = Image.new("RGB", size)
    ground.paste(picture.convert("RGB"))
    return ground
