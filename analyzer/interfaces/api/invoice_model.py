"""What POST /v1/invoices takes and what the two routes answer: sums of an invoice, bounded to fit the ledger."""

from dataclasses import asdict
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from agent.wire.units import DAY_US
from analyzer.finops.reconcile.bill import OTHERS_KEPT
from analyzer.finops.reconcile.invoice_matches import InvoiceMatchRow
from analyzer.finops.reconcile.text import ROWS_SHOWN
from analyzer.interfaces.api.parameters import Opt, Parameters
from analyzer.reports.document import Document, Iso, Micros, Model, iso

_DAYS_MOST = 20_000  # GPU kinds and days: ten kinds over five years
_NANOS_MOST = 4 * 10**16  # forty millions of a currency: sums of as many fit the ledger's integers
_LAST_DAY = 4_102_444_800_000_000  # 2100
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
_Nanos = Annotated[int, Field(ge=-_NANOS_MOST, le=_NANOS_MOST, description="Billionths of the currency.")]
_Instant = Annotated[
    int, Field(ge=0, le=_LAST_DAY, multiple_of=DAY_US // 24, description="Microseconds, a whole hour.")
]


class DayAsked(Parameters):
    """What the invoice says of one GPU kind on one UTC day."""

    sku: Name
    day: Annotated[int, Field(ge=0, le=_LAST_DAY, multiple_of=DAY_US, description="Its first microsecond, UTC.")]
    nanos: _Nanos
    nano_hours: Annotated[int, Field(ge=-_NANOS_MOST, le=_NANOS_MOST, description="GPU-hours, in billionths.")]
    hours_known: bool = True


class OtherAsked(Parameters):
    """Lines that are no GPU's usage, summed."""

    why: Name
    name: Annotated[str, StringConstraints(max_length=200)]
    lines: Annotated[int, Field(ge=0, le=10**12)]
    nanos: _Nanos


class InvoiceAsked(Parameters):
    """An invoice, gathered by GPU kind and UTC day."""

    invoice: Name = Field(description="What the file is called.")
    digest: Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")] = Field(description="SHA-256 of the file.")
    currencies: Annotated[list[Annotated[str, StringConstraints(pattern="^[A-Z]{3}$")]], Field(max_length=50)]
    lines: Annotated[int, Field(ge=0, le=10**12)]
    days: Annotated[list[DayAsked], Field(max_length=_DAYS_MOST)]
    others: Annotated[list[OtherAsked], Field(max_length=OTHERS_KEPT + 20)] = Field([])
    start: _Instant | Opt = Field(None, description="Where the span begins; without it, the invoice's first day.")
    end: _Instant | Opt = Field(None, description="Where it ends; without it, the end of the invoice's last day.")
    keep: bool = Field(True, description="Whether the answer is kept, so that reports say it.")
    top: Annotated[int, Field(ge=1, le=10_000)] = Field(ROWS_SHOWN, description="The most rows of the text.")


class InvoiceDocument(Document):
    """What came of it."""

    matched: bool
    answer: str = Field(description="The one sentence.")
    text: str = Field(description="The whole answer as the command line prints it.")
    report: dict[str, Any] = Field(description="The same for programs; docs/json.md.")


class MatchItem(Model):
    """What was kept of one invoice."""

    label: str
    start: Micros
    start_iso: Iso
    end: Micros
    end_iso: Iso
    invoice: str
    matched: bool
    permille: int | None = Field(description="How far they are apart, in thousandths, rounded up.")
    recorded_at: Micros
    recorded_at_iso: Iso
    who: str

    @classmethod
    def of(cls, one: InvoiceMatchRow) -> "MatchItem":
        """Return it as the API writes it."""
        times: dict[str, Any] = {f"{name}_iso": iso(getattr(one, name)) for name in ("start", "end", "recorded_at")}
        return cls(**asdict(one), **times)


class InvoicesDocument(Document):
    """What an invoice is gathered for, and what came of the newest before."""

    skus: list[str] = Field(description="The GPU kinds of the ledger, to which an invoice's lines are held.")
    known_until: Micros = Field(description="The end of the ledger's newest hour: where 7d and monday end.")
    known_until_iso: Iso
    matches: list[MatchItem]


class InvoicesAsked(Parameters):
    """Nothing can be asked of it."""
