"""The answers of `recommend` and `show`, in every form that may be asked for."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from analyzer.ids import by_id
from analyzer.placement.recommendation import Recommendation
from analyzer.placement.whose import runs_of
from analyzer.report.paper import Paper
from analyzer.report.recommendation_files import LINES, lines_file, spreadsheet, table, ticket
from analyzer.report.recommendation_text import Listed, recommendation_text, recommendations_text
from analyzer.report.run import run_span

if TYPE_CHECKING:
    from analyzer.reading import Reader

FILES = ("csv", "markdown", *LINES)  # forms that are no picture of the screen


def with_runs(reader: "Reader", known: Sequence[Recommendation], typed: str) -> list[Recommendation]:
    """Return the recommendations of a period, and where none has this id what a run's own report offers under it.

    A run may lie in another week, and its report then offers what the list of this one does not have.
    """
    if any(one.id.startswith(typed) for one in known):
        return list(known)
    for run_id in runs_of(reader.session, typed):
        span = run_span(reader.session, run_id, reader.settings.timezone)
        found = reader.judges.findings(reader.session, span.start, span.end, run_id)
        own = reader.all_advice(found, span, of_run=True)
        if any(one.id.startswith(typed) for one in own):
            return [*known, *own]
    return list(known)


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
