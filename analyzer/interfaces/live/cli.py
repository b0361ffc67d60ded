"""gpuledger top: the fleet or one host, drawn again every few seconds."""

import argparse
import os
import sys
import time
from contextlib import suppress
from dataclasses import replace
from typing import get_args

from analyzer.errors import AnalyzerError
from analyzer.interfaces.cli.command import add_ledger, add_paper, asking, request_of, write
from analyzer.interfaces.live.live_view import screen, size
from analyzer.reports.request import Order, Request
from analyzer.text.layout import WIDEST, has_colour, paint
from collector.errors import CollectorError

_OK = 0
_ABOVE_LINES, _BELOW_LINES = 10, 3  # of the screen: all but the lines of holders
_EVERY_SECONDS, _LEAST_SECONDS = 10.0, 1.0
_KEYS: dict[str, Order] = {"c": "cost", "a": "avoidable", "g": "gpus", "b": "busy"}
_HELP = "q quit   c cost   a avoidable   g GPUs   b least busy   space refresh"


def top(argv: list[str]) -> int:
    """Who holds which GPUs now, what they do with them, and what it costs per hour; with --node, GPU by GPU.

    States and prices are those of the ledger's newest hour (a server books it every half minute, a large one every
    five), the driver's figures those of its last five minutes. In a pipe, or with --once, it prints once. On a GPU
    host without a server: gpuledger top agent.
    """
    parser = argparse.ArgumentParser(prog="gpuledger top", description=top.__doc__)
    parser.add_argument("--node", dest="subject", metavar="HOST", help="the GPUs of this host, one by one")
    parser.add_argument(
        "--sort", dest="order", choices=get_args(Order), default="cost", help="which lines come first (default: cost)"
    )
    parser.add_argument("--every", type=_seconds, default=_EVERY_SECONDS, metavar="S", help="seconds between refreshes")
    parser.add_argument("--once", action="store_true", help="print once and exit")
    add_paper(parser)
    add_ledger(parser, spans=False)
    options = parser.parse_args(argv)
    request = request_of("top", options)
    is_screen = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    alive = is_screen and options.format == "text" and options.out is None
    if options.once or not alive:
        write(_look(request, options), options)
        return _OK
    return _watch(request, options)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not _LEAST_SECONDS <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 1 to 3600")
    return seconds


def _look(request: Request, options: argparse.Namespace) -> str:
    with asking(options) as ask:
        return ask(request)


def _watch(request: Request, options: argparse.Namespace) -> int:
    text = _look(_fitting(request, options), options)  # what is wrong at the start is said on the plain terminal
    with screen(sys.stdin.fileno(), sys.stdout) as shown, suppress(KeyboardInterrupt):
        while True:
            shown.draw(_painted(f"{text.rstrip()}\n\n{_HELP}", request))
            key = shown.key(options.every)
            if key in ("q", ""):
                break
            request = replace(request, order=_KEYS.get(key or "", request.order))
            text = _again(_fitting(request, options), options, text)
    return _OK


def _painted(text: str, request: Request) -> str:
    return paint(text) if has_colour() and not request.ascii else text


def _fitting(request: Request, options: argparse.Namespace) -> Request:
    """Return the request for a screen as large as the window is now."""
    columns, rows = size(sys.stdout)
    room = max(1, rows - _ABOVE_LINES - _BELOW_LINES)
    return replace(request, width=options.width or min(WIDEST, columns), top=options.top or room)


def _again(request: Request, options: argparse.Namespace, before: str) -> str:
    """Look again; where that fails, keep what was seen, and say on top of it why and since when."""
    try:
        return _look(request, options)
    except (AnalyzerError, CollectorError) as error:
        body = before.partition("\n\n")[2] if before.startswith("! ") else before
        return f"! {time.strftime('%H:%M:%S')} {error}\n\n{body}"
