"""What the commands about money read: a store, the settings beside it, and the price file that these name."""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from analyzer.config import BESIDE, Settings
from analyzer.pricing.book import PriceBook

if TYPE_CHECKING:
    from analyzer.reading import Reader


@dataclass(frozen=True, slots=True)
class Asked:
    """An open store's reader, and the site's prices."""

    reader: "Reader"
    book: PriceBook

    @property
    def settings(self) -> Settings:
        """The site's settings."""
        return self.reader.settings


def add_money(parser: argparse.ArgumentParser) -> None:
    """Add what says where the prices and the ledger are."""
    parser.add_argument("period", nargs="?", metavar="PERIOD", help="2026-W46, 2026-11-09, 7d (default: the last week)")
    parser.add_argument("--prices", type=Path, help="the site's price file (default: the one that the settings name)")
    parser.add_argument("--config", type=Path, help=f"the settings (default: {BESIDE} beside --store, or here)")
    parser.add_argument("--store", type=Path, metavar="FILE", help="the store (default: from the settings)")
    parser.add_argument("--json", action="store_true", help="for machines: amounts are exact integers")


@contextmanager
def asked(options: argparse.Namespace) -> Iterator[Asked]:
    """Open what the options name.

    Raises:
        ConfigError: a file is missing or wrong, or the prices are in another currency than the ledger.
    """
    from analyzer.reading import Reader
    from collector.config import load
    from collector.store.database import Store

    path = options.store or load(options.config, os.environ).store
    settings = Settings.read(options.config) if options.config else Settings.beside(path)
    settings = replace(settings, prices=options.prices) if options.prices else settings
    book = settings.price_book()
    with Store.open(path, read_only=True) as store, store.session() as session:
        yield Asked(Reader(session, settings), book)
