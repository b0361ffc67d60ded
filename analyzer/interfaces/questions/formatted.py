"""A text report in the other forms that may be asked for."""


def formatted(text: str, form: str, title: str) -> str:
    """Return a text report as it is, as one HTML document, as a picture of a terminal, or fenced for Markdown."""
    if form == "html":
        from analyzer.interfaces.html.html import (
            text_html,  # half a second of templates and charts, for one form of four
        )

        return text_html(title, text)
    if form == "svg":
        from analyzer.text.layout import picture

        return picture(text, title)
    return f"```text\n{text}```\n" if form == "markdown" else text
