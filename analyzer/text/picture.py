"""A text report as a picture for documents: SVG as rich draws a terminal, without the web fonts it would link."""

import re
from io import StringIO

from rich.console import Console
from rich.text import Text

from analyzer.text.layout import paint

_FONTS = 'ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace'


def picture(text: str, title: str, width: int = 80) -> str:
    """Return a report's text as one SVG file that loads nothing from anywhere."""
    console = Console(record=True, width=width, file=StringIO(), force_terminal=True, color_system="standard")
    console.print(Text.from_ansi(paint(text)), soft_wrap=True)
    drawn = console.export_svg(title=title)
    drawn = re.sub(r"@font-face\s*\{[^}]*\}", "", drawn)
    return re.sub(r"font-family: [^;]+;", f"font-family: {_FONTS};", drawn)
