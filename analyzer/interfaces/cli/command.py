"""What reading commands share: where the ledger is, how an answer is written, and writing it."""

import argparse
import os
import shutil
import sys
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from analyzer.asking import asked
from analyzer.errors import ConfigError
from analyzer.ledger.believed import believing
from analyzer.measures.efficiency.steps import StepTime
from analyzer.reports.part import FILTERS, Part
from analyzer.reports.request import Request
from analyzer.settings.settings import Settings, settings_file
from analyzer.text.paper import has_colour, paint
from collector.config import load

if TYPE_CHECKING:
    from analyzer.reports.reader import Reader

_COLUMNS = 80


def add_paper(parser: argparse.ArgumentParser, *more: str) -> None:
    """Add the arguments that say how an answer is written; `more` are forms of this command alone."""
    parser.add_argument(
        "--format",
        choices=("text", "json", "html", "markdown", "svg", *more),
        default="text",
        help="html: one file for a browser; svg: a picture of the terminal; json is stable (default: text)",
    )
    parser.add_argument("--json", action="store_const", const="json", dest="format", help="short for --format json")
    parser.add_argument("--width", type=int, metavar="N", help="columns (default: the terminal's, at most 80)")
    parser.add_argument("--plain", action="store_true", help="ASCII and no colour, as in a pipe")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write to this file instead")


def add_ledger(parser: argparse.ArgumentParser, *, spans: bool = True) -> None:
    """Add the arguments that say which ledger is read, and of when."""
    if spans:
        parser.add_argument("--since", metavar="WHEN", help="7d, monday, 2026-11-09, 2026-W46")
        parser.add_argument("--until", metavar="WHEN", help="the end; a day or a week is included")
    parser.add_argument("--top", type=int, metavar="N", help="at most so many rows")
    add_place(parser)


def add_part(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say of which runs an answer is."""
    part = parser.add_argument_group("of which runs", "all that are given must fit; without any it is the whole fleet")
    for name in FILTERS:
        part.add_argument(f"--{name}", metavar="NAME", help=f"of this {name} alone")


def part_of(options: argparse.Namespace) -> Part:
    """Return of which runs an answer is to be; of all where a command has no such arguments.

    Raises:
        ConfigError: a name is none.
    """
    return Part(**{name: getattr(options, name, None) for name in FILTERS})


def add_place(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say which ledger is read."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--store", type=Path, metavar="FILE", help="the store (default: from the settings)")
    where.add_argument("--server", metavar="URL", help="ask a running server (its token: GPULEDGER_TOKEN)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML (default: beside the store)")


@contextmanager
def opened(options: argparse.Namespace, step_log: StepTime | None = None) -> "Iterator[Reader]":
    """Yield a reader of the store that --store and --config name, or the settings."""
    from analyzer.reports.reader import (
        Reader,  # all readings there are: a plan of a file alone needs none of them
    )
    from collector.store.database import Store

    path = options.store or load(options.config, os.environ).store
    settings = Settings.read(settings_file(path, options.config))
    with Store.open(path, read_only=True) as store, believing(store) as session:
        yield Reader(session, settings, step_log=step_log)


def ask(server: str, request: Request) -> str:
    """Return a server's answer to a request.

    Raises:
        ConfigError, LedgerError: as asked() does.
    """
    return asked(server, f"/v1/read?{urllib.parse.urlencode(request.query())}")


def width_of(asked: int | None) -> int:
    """Return the columns of the paper: those asked for, else the terminal's, at most 80."""
    return asked if asked is not None else min(_COLUMNS, shutil.get_terminal_size((_COLUMNS, 24)).columns)


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
