"""The paper that text reports are written on: its width, its character set, its colours."""

import os
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO

from rich.console import Console
from rich.text import Text

from analyzer.text.words import NO_BREAK, plain

_NARROWEST, WIDEST = 60, 160
_EIGHTHS = " ▏▎▍▌▋▊▉█"
LEVELS = "▁▂▃▄▅▆▇█"
_ASCII_LEVELS = "_.:-=+*#"
_SHARE = re.compile(r"(?<=\d) (?=%)")  # where a line must not end: between a figure and its sign
_ASCII = str.maketrans({"·": "|", "…": "~", "→": ">", "≤": "<", "≥": ">", "×": "x", "–": "-", "—": "-", "€": "E"})


@dataclass(frozen=True, slots=True)
class TextLayout:
    """A page of fixed width in characters. `ascii` is for pipes: the same columns, `#` for bars."""

    width: int = 80
    ascii: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", min(WIDEST, max(_NARROWEST, self.width)))

    @property
    def extra(self) -> int:
        """Characters beyond the 80 that the reports are drawn for; negative on narrow paper."""
        return self.width - 80

    def bar(self, share: float, largest: float, cells: int) -> str:
        """Return a bar for a share, `cells` long for the largest, padded to `cells`."""
        eighths = round(8 * cells * share / largest) if largest > 0 else 0
        if self.ascii:
            return ("#" * round(eighths / 8)).ljust(cells)
        return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()).ljust(cells)

    def spark(self, shares: Sequence[float]) -> str:
        """Return one character for each share from 0 to 1."""
        levels = _ASCII_LEVELS if self.ascii else LEVELS
        return "".join(levels[min(len(levels) - 1, int(share * len(levels)))] for share in shares)

    def cut(self, text: str, width: int) -> str:
        """Return a name or title that fits, cut with a visible mark, without control characters."""
        return cut(text, width, "~" if self.ascii else "…")

    def wrap(self, text: str, indent: str = "  ", hanging: str | None = None) -> list[str]:
        """Return a paragraph as lines; `hanging` indents all but the first."""
        subsequent = indent if hanging is None else hanging
        return textwrap.wrap(
            _SHARE.sub(NO_BREAK, text),
            self.width - 2,
            initial_indent=indent,
            subsequent_indent=subsequent,
            break_on_hyphens=False,
        )

    def labelled(self, label: str, text: str, column: int = 16, indent: int = 2) -> list[str]:
        """Return "  label         text", wrapped under the text."""
        return self.wrap(text, f"{'':{indent}}{label} ".ljust(column), " " * column)

    def ends(self, left: str, right: str, hanging: int = 2) -> list[str]:
        """Return a line with a text at each end, or two lines where both do not fit; `hanging` indents the second."""
        if len(left) + len(right) + 2 > self.width - 2:
            return [left, f"{'':{hanging}}{right}"]
        return [at_ends(left, right, self.width - 2)]

    def page(self, lines: Sequence[str]) -> str:
        """Return the lines as one text; on ASCII paper with no other character."""
        text = ("\n".join(line.rstrip() for line in lines) + "\n").replace(NO_BREAK, " ")
        return text.translate(_ASCII).encode("ascii", "replace").decode() if self.ascii else text


def at_column(text: str, column: int) -> str:
    """Return a text padded with blanks up to a column."""
    return text.ljust(column)


def at_ends(left: str, right: str, width: int) -> str:
    """Return two texts at the ends of a line of this width, a blank between them at least."""
    return f"{left}{right:>{max(len(right) + 1, width - len(left))}}"


def cut(text: str, width: int, mark: str = "…") -> str:
    """Return a name or title that fits, cut with a visible mark, without control characters."""
    clean = plain(text)
    return clean if len(clean) <= width else clean[: max(0, width - 1)] + mark


_CLASS_COLOURS = {"useful": "32", "avoidable": "31", "overhead": "33", "spare": "34", "unknown": "35"}
_CLASS = re.compile(rf"  ({'|'.join(_CLASS_COLOURS)})\b(?::| {{2,}}|$)")
_BAR = re.compile(r"[█▏▎▍▌▋▊▉▁▂▃▄▅▆▇]+")
_SHADES = {"▓": "33", "░": "36"}  # of charts over time: what decides the end, and what does not
_SHADE = re.compile("|".join(f"{shade}+" for shade in _SHADES))
_HEADING = re.compile(r"^[A-Z]{2,}(?: [A-Z]{2,})*(?=$| {2,}| \()")


def has_colour() -> bool:
    """Return whether the terminal may be written to in colour and with its other codes: who uses it says so."""
    return "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def paint(text: str) -> str:
    """Return a report with ANSI colours: headings bold, bars in the colour of their class. Words say all of it too."""
    colour = "0"
    painted = []
    for line in text.split("\n"):
        named = _CLASS.match(line)
        colour = _CLASS_COLOURS[named[1]] if named else colour if line.startswith("   ") else "0"
        line = _BAR.sub(lambda bar: f"\x1b[{colour}m{bar[0]}\x1b[0m" if colour != "0" else bar[0], line)  # noqa: B023, PLW2901
        line = _SHADE.sub(lambda run: f"\x1b[{_SHADES[run[0][0]]}m{run[0]}\x1b[0m", line)  # noqa: PLW2901
        painted.append(_HEADING.sub(lambda heading: f"\x1b[1m{heading[0]}\x1b[0m", line))
    return "\n".join(painted)


_FONTS = 'ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace'


def picture(text: str, title: str, width: int = 80) -> str:
    """Return a report's text as one SVG file that loads nothing from anywhere."""
    console = Console(record=True, width=width, file=StringIO(), force_terminal=True, color_system="standard")
    console.print(Text.from_ansi(paint(text)), soft_wrap=True)
    drawn = console.export_svg(title=title)
    drawn = re.sub(r"@font-face\s*\{[^}]*\}", "", drawn)
    return re.sub(r"font-family: [^;]+;", f"font-family: {_FONTS};", drawn)
