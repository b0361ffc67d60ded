"""Every question there is: commands, /v1/read, its document and the benchmarks of readings follow from this list."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from analyzer.errors import ConfigError
from analyzer.interfaces.questions.finding_questions import FINDING_QUESTIONS
from analyzer.interfaces.questions.ledger_questions import FLEET_QUESTIONS, LEDGER_QUESTIONS
from analyzer.interfaces.questions.money_questions import MONEY_QUESTIONS, PRICE_QUESTIONS
from analyzer.interfaces.questions.question import Question
from analyzer.reports.filtered_reader import of_part
from analyzer.reports.reader import Reader
from analyzer.reports.request import Request

QUESTIONS: Mapping[str, Question[Any]] = {
    each.name: each
    for each in (*LEDGER_QUESTIONS, *FINDING_QUESTIONS, *MONEY_QUESTIONS, *PRICE_QUESTIONS, *FLEET_QUESTIONS)
}
OF_PART = tuple(name for name, question in QUESTIONS.items() if question.of_part)
_OF_SOME = ("csv", "slurm", "kubernetes")  # forms that only questions have which say so


def having(form: str) -> tuple[str, ...]:
    """Return the questions that have a form."""
    return tuple(name for name, question in QUESTIONS.items() if form not in _OF_SOME or form in question.forms)


def answer(reader: Reader, request: Request) -> str:
    """Return the answer as text, JSON or HTML.

    Raises:
        ConfigError: the period, the subject or the form cannot be read.
        LedgerError: the ledger has no such thing.
    """
    if request.part != reader.part.asked:
        raise AssertionError("BUG: this reader is of another part of the ledger than is asked for")
    if request.what not in (names := having(request.format)):
        raise ConfigError(f"{request.what} has no form {request.format}; these have: {', '.join(names)}")
    return QUESTIONS[request.what].answer(reader, request)


@contextmanager
def of_request(whole: Reader, request: Request, teams: tuple[str, ...] | None = None) -> Iterator[Reader]:
    """Yield a reader of the part that a request asks for, and of the teams that may be seen alone; None is all.

    Raises:
        ConfigError: this question cannot be of a part.
        LedgerError: the ledger has no such run, or none that may be seen.
    """
    part = replace(request.part, teams=teams)
    if part and request.what not in OF_PART:
        raise ConfigError(f"{request.what} is about the whole fleet; filters apply only to {', '.join(OF_PART)}")
    with of_part(whole, part) as own:
        yield own
