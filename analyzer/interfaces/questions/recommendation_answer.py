"""The answers of `recommend` and `show`, in every form that may be asked for."""

from analyzer.ids import by_id
from analyzer.interfaces.text.recommendation_files import LINES, lines_file, spreadsheet, table, ticket
from analyzer.interfaces.text.recommendation_text import Listed, recommendation_text, recommendations_text
from analyzer.text.paper import Paper

FILES = ("csv", "markdown", *LINES)  # forms that are no picture of the screen


def list_answer(listed: Listed, form: str, paper: Paper, top: int | None) -> tuple[str, str, object]:
    """Return the title, the text (or the file) and the data of the list."""
    if form == "csv":
        text = spreadsheet(listed)
    elif form == "markdown":
        text = table(listed)
    else:
        text = recommendations_text(listed, paper, top)
    return "recommendations", text, list(listed.advice) if listed.everything else listed.standing


def one_answer(listed: Listed, subject: str | None, form: str, paper: Paper) -> tuple[str, str, object]:
    """Return the title, the text (or the file) and the data of one, whether it stands or is held back.

    Raises:
        LedgerError: the period has none of this id, or it has no lines of that form.
    """
    listing = "gpuledger recommend --all lists them; --since names another period"
    absent = f"this period has no recommendation {subject!r}: {listing}"
    one = by_id(listed.advice, subject or "", absent)
    if form in LINES:
        return one.id, lines_file(one, form), one
    if form == "markdown":
        return one.id, ticket(one, listed.currency, listed.period.timezone), one
    return one.id, recommendation_text(one, listed.currency, listed.period.timezone, paper), one
