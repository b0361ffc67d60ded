"""What a ledger knows that sizes a model: kinds of GPU with prices, and past runs. A store or a server tells it."""

import time
from dataclasses import dataclass, replace
from pathlib import Path

from agent.wire.units import DAY_US
from analyzer.prices.price_book import price_book
from analyzer.server_client import ask_server_json, of_this_version, typed
from analyzer.settings.settings import Settings
from analyzer.sizing.fitting import GpuKind, kinds, read_owned
from analyzer.sizing.sized import LOOK_BACK_DAYS, PastRun, read_past
from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class SizingFacts:
    """Kinds of GPU that may be chosen, runs of the last days, and the currency of both."""

    kinds: tuple[GpuKind, ...]
    runs: tuple[PastRun, ...]
    currency: str


def read_known(session: Session, settings: Settings, prices: Path | None = None) -> SizingFacts:
    """Return what a store knows; `prices` goes before the price file of the settings.

    Raises:
        ConfigError: the price file cannot be read.
        LedgerError: the ledger is empty.
    """
    from analyzer.ledger.coverage import ledger_end
    from analyzer.recommendations.site_query import SiteQuery

    book = price_book(replace(settings, prices=prices or settings.prices))
    end = ledger_end(session)
    peaks = SiteQuery(session, end - LOOK_BACK_DAYS * DAY_US, end).gpu_peaks()
    chosen = kinds(book, time.time_ns() // 1000, read_owned(session))
    return SizingFacts(tuple(chosen), tuple(read_past(session, end, peaks)), book.currency)


def ask_known(server: str) -> SizingFacts:
    """Return what a running server's ledger knows.

    Raises:
        ConfigError: the address is none.
        LedgerError: the server does not answer, refuses, or speaks otherwise.
    """
    said = ask_server_json(server, "/v1/sizing")
    with of_this_version(server):
        chosen, runs = typed(tuple[GpuKind, ...], said["kinds"]), typed(tuple[PastRun, ...], said["runs"])
        return SizingFacts(chosen, runs, str(said["currency"]))
