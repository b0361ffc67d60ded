"""Each question is declared once, and all that asks it follows from that: the commands, /v1/read, and its document."""

from importlib import import_module
from pathlib import Path

import pytest

import analyzer.interfaces.questions as room
from analyzer.errors import ConfigError
from analyzer.interfaces.cli import report
from analyzer.interfaces.questions.question import Question
from analyzer.interfaces.questions.registry import QUESTIONS, answer
from analyzer.reports.reader import Reader
from analyzer.reports.request import Request
from analyzer.settings.settings import Settings
from collector.store.database import Store


def test_what_is_declared_is_in_the_registry() -> None:
    """One that is not could be asked by nobody, and nothing else would say so."""
    modules = [import_module(f"{room.__name__}.{file.stem}") for file in Path(room.__path__[0]).glob("*_questions.py")]
    declared = [each for module in modules for each in vars(module).values() if isinstance(each, Question)]
    assert {each.name for each in declared} == set(QUESTIONS)
    assert len(QUESTIONS) == 24


@pytest.mark.parametrize(
    ("what", "form", "words"),
    [
        ("week", "csv", "week has no form csv; these have: recommend, charges"),
        ("recommend", "slurm", "recommend has no form slurm; these have: show"),
        ("run", "kubernetes", "run has no form kubernetes; these have: show"),
    ],
)
def test_a_form_that_a_question_has_not_is_refused(what: str, form: str, words: str) -> None:
    """It would be answered with a picture of the text, in a file that is called otherwise."""
    with Store.open(None) as store, store.session() as session, pytest.raises(ConfigError, match=words):
        answer(Reader(session, Settings()), Request(what, format=form))  # type: ignore[arg-type]  # as typed


@pytest.mark.parametrize(
    ("command", "what"),
    [
        ("findings", "findings"),
        ("findings_explain", "explain"),
        ("recommendations_show", "show"),
        ("savings", "savings"),
        ("budgets", "budgets"),
        ("recommendations", "recommend"),
        ("report", "week"),
        ("runs", "runs"),
    ],
)
def test_a_command_takes_what_its_question_says(command: str, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` is made from the registry, so that no argument is there that the question does not read."""
    with pytest.raises(SystemExit):
        getattr(report, command)(["--help"])
    told = capsys.readouterr().out
    question = QUESTIONS[what]
    assert question.about.split(";")[0].split(".")[0].casefold()[:40] in " ".join(told.split()).casefold()
    assert ("--since" in told) is question.is_dated
