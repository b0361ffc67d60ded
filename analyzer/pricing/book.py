"""The price book: what a GPU-hour costs here, at a time. No price is ever guessed: what is not known is None.

A price belongs to the GPU, not to who holds it: otherwise the parts of an hour would not sum to the price of the hour.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

from analyzer.pricing.site import PriceRow, priced, read_price_file


@dataclass(frozen=True, slots=True)
class Price:
    """What one GPU-hour costs, who says so, as of when, and by which version of the book."""

    micros_per_gpu_hour: int
    source: str
    option: str | None  # None: the row holds for every purchase option
    as_of: date | None
    version: str


@dataclass(frozen=True, slots=True)
class PriceBook:
    """The site's prices, in the ledger's one currency. `version` is a digest of the content, whatever its order."""

    rows: tuple[PriceRow, ...] = ()
    currency: str = "USD"
    version: str = ""

    @classmethod
    def of(cls, rows: Sequence[PriceRow], currency: str = "USD") -> "PriceBook":
        """Make a book of rows that do not overlap."""
        return cls(tuple(rows), currency, _digest(rows, currency))

    @classmethod
    def read(cls, path: Path) -> "PriceBook":
        """Read a price file; ConfigError says in one sentence what is wrong with it."""
        currency, rows = read_price_file(path)
        return cls.of(rows, currency)

    @classmethod
    def parse(cls, where: str, content: bytes) -> "PriceBook":
        """Read a price file's content; ConfigError names it as `where`."""
        currency, rows = priced(where, content)
        return cls.of(rows, currency)

    @classmethod
    def flat(cls, micros_per_gpu_hour: int, source: str = "--price", currency: str = "USD") -> "PriceBook":
        """Make a book of one price for every GPU at all times, as `gpuledger run --price` names it."""
        return cls.of([PriceRow(None, None, None, micros_per_gpu_hour, 0, None, source, None)], currency)

    def price(
        self, sku: str | None, purchase_option: str | None, at_us: int, node_group: str | None = None
    ) -> Price | None:
        """Return the price of one GPU-hour at a time, or None where nobody has said it.

        A price of the node group goes before a general one, then a price of the very purchase option before "any".
        """
        fitting = [row for row in self.rows if row.covers(at_us) and _fits(row, sku, purchase_option, node_group)]
        if not fitting:
            return None
        row = max(fitting, key=lambda row: (row.node_group is not None, row.purchase_option is not None))
        return Price(row.micros_per_gpu_hour, row.source, row.purchase_option, row.as_of, self.version)


def _fits(row: PriceRow, sku: str | None, purchase_option: str | None, node_group: str | None) -> bool:
    return (
        row.sku in (None, sku)
        and row.purchase_option in (None, purchase_option)
        and row.node_group in (None, node_group)
    )


def _digest(rows: Sequence[PriceRow], currency: str) -> str:
    lines = sorted(json.dumps(asdict(row), sort_keys=True, default=str) for row in rows)
    return hashlib.sha256("\n".join([currency, *lines]).encode()).hexdigest()[:12]
