"""What a ledger knows that sizes a model: kinds of GPU with prices, and past runs. A store or a server tells it."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analyzer.asking import asked_json
from analyzer.errors import LedgerError
from analyzer.sizing.kinds import Kind, Rate, kinds, read_owned
from analyzer.sizing.similar import DAY_US, LOOK_BACK_DAYS, PastRun, read_past

if TYPE_CHECKING:
    from analyzer.config import Settings
    from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class Known:
    """Kinds of GPU that may be chosen, runs of the last days, and the currency of both."""

    kinds: tuple[Kind, ...]
    runs: tuple[PastRun, ...]
    currency: str


def read_known(session: "Session", settings: "Settings", prices: Path | None = None) -> Known:
    """Return what a store knows; `prices` goes before the price file of the settings.

    Raises:
        ConfigError: the price file cannot be read.
        LedgerError: the ledger is empty.
        StoreError: the store does not answer.
    """
    from analyzer.placement.site_reading import Reading
    from analyzer.report.coverage import ledger_end

    book = replace(settings, prices=prices or settings.prices).price_book()
    end = ledger_end(session)
    peaks = Reading(session, end - LOOK_BACK_DAYS * DAY_US, end).gpu_peaks()
    chosen = kinds(book, time.time_ns() // 1000, read_owned(session))
    return Known(tuple(chosen), tuple(read_past(session, end, peaks)), book.currency)


def ask_known(server: str) -> Known:
    """Return what a running server's ledger knows.

    Raises:
        ConfigError: the address is none.
        LedgerError: the server does not answer, refuses, or speaks otherwise.
    """
    said = asked_json(server, "/v1/sizing")
    try:
        told = [_made(Kind, {**one, "rate": one["rate"] and _made(Rate, one["rate"])}) for one in said["kinds"]]
        return Known(tuple(told), tuple(_made(PastRun, one) for one in said["runs"]), str(said["currency"]))
    except (KeyError, TypeError) as error:
        raise LedgerError(f"{server} does not answer as gpuledger does: is it of another version?") from error


def _made(kind: Any, said: Mapping[str, Any]) -> Any:  # noqa: ANN401 - the kind decides
    """Return a dataclass of what a server said; what this version does not know is left."""
    return kind(**{field.name: said[field.name] for field in fields(kind)})
