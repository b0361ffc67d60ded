"""What a page says, as its reader reads it: its tables by name, each with the sheet beside it, and its other words."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"br", "hr", "img", "input", "link", "meta"}
LEADING = ("href", "data-part", "data-live", "data-address")
LIVE = ("doctor", "ended")  # the classes of what is told of this moment: bytes that are free, how long ago
SPOKEN = ("title", "aria-label")  # attributes that hold words and figures of their own
CELLS, SILENT = ("td", "th"), ("script", "style")


@dataclass
class Table:
    """A table under the name by which a screen reader knows it; `sheet` is the address of the CSV named above it."""

    name: str
    rows: list[list[str]] = field(default_factory=list)
    sheet: str | None = None

    @property
    def head(self) -> list[str]:
        """Return the names of the columns."""
        return self.rows[0] if self.rows else []


@dataclass
class Page:
    """A page: its tables, the rest of its words, a line an element; its addresses, and what its footer names."""

    tables: list[Table] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)
    sheets: list[str] = field(default_factory=list)
    footer: list[str] = field(default_factory=list)
    live: list[str] = field(default_factory=list)


class _Reading(HTMLParser):
    """Reads a page's elements in their order."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.page = Page()
        self._open: list[tuple[str, dict[str, str]]] = []
        self._around: list[frozenset[str]] = [frozenset()]  # tags and classes of all that is open, by depth
        self._sheet: str | None = None
        self._is_after_name = False  # a name is a part of the line that it stands in

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.page.addresses += [given[name] for name in LEADING if given.get(name, "").startswith("/")]
        if tag == "a" and re.search(r"\.csv(\?|$)|format=csv", given.get("href", "")):
            self.page.sheets.append(given["href"])
            self._sheet = given["href"]
        if tag in ("h2", "h3") and not self._within("head"):
            self._sheet = None  # a sheet is of what stands below it, until the next heading
        self._in_table(tag)
        if not self._within("svg"):
            for name in SPOKEN:
                self._say(given.get(name, ""))
        if tag not in VOID:
            self._open.append((tag, given))
            self._around.append(self._around[-1] | {tag, *given.get("class", "").split()})

    def _in_table(self, tag: str) -> None:
        if tag == "table":
            self.page.tables.append(Table(self._name(), sheet=self._sheet))
        elif tag == "tr" and self.page.tables:
            self.page.tables[-1].rows.append([])
        elif tag in CELLS and self.page.tables:
            self.page.tables[-1].rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in [name for name, _ in self._open]:
            while self._open.pop()[0] != tag:
                self._around.pop()
            self._around.pop()

    def handle_data(self, data: str) -> None:
        if not any(tag in SILENT for tag, _ in self._open):
            self._say(data)

    def _say(self, data: str) -> None:
        if not (text := " ".join(data.replace("\u00a0", " ").split())):
            return
        cell = next((tag for tag, _ in reversed(self._open) if tag in CELLS), None)
        if self._within("footer"):
            self.page.footer.append(text)
        elif any(map(self._within, LIVE)):
            self.page.live.append(text)
        elif self._within("svg"):
            return  # a picture: its numbers are in a table beside it, its bars in the cells of theirs
        elif cell and self.page.tables:
            row = self.page.tables[-1].rows[-1]
            row[-1] = f"{row[-1]}{'' if self._is_after_name and text[0] in ':,' else ' '}{text}".strip()
        elif self._is_after_name and text[0] in ":,":
            self.page.words[-1] += text
        else:
            self.page.words.append(text)
        self._is_after_name = self._within("bdi")

    def _within(self, what: str) -> bool:
        return what in self._around[-1]

    def _name(self) -> str:
        for _, given in reversed(self._open):
            if name := given.get("aria-labelledby") or given.get("aria-label"):
                return name
        return ""


def read_page(text: str) -> Page:
    """Return what a page says."""
    reading = _Reading()
    reading.feed(text)
    return reading.page
