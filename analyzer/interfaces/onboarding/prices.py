"""Prices given on the command line become the price book that lies beside the store, so that they hold from then on.

`h100=2.60` is the price of every H100, whatever its memory; `h100-80gb=2.60` of that alone.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path

from analyzer.errors import ConfigError
from analyzer.prices.list_prices import range_of
from analyzer.prices.price_book import PriceBook
from analyzer.settings.settings import Settings
from analyzer.settings.toml_entry import written_decimal
from analyzer.text.words import dollars
from collector.config import SETTINGS_NAME

PRICES_NAME = "prices.toml"
_OURS = "# Written by gpuledger import prometheus --price; yours to edit, when this line is taken out."
_SOURCE = "--price"
_MICROS = Decimal(1_000_000)
_KIND = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ -]{0,63}")


@dataclass(frozen=True, slots=True)
class Given:
    """A price as it was given: of a kind of GPU, in millionths of a GPU-hour's price."""

    kind: str
    micros: int

    def fits(self, sku: str) -> bool:
        """Whether it is the price of GPUs of this SKU."""
        own, kind = sku.lower(), self.kind.lower()
        return own == kind or own.startswith(f"{kind}-")


@dataclass(frozen=True, slots=True)
class PriceCoverage:
    """What is known of prices here: SKUs with and without one, and given kinds that no GPU is of."""

    known: tuple[str, ...]
    unknown: tuple[str, ...]
    unused: tuple[str, ...] = ()


def given(texts: Sequence[str]) -> list[Given]:
    """Return prices from words like h100=2.60.

    Raises:
        ConfigError: a word is none, or a kind is priced twice.
    """
    found = [_given(text) for text in texts]
    kinds = [one.kind.lower() for one in found]
    if twice := next((kind for kind in kinds if kinds.count(kind) > 1), None):
        raise ConfigError(f"--price names {twice} twice; say it once")
    return found


def _given(text: str) -> Given:
    kind, found, amount = text.partition("=")
    try:
        micros = written_decimal(amount) * _MICROS
    except InvalidOperation:
        micros = Decimal(-1)
    whole = micros.is_finite() and 0 <= micros < 10**12 and micros == micros.to_integral_value()
    if not found or not _KIND.fullmatch(kind) or not whole:
        raise ConfigError(f"--price {text!r} is not a price of a kind of GPU; write it as h100=2.60")
    return Given(kind, int(micros))


def priced_skus(book: PriceBook, prices: Sequence[Given], skus: Iterable[str], at_us: int) -> PriceCoverage:
    """Return which of these SKUs have a price, by the book or as given."""
    listed = sorted(set(skus))
    known = [sku for sku in listed if any(one.fits(sku) for one in prices) or book.price(sku, None, at_us)]
    unused = [one.kind for one in prices if not any(one.fits(sku) for sku in listed)]
    return PriceCoverage(tuple(known), tuple(sku for sku in listed if sku not in known), tuple(unused))


def hint(sku: str) -> str:
    """Return what others ask for a GPU, or nothing where that is not known."""
    found = range_of(sku)
    return f" (list prices on demand: ${dollars(found[0])} to ${dollars(found[1])})" if found else ""


def keep_prices(
    directory: Path, settings: Settings, prices: Sequence[Given], skus: Iterable[str], since: int, today: date
) -> Settings:
    """Write given prices beside a store, and return settings that count by them.

    Raises:
        ConfigError: the site has a price file of its own, which must not be overruled from a command line.
    """
    if not prices:
        return settings
    path = directory / PRICES_NAME
    if settings.prices is not None and not _is_ours(settings.prices):
        raise ConfigError(f"{settings.prices} says what GPUs cost here: change it there, and leave --price out")
    if settings.prices is None and path.exists() and not _is_ours(path):
        raise ConfigError(
            f"{path} is there already: name it in {directory / SETTINGS_NAME} as prices, and leave --price out"
        )
    rows = _before(path) | {sku: one.micros for sku in skus for one in prices if one.fits(sku)}
    first = min([since, *_starts(path)])
    path.write_text(_book(rows, settings.currency, first, today), encoding="utf-8")
    _name_in_settings(directory / SETTINGS_NAME, settings)
    return replace(settings, prices=path)


def _is_ours(path: Path) -> bool:
    try:
        return path.read_text("utf-8").startswith(_OURS)
    except OSError:
        return False


def _before(path: Path) -> dict[str, int]:
    return {str(row.sku): row.micros_per_gpu_hour for row in PriceBook.read(path).rows} if path.exists() else {}


def _starts(path: Path) -> list[int]:
    return [row.starts_at for row in PriceBook.read(path).rows] if path.exists() else []


def _book(rows: Mapping[str, int], currency: str, since: int, today: date) -> str:
    first = datetime.fromtimestamp(since // 1_000_000, UTC).date()
    lines = [_OURS, f'currency = "{currency}"']
    for sku, micros in sorted(rows.items()):
        lines += [
            "",
            "[[price]]",
            f'sku = "{sku}"',
            'purchase_option = "any"',
            f"{currency.lower()}_per_gpu_hour = {Decimal(micros) / _MICROS}",
            f"from = {first.isoformat()}",
            f'source = "{_SOURCE}"',
            f"as_of = {today.isoformat()}",
        ]
    return "\n".join(lines) + "\n"


def _name_in_settings(path: Path, settings: Settings) -> None:
    """Name the book in the settings that lie beside the store; those that are there keep every line."""
    if settings.prices is not None:
        return
    line = f'prices = "{PRICES_NAME}"'
    text = path.read_text("utf-8") if path.exists() else ""
    table = re.search(r"^\[analyzer\][ \t]*(?:#.*)?$", text, re.MULTILINE)
    if table is None:
        text += ("\n" if text and not text.endswith("\n\n") else "") + f"[analyzer]\n{line}\n"
    else:
        text = f"{text[: table.end()]}\n{line}{text[table.end() :]}"
    path.write_text(text, encoding="utf-8")
