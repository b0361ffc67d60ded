"""What one weekly e-mail says: figures already rounded and words already chosen. Text, HTML and picture print it.

The HTML is tables with inline styles: no script, nothing fetched from elsewhere, every name escaped.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from jinja2 import Environment
from markupsafe import Markup, escape

from analyzer.text.templating import environment_of, palette

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont, ImageFont


@dataclass(frozen=True, slots=True)
class Headline:
    """One of the three figures at the top: its value, what it is, how it moved since the week before, and a median."""

    value: str
    name: str
    change: str
    usual: str = ""


@dataclass(frozen=True, slots=True)
class WentLine:
    """One line of "where it went". `klass` is empty where the line above named it; `share` is for bars, 0 to 1."""

    klass: str
    label: str
    amount: str
    percent: str
    share: float
    is_total: bool = False


@dataclass(frozen=True, slots=True)
class Action:
    """One recommendation: owner, what, the lines to paste, what it stands on, what it saves a week (P50)."""

    id: str
    owner: str
    title: str
    how: tuple[str, ...]
    evidence: str
    saves: str
    link: str | None


@dataclass(frozen=True, slots=True)
class Actions:
    """The top recommendations, with its head, its sum and what the bill will show of it."""

    head: str
    unit: str
    rows: tuple[Action, ...]
    together: str
    bill: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose first column is a name and whose others are figures; the last row is the total."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Section:
    """A titled part of the mail: a table, paragraphs, or both. One without either is left out whole."""

    title: str
    paragraphs: tuple[str, ...] = ()
    table: Table | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing."""
        return not self.paragraphs and (self.table is None or not self.table.rows)


@dataclass(frozen=True, slots=True)
class Month:
    """How a team stands in the month: spent so far and likely by its end (None: not known), in millionths.

    `is_part` says that some of its GPU time has no price and is in neither.
    """

    so_far_micros: int | None
    month_end_micros: int | None
    is_over: bool = False
    is_part: bool = False


@dataclass(frozen=True, slots=True)
class Extras:
    """What other parts of the ledger add to a week; each is left out whole while nobody gives it.

    `months` are the rows of the fleet's teams by team and whether it was held, `of_months` what is to be said of them;
    `month` is the one of a team's own mail.
    `corrections` are those of earlier weeks; `invoice` says how the prices compare with the invoice.
    """

    months: Mapping[tuple[str | None, bool], Month] = field(default_factory=dict)
    of_months: tuple[str, ...] = ()
    month: Section | None = None
    anomalies: Section | None = None
    requests: Section | None = None
    corrections: tuple[str, ...] = ()
    energy: Section | None = None
    least_free: int = 0  # GPUs that nobody held in any hour
    invoice: str | None = None


@dataclass(frozen=True, slots=True)
class ClassShare:
    """One class of the picture: its share of all, 0 to 1, and the percentage that the report prints."""

    name: str
    share: float
    percent: str


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file of the mail: its name, and its text as CSV."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Footer:
    """Why somebody gets the mail, and how to stop it. `stop_url` is None where no server answers it."""

    why: str
    stop_url: str | None
    stop_address: str | None


@dataclass(frozen=True, slots=True)
class Content:
    """One e-mail's words. `team` is None for the whole fleet's."""

    subject: str
    title: str
    team: str | None
    period: str
    cluster: str | None
    figures: tuple[Headline, Headline, Headline]
    answer: str
    went_head: str
    went: tuple[WentLine, ...]
    classes: tuple[ClassShare, ...]
    actions: Actions | None
    sections: tuple[Section, ...]
    page: str | None
    is_all_clear: bool
    files: tuple[Attachment, ...] = ()
    site_url: str | None = None  # where the pages are; without it nothing is linked

    @property
    def chart_text(self) -> str:
        """The picture in words, for who does not see it."""
        return "Breakdown: " + ", ".join(f"{one.name} {one.percent}%" for one in self.classes)

    @property
    def files_text(self) -> str:
        """What is attached, in a line; empty where nothing is."""
        return f"Attached: {', '.join(each.name for each in self.files)}" if self.files else ""


SCALE = 2
WIDTH = 480  # as it is shown, in CSS pixels; wide phones show it whole
_MARGIN, _BAR, _ROW, _GAP = 16, 34, 26, 10
_FONT = 15
_PAPER, _INK, _FAINT = (255, 255, 255), (32, 36, 40), (96, 102, 110)
_BARS_MOST = 12


def _chart_size(content: Content) -> tuple[int, int]:
    """Return how large the picture is shown, in CSS pixels."""
    bars = len(_avoidable(content))
    legend = len(content.classes) * _ROW
    return WIDTH, _MARGIN * 2 + _BAR + _GAP + legend + (_GAP + _ROW + bars * _ROW if bars else 0)


