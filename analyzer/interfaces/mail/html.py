"""The e-mail as HTML: tables with inline styles, no script, nothing fetched from elsewhere, every name escaped."""

import re
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from analyzer.interfaces.mail.charts import COLOURS, chart_size
from analyzer.interfaces.mail.content import Content, Footer

_ID = re.compile(r"\b[rf]-[a-z0-9]{4,5}\b")
_TEMPLATES = Path(__file__).parent / "templates"


@lru_cache(maxsize=1)
def _environment() -> Environment:
    """Return the template environment; everything is escaped, and no template says otherwise."""
    found = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["whole_ids"] = whole_ids
    found.filters["hex"] = lambda klass: "#{:02x}{:02x}{:02x}".format(*COLOURS[klass])
    return found


def whole_ids(text: str) -> Markup:
    """Return a text, escaped, whose ids of findings and recommendations no line break tears apart."""
    return Markup(_ID.sub(r'<span style="white-space:nowrap;">\g<0></span>', str(escape(text))))  # noqa: S704 - escaped


def mail_html(content: Content, footer: Footer, chart_id: str | None) -> str:
    """Return the HTML part; `chart_id` is the picture's Content-ID, None where there is none.

    Links that are none of http and https are left out: a mail carries no other.
    """
    width, height = chart_size(content)
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
