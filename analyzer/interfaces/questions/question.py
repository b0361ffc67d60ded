"""One question to a ledger: how it is read, how it is written, and what its command takes. registry.py has all."""

from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from analyzer.period import Period
from analyzer.reports.reader import Reader
from analyzer.reports.request import FILTERS, Request
from analyzer.settings.settings import Settings
from analyzer.text.as_json import as_json
from analyzer.text.layout import TextLayout


def formatted(text: str, form: str, title: str) -> str:
    """Return a text report as it is, as one HTML document, as a picture of a terminal, or fenced for Markdown."""
    if form == "html":
        from analyzer.interfaces.html import text_html  # 0.5 s of templates and charts, for one form of four

        return text_html(title, text)
    if form == "svg":
        from analyzer.text.layout import picture

        return picture(text, title)
    return f"```text\n{text}```\n" if form == "markdown" else text


A = TypeVar("A")
Arguments = Callable[[ArgumentParser], object]  # adds one argument of a command, or some that belong together


@dataclass(frozen=True, slots=True)
class Question(Generic[A]):
    """What `what=NAME` of /v1/read asks, and the command of this name. Pages and mails call `read` alone.

    `read` raises ConfigError where what is asked cannot be read, and LedgerError where the ledger has no such thing.
    """

    name: str
    read: Callable[[Reader, Request], A]
    title: Callable[[A], str]
    text: Callable[[A, Request, TextLayout], str]
    data: Callable[[A], object] = lambda found: found  # as the JSON document has it
    # Forms that are no picture of the text: each is a document of its own.
    forms: Mapping[str, Callable[[A, Request], str]] = field(default_factory=dict)
    of_part: bool = False  # whether it can be asked of some runs alone
    about: str = ""  # of its command, where that takes no more than is said here
    arguments: Sequence[Arguments] = ()
    is_dated: bool = True  # whether its command takes --since and --until
    check: "Check | None" = None

    def answer(self, reader: Reader, request: Request) -> str:
        """Return what the ledger says, in the form that is asked for. Raises as `read` does."""
        found = self.read(reader, request)
        if request.format == "json":
            return as_json(self.name, self.data(found), head_of(reader.settings, getattr(found, "period", None)))
        if (form := self.forms.get(request.format)) is not None:
            return form(found, request)
        text = self.text(found, request, TextLayout(request.width, request.ascii))
        return formatted(text, request.format, self.title(found))


@dataclass(frozen=True, slots=True)
class Check:
    """What --check of a command looks at: the names to be alarmed about in the document, and the words for them."""

    alarms: Callable[[Mapping[str, Any]], Sequence[str]]
    words: Callable[[Sequence[str]], str]


def head_of(settings: Settings, period: Period | None = None) -> Mapping[str, object]:
    """Return what every JSON answer says first: in which currency and time zone, and of which period; None is none."""
    return {"currency": settings.currency, "timezone": settings.timezone, "period": period}


def argument(*names: str, **options: object) -> Arguments:
    """Return what adds one argument, as argparse takes it; its `dest` is a field of Request, or the command's own."""
    return partial(_add, names, options)


def _add(names: tuple[str, ...], options: Mapping[str, Any], parser: ArgumentParser) -> None:
    parser.add_argument(*names, **options)


def add_part(parser: ArgumentParser) -> None:
    """Add the arguments that say of which runs an answer is."""
    part = parser.add_argument_group("of which runs", "all given filters must match; without any, the whole fleet")
    for name in FILTERS:
        part.add_argument(f"--{name}", metavar="NAME", help=f"only this {name}")


PERIOD = argument("period", nargs="?", metavar="PERIOD", help="2026-W46, 7d, monday, 2026-11-09, …")
