"""The rates of what costs besides GPUs: as files say now, and as they were when hours closed for finance."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING

from agent.wire.units import HOUR_US
from analyzer.measures.traffic.tariff import TariffBook, tariff_book
from analyzer.period import Period, local
from analyzer.prices.non_gpu_rows import NonGpuPrices
from analyzer.prices.price_book import PriceBook, price_book
from analyzer.settings.settings import Settings
from collector.store.session import Session

if TYPE_CHECKING:
    from pydantic import TypeAdapter


@dataclass(frozen=True, slots=True)
class Rates:
    """The rows of the price file that are no GPU's price or charge, and the tariffs of traffic."""

    beside: NonGpuPrices
    tariffs: TariffBook

    @property
    def content(self) -> str:
        """All of it, as JSON."""
        return _adapter().dump_json(self).decode()

    @property
    def version(self) -> str:
        """A digest of the content; empty where there is no row and no tariffs file."""
        if not self.beside.rows and self.tariffs == TariffBook():
            return ""
        return hashlib.sha256(self.content.encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Hours of a period that one version of the rates is for; `closed`: they are those of then, whatever files say."""

    period: Period
    rates: Rates
    closed: bool


@cache
def _adapter() -> "TypeAdapter[Rates]":
    from pydantic import TypeAdapter

    return TypeAdapter(Rates)


def stretches(session: Session, period: Period, now: Rates) -> list[Stretch]:
    """Return a period cut where its rates change: of closed hours those that they closed with, of all others `now`.

    Hours that the ledger does not have are closed with the others of their month.
    """
    asked: dict[str, object] = {"start": period.start, "end": period.end}
    rows = session.rows(
        "SELECT hour, rates_version FROM ledger_hours LEFT JOIN closed_hours USING (hour) "
        "WHERE hour >= $start AND hour < $end",
        asked,
    )
    versions = _of_all_hours(dict(rows), period)
    known = {
        version: _adapter().validate_json(content)
        for version, content in session.rows(
            "SELECT rates_version, content FROM closed_rates WHERE list_contains($versions::VARCHAR[], rates_version)",
            {"versions": sorted({version for version in versions if version is not None})},
        )
    }
    found, at = [], period.start
    for version, hours in groupby(versions):
        span = replace(period, start=at, end=at + HOUR_US * len(list(hours)))
        rates = None if version is None else known.get(version)
        found.append(Stretch(span, rates or now, rates is not None))
        at = span.end
    return found


def _of_all_hours(versions: Mapping[int, str | None], period: Period) -> list[str | None]:
    """Return of each hour of a period its version; of one without a ledger the next one's of its month, or the last."""
    found = [versions.get(hour) for hour in range(period.start, period.end, HOUR_US)]
    if any(version is not None for version in found):
        months = [f"{local(hour, period.timezone):%Y-%m}" for hour in range(period.start, period.end, HOUR_US)]
        missing = [hour not in versions for hour in range(period.start, period.end, HOUR_US)]
        for places in (range(len(found) - 2, -1, -1), range(1, len(found))):
            step = places.step
            for at in places:
                if missing[at] and found[at] is None and months[at] == months[at - step]:
                    found[at] = found[at - step]
    return found


def close_rates(session: Session, rates: Rates) -> None:
    """Keep the content of the rates by which hours close, once."""
    if not session.rows("SELECT 1 FROM closed_rates WHERE rates_version = ?", [rates.version]):
        session.load("closed_rates", ("rates_version", "content"), [(rates.version, rates.content)])


def non_gpu_rates(settings: Settings, prices: PriceBook | None = None) -> Rates:
    """Read what costs besides GPUs by a site's settings; `prices` is the price book, where it is read already.

    Raises:
        ConfigError: a file cannot be read.
    """
    return Rates((price_book(settings) if prices is None else prices).beside, tariff_book(settings))