def chart(content: Content) -> bytes | None:
    """Return the picture as PNG; None where there is nothing to draw."""
    classes = content.classes
    if not classes:
        return None
    from PIL import Image, ImageDraw, ImageFont

    width, height = (SCALE * side for side in _chart_size(content))
    image = Image.new("RGB", (width, height), _PAPER)
    pen = ImageDraw.Draw(image)
    font = ImageFont.load_default(_FONT * SCALE)  # comes with Pillow: the same letters on every host
    below = _stacked(pen, classes)
    below = _legend(pen, font, classes, below)
    _bars(pen, font, _avoidable(content), below)
    written = BytesIO()
    image.quantize(64).save(written, "PNG", optimize=True)
    return written.getvalue()


def _avoidable(content: Content) -> list[WentLine]:
    found, klass = [], ""
    for line in content.went:
        klass = line.klass or klass
        if klass == "avoidable":
            found.append(line)
    return found[:_BARS_MOST]


def _stacked(pen: "ImageDraw", classes: tuple[ClassShare, ...]) -> int:
    left, right, top = _MARGIN * SCALE, (WIDTH - _MARGIN) * SCALE, _MARGIN * SCALE
    whole = sum(one.share for one in classes) or 1.0
    at = float(left)
    for one in classes:
        until = at + (right - left) * one.share / whole
        pen.rectangle(
            (round(at), top, max(round(at), round(until) - SCALE), top + _BAR * SCALE), fill=palette()[one.name]
        )
        at = until
    return top + (_BAR + _GAP) * SCALE


def _legend(pen: "ImageDraw", font: "FreeTypeFont | ImageFont", classes: tuple[ClassShare, ...], top: int) -> int:
    for one in classes:
        side = 14 * SCALE
        pen.rectangle(
            (_MARGIN * SCALE, top + 5 * SCALE, _MARGIN * SCALE + side, top + 5 * SCALE + side), palette()[one.name]
        )
        pen.text(((_MARGIN + 22) * SCALE, top + 3 * SCALE), one.name, _INK, font)
        pen.text(((WIDTH - _MARGIN) * SCALE, top + 3 * SCALE), f"{one.percent}%", _INK, font, anchor="ra")
        top += _ROW * SCALE
    return top


def _bars(pen: "ImageDraw", font: "FreeTypeFont | ImageFont", lines: list[WentLine], top: int) -> None:
    if not lines:
        return
    top += _GAP * SCALE
    pen.text((_MARGIN * SCALE, top), "avoidable, by cause", _FAINT, font)
    top += _ROW * SCALE
    largest = max(line.share for line in lines) or 1.0
    first, room = 170, WIDTH - 2 * _MARGIN - 170 - 80
    for line in lines:
        pen.text((_MARGIN * SCALE, top + 2 * SCALE), line.label, _INK, font)
        left = (_MARGIN + first) * SCALE
        long = max(SCALE, round(room * SCALE * line.share / largest))
        pen.rectangle((left, top + 5 * SCALE, left + long, top + 19 * SCALE), palette()["avoidable"])
        pen.text(((WIDTH - _MARGIN) * SCALE, top + 2 * SCALE), line.amount, _INK, font, anchor="ra")
        top += _ROW * SCALE


_ID = re.compile(r"\b[rf]-[a-z0-9]{4,5}\b")
_TEMPLATES = Path(__file__).parent / "templates"


@lru_cache(maxsize=1)
def _environment() -> Environment:
    found = environment_of(_TEMPLATES)
    found.filters["whole_ids"] = whole_ids
    found.filters["hex"] = lambda klass: palette()[klass]  # of a class, as on pages
    return found


def whole_ids(text: str, site_url: str | None = None, period: str = "") -> Markup:
    """Return a text, escaped, whose ids of findings and recommendations are links, and torn apart by no line break.

    Without an address of http or https, where the pages are, they are words.
    """
    if not _is_link(site_url):
        kept = _ID.sub(r'<span style="white-space:nowrap;">\g<0></span>', str(escape(text)))
        return Markup(kept)  # noqa: S704 - escaped

    def link(found: re.Match[str]) -> str:
        page = (
            f"findings/{found[0]}?week={period}" if found[0][0] == "f" else f"recommendations?week={period}#{found[0]}"
        )
        address = escape(f"{site_url}/{page}")
        return f'<a class="link" href="{address}" style="color:#1a5fb4;white-space:nowrap;">{found[0]}</a>'

    return Markup(_ID.sub(link, str(escape(text))))  # noqa: S704 - escaped


def mail_html(content: Content, footer: Footer, chart_id: str | None) -> str:
    """Return the HTML part; `chart_id` is the picture's Content-ID, None where there is none.

    Links that are none of http and https are left out: a mail carries no other.
    """
    width, height = _chart_size(content)
    return (
        _environment()
        .get_template("mail.html")
        .render(
            content=content,
            footer=footer,
            chart_id=chart_id,
            chart_width=width,
            chart_height=height,
            is_link=_is_link,
            class_of=_classes(content),
        )
    )


def _is_link(url: str | None) -> bool:
    return url is not None and urlsplit(url).scheme in ("http", "https")


def _classes(content: Content) -> list[str]:
    """Return the class of each line, also where it is not printed again."""
    found, klass = [], ""
    for line in content.went:
        klass = line.klass or klass
        found.append(klass)
    return found
