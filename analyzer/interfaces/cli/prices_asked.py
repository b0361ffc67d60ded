"""What the commands about money read: a store with the settings beside it, or a running server."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from analyzer.errors import ConfigError
from analyzer.interfaces.cli.command import asking
from analyzer.reports.request import Request
from analyzer.settings.settings import SETTINGS_NAME


def add_money(parser: argparse.ArgumentParser) -> None:
    """Add what says where the prices and the ledger are."""
    parser.add_argument("period", nargs="?", metavar="PERIOD", help="2026-W46, 2026-11, 7d, … (default: the last week)")
    parser.add_argument("--prices", type=Path, help="the site's price file (default: the one that the settings name)")
    parser.add_argument("--config", type=Path, help=f"the settings (default: {SETTINGS_NAME} beside --store, or here)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--store", type=Path, metavar="FILE", help="the store (default: from the settings)")
    where.add_argument("--server", metavar="URL", help="ask a running server (its token: GPULEDGER_TOKEN)")
    parser.add_argument("--json", action="store_true", help="for machines: amounts are exact integers")


@contextmanager
def asking_money(options: argparse.Namespace) -> Iterator[Callable[[Request], str]]:
    """Yield what answers the requests of one of these commands, a store or a server.

    Raises:
        ConfigError: a file is missing or wrong, or the prices are in another currency than the ledger.
        LedgerError: the ledger has nothing of it, or the server does not answer.
    """
    if options.server and (options.prices or options.config):
        raise ConfigError("--prices and --config are for this machine: a server answers by its own files")
    with asking(options) as ask:
        yield ask
