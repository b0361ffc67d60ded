"""[[charge]]: what a team is charged for a GPU-hour. The ledger's cost stays what the GPU costs, whoever holds it.

[[charge]]
team = "team-nlp"
sku = "H100-80GB"                 # optional: of every SKU where it is left out
purchase_option = "any"           # optional: the same
usd_per_gpu_hour = 2.90
from = 2026-01-01
until = 2027-01-01                # optional, exclusive
source = "internal price list 2026"
as_of = 2025-12-01
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date

from analyzer.prices.options import ANY, Dated, option_of
from analyzer.settings.toml_entry import TomlEntry
from analyzer.settings.toml_model import optional, since, toml_key, until


@dataclass(frozen=True, slots=True)
class Charge(Dated):
    """What one team is charged over one period, in millionths a GPU-hour. None in `sku`, `purchase_option` is any."""

    team: str
    sku: str | None
    purchase_option: str | None = field(metadata=toml_key(read=optional(option_of)))
    micros_per_gpu_hour: int = field(metadata=toml_key("{money}_per_gpu_hour", read=TomlEntry.micros))
    starts_at: int = field(metadata=since())
    ends_at: int | None = field(metadata=until())
    source: str
    as_of: date

    @property
    def subject(self) -> tuple[str | None, ...]:
        """What is charged to whom."""
        return (self.team, self.sku, self.purchase_option)

    @property
    def told(self) -> str:
        """The same in words."""
        return f"{self.sku or 'any GPU'} ({self.purchase_option or ANY}) for {self.team}"

    def fits(self, team: str | None, sku: str | None, purchase_option: str | None, at_us: int) -> bool:
        """Say whether this is charged for GPU time of this kind, held by this team, at this microsecond."""
        return (
            team == self.team
            and self.sku in (None, sku)
            and self.purchase_option in (None, purchase_option)
            and self.covers(at_us)
        )


def rate_of(
    charges: Sequence[Charge], team: str | None, sku: str | None, purchase_option: str | None, at_us: int
) -> Charge | None:
    """Return the charge that holds, that of the very SKU first, then of the very option; None where none does."""
    fitting = [one for one in charges if one.fits(team, sku, purchase_option, at_us)]
    return max(fitting, key=lambda one: (one.sku is not None, one.purchase_option is not None), default=None)
