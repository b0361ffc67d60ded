"""Reserved GPUs with a payment in advance: it is amortised evenly over the hours of the term.

[[reserved]]
sku = "H100-80GB"
usd_upfront_per_node = 105_120    # or usd_upfront_per_gpu
gpus_per_node = 8
usd_per_gpu_hour = 1.10           # what each hour costs beside it; 0 where all was paid in advance
from = 2026-01-01
until = 2027-01-01                # the term; it must be there
source = "contract 4711"
as_of = 2026-11-01

Hours in which such a GPU stands free cost the same; the ledger shows them as unallocated.
"""

from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from fractions import Fraction

from agent.wire.units import HOUR_US
from analyzer.errors import ConfigError
from analyzer.prices.derived.keys import Amount, DerivedRow, amount_keys
from analyzer.prices.derived.parts import PricePart, spread_over_hours
from analyzer.prices.money import dollars
from analyzer.settings.toml_entry import TomlEntry
from analyzer.settings.toml_model import fixed, toml_key


def _term_end(entry: TomlEntry, key: str) -> int:
    ends_at = entry.end(key)
    if ends_at is None:
        raise ConfigError(f"{entry.where}: 'until' is missing: what is paid in advance is spread over the term")
    return ends_at


@dataclass(frozen=True, slots=True)
class Reserved(DerivedRow):
    """A reservation: what was paid in advance, and what an hour costs beside it in millionths."""

    purchase_option: str | None = field(metadata=fixed("reserved"))
    upfront: Amount = field(metadata=amount_keys("{money}_upfront", is_needed=True))
    micros_per_gpu_hour: int = field(metadata=toml_key("{money}_per_gpu_hour", read=TomlEntry.micros))
    term_ends_at: int = field(metadata=toml_key("until", read=_term_end))  # as ends_at, which a term must have

    def parts(self) -> tuple[PricePart, ...]:
        """Return what a GPU-hour consists of."""
        start, hours = self.starts_at, (self.term_ends_at - self.starts_at) // HOUR_US
        how = f"{self.upfront.told} over the {hours:,} hours of the term"
        upfront = spread_over_hours("upfront", self.upfront.per_gpu, start, self.term_ends_at, how)
        by_hour = Fraction(self.micros_per_gpu_hour)
        return (
            upfront,
            PricePart(
                "by the hour", by_hour, start, self.term_ends_at, f"{dollars(self.micros_per_gpu_hour)} a GPU-hour"
            ),
        )

    def faults(self, today: date) -> list[tuple[str, str]]:
        """Return what is to be asked of it besides its age: what comes after the term, once it is over or nearly so."""
        end = datetime.fromtimestamp(self.term_ends_at // 1_000_000, UTC).date()
        if end > today:
            return []
        return [("over", f"its term ended {end}; write what such GPUs cost now, or take them out of the fleet")]
