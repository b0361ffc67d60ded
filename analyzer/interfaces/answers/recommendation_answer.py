"""The answers of `recommend` and `show`, in every form that may be asked for."""

from typing import TYPE_CHECKING

from analyzer.ids import TYPED_LEAST, by_id
from analyzer.interfaces.text.recommendation_files import LINES, lines_file, spreadsheet, table, ticket
from analyzer.interfaces.text.recommendation_text import Listed, recommendation_text, recommendations_text
from analyzer.period import ALARMS_PERIOD
from analyzer.recommendations.lifecycle.kept import predictions
from analyzer.recommendations.lifecycle.say import Offer
from analyzer.recommendations.whose import runs_of
from analyzer.reports.run import run_span
from analyzer.text.paper import Paper

if TYPE_CHECKING:
    from collections.abc import Iterator

    from analyzer.interfaces.answers.reading import Reader
    from analyzer.period import Period

WEEKS_MOST = 4  # that are read to find one; of more, --since names the one
FILES = ("csv", "markdown", *LINES)  # forms that are no picture of the screen


def offered(reader: "Reader", typed: str, period: "Period") -> Offer:
    """Return the reading that offers a recommendation under this id, of whatever report or message it was read.

    That is the period's, else that of one of its runs, of a week in which one ran, of the book's newest prediction of
    it, of the days of which alarms tell, or of one of the ledger's last weeks: of hosts without a run nothing else says
    when. It is the period's where none does. Held back ones are known as well.
    """
    asked = of_period(reader, period)
    if asked.has(typed) or len(typed.partition("-")[2]) < TYPED_LEAST:
        return asked
    return next((one for one in _elsewhere(reader, typed) if one.has(typed)), asked)


def of_period(reader: "Reader", period: "Period") -> Offer:
    """Return what is recommended of a period."""
    found = reader.findings(period)
    made = reader.once(("offered", period.start, period.end), lambda: reader.all_advice(found, period))
    return Offer(made, found, period)


def _elsewhere(reader: "Reader", typed: str) -> "Iterator[Offer]":
    runs = list(runs_of(reader.session, typed))
    spans = [run_span(reader.session, run_id, reader.settings.timezone) for run_id in runs]
    for run_id, span in zip(runs, spans, strict=True):
        found = reader.judges.findings(reader.session, span.start, span.end, run_id)
        yield Offer(reader.all_advice(found, span, of_run=True), found, span)
    weeks = [reader.calendar.week_of(span.end - 1) for span in spans]
    kept = (one for one in predictions(reader.session) if one.recommendation_id.startswith(typed))
    weeks += [reader.calendar.week_of(one.span.start) for one in kept]
    known = {(week.start, week.end): week for week in weeks}
    for start in sorted(known, reverse=True)[:WEEKS_MOST]:
        yield of_period(reader, known[start])
    days = reader.period(ALARMS_PERIOD)
    yield Offer(reader.all_advice(reader.findings(days), days, of_run=True), reader.findings(days), days)
    first, last = reader.session.row("SELECT min(hour), max(hour) FROM ledger_hours")
    week = None if last is None else reader.calendar.week_of(last)
    for _ in range(WEEKS_MOST):
        if week is None or week.end <= first:
            return
        if (week.start, week.end) not in known:
            yield of_period(reader, week)
        week = reader.calendar.before(week)


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
