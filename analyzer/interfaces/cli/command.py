"""What reading commands share: where the ledger is, how an answer is written, and writing it."""

import argparse
import json
import math
import shutil
import sys
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.wire.units import MICROS
from analyzer.errors import ConfigError
from analyzer.ledger.believed import believing
from analyzer.measures.efficiency.steps import StepTime
from analyzer.reports.request import WIDTH, Request
from analyzer.server_client import ask_server
from analyzer.settings.settings import site_of
from analyzer.text.layout import has_colour, paint

if TYPE_CHECKING:
    from analyzer.reports.reader import Reader

_FORMS = ("text", "json", "html", "markdown", "svg")


class ParserOfOnce(argparse.ArgumentParser):
    """Refuses an option that is given again: argparse would take the last, and pass the others over in silence."""

    def __init__(self, **about: Any) -> None:  # noqa: ANN401 - argparse's own
        super().__init__(**about)
        self.register("action", None, _Once)
        self.register("action", "store", _Once)


class _Once(argparse._StoreAction):
    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,  # noqa: ANN401 - whatever its type makes of them
        option_string: str | None = None,
    ) -> None:
        given = vars(self).setdefault("given", [])
        if given:
            parser.error(f"{option_string} is given twice; one of them would not count")
        given.append(option_string)
        super().__call__(parser, namespace, values, option_string)


def add_paper(parser: argparse.ArgumentParser, *more: str) -> None:
    """Add the arguments that say how an answer is written; `more` are forms that the command has besides."""
    parser.add_argument(
        "--format",
        choices=(*_FORMS, *(form for form in more if form not in _FORMS)),
        default="text",
        help="html: one file for a browser; svg: a picture of the terminal; json is stable (default: text)",
    )
    parser.add_argument("--json", action="store_const", const="json", dest="format", help="short for --format json")
    parser.add_argument("--width", type=int, metavar="N", help="columns (default: the terminal's, at most 80)")
    parser.add_argument("--plain", action="store_true", help="ASCII and no color, as in a pipe")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write to this file instead")


def add_ledger(parser: argparse.ArgumentParser, *, spans: bool = True) -> None:
    """Add the arguments that say which ledger is read, and of when."""
    if spans:
        parser.add_argument("--since", metavar="WHEN", help="7d, monday, 2026-11-09, 2026-W46")
        parser.add_argument("--until", metavar="WHEN", help="the end; a day or a week is included")
    parser.add_argument("--top", type=int, metavar="N", help="maximum number of rows")
    add_place(parser)


def add_place(
    parser: argparse.ArgumentParser,
    store: str = "the store (default: from the settings)",
    server: str = "ask a running server (its token: GPULEDGER_TOKEN)",
) -> None:
    """Add the arguments that say which ledger is read; `store` and `server` are what help says of them."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--store", type=Path, metavar="FILE", help=store)
    where.add_argument("--server", metavar="URL", help=server)
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML (default: beside the store)")


def request_of(what: str, options: argparse.Namespace) -> Request:
    """Return the request that the arguments of a command make; each is called as the field of Request that it fills.

    Raises:
        ConfigError: a name is none.
    """
    given = {each.name: getattr(options, each.name, None) for each in fields(Request)}
    layout: dict[str, Any] = {"what": what, "width": width_of(options.width), "ascii": is_ascii(options)}
    request = Request(**{name: value for name, value in given.items() if value is not None} | layout)
    _ = request.part  # refused here, in the words of the command line, and not by a server
    return request


@contextmanager
def opened(options: argparse.Namespace, step_log: StepTime | None = None) -> "Iterator[Reader]":
    """Yield a reader of the store that --store and --config name, or the settings; it reads one state."""
    from analyzer.reports.reader import (
        Reader,  # all readings there are: a plan of a file alone needs none of them
    )
    from collector.store.database import open_for_command

    config, settings = site_of(options.store, options.config)
    with (
        open_for_command(config, read_only=True) as store,
        believing(store) as session,
        session.transaction(),  # of one catalogue, which each statement by itself would ask anew
    ):
        yield Reader(session, settings, step_log=step_log)


def ask(server: str, request: Request) -> str:
    """Return a server's answer to a request. Raises as ask_server() does."""
    return ask_server(server, f"/v1/read?{urllib.parse.urlencode(request.query())}")


@contextmanager
def asking(options: argparse.Namespace, step_log: StepTime | None = None) -> Iterator[Callable[[Request], str]]:
    """Yield what answers requests: the server of --server, or else the store here, as that server would.

    --prices, where a command has it, goes before the price file of the settings.

    Raises:
        ConfigError, LedgerError: of each answer, as answer() and ask_server() do.
    """
    if options.server:
        yield partial(ask, options.server)
        return
    from analyzer.interfaces.questions.registry import answer, of_request

    with opened(options, step_log) as reader:
        prices = getattr(options, "prices", None)
        whole = replace(reader, settings=replace(reader.settings, prices=prices)) if prices else reader

        def answered(request: Request) -> str:
            with of_request(whole, request) as own:
                return answer(own, request)

        yield answered


def report_of(ask: Callable[[Request], str], request: Request) -> dict[str, Any]:
    """Return the answer to a request as the figures of its JSON document, all rows of it."""
    report: dict[str, Any] = json.loads(ask(replace(request, format="json", top=None)))
    return report


def width_of(asked: int | None) -> int:
    """Return the columns of the paper: those asked for, else the terminal's, at most 80."""
    return asked if asked is not None else min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns)


def is_ascii(options: argparse.Namespace) -> bool:
    """Return whether the answer must do with ASCII: in a pipe, or on a terminal that knows no more."""
    if options.out is not None and not options.plain:
        return False
    encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
    return bool(options.plain) or not sys.stdout.isatty() or encoding != "utf8"


def write(text: str, options: argparse.Namespace) -> None:
    """Write an answer to --out, else to the terminal, in colour where it is one.

    Raises:
        ConfigError: the file cannot be written.
    """
    if options.out is not None:
        try:
            options.out.write_text(text, encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"cannot write --out {options.out}: {error.strerror}") from error
        return
    colour = options.format == "text" and not is_ascii(options) and has_colour()
    sys.stdout.write(paint(text) if colour else text)


def price_micros(text: str | None) -> int | None:
    """Return a price in millionths of a GPU-hour's price.

    Raises:
        ConfigError: it is no amount of money.
    """
    if text is None:
        return None
    try:
        price = float(text)
    except ValueError:
        price = -1.0
    if not 0 <= price < 1e6 or math.isnan(price):
        raise ConfigError(f"--price {text!r} is not a price per GPU-hour; write it as 2.60")
    return round(price * MICROS)
