"""A text report in the other forms that may be asked for."""

from analyzer.report.html import text_html
from analyzer.report.picture import picture


def formatted(text: str, form: str, title: str) -> str:
    """Return a text report as it is, as one HTML document, as a picture of a terminal, or fenced for Markdown."""
    if form == "html":
        return text_html(title, text)
    if form == "svg":
        return picture(text, title)
    return f"```text\n{text}```\n" if form == "markdown" else text
