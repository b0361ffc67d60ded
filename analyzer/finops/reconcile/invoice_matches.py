"""What is kept of invoices that were held against the ledger, and what a report of a period says of it."""

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.period import Period
from collector.store.session import Session

if TYPE_CHECKING:
    from analyzer.finops.reconcile.bill import Bill
    from analyzer.finops.reconcile.compare import Comparison

_COLUMNS = (
    "match_id", "recorded_at", "who", "period_start", "period_end", "period_label", "invoice", "invoice_digest",
    "currency", "ledger_micros", "invoice_micros", "apart_micros", "apart_permille", "matched", "other_nanos",
)  # fmt: skip
KEPT_SHOWN = 200


@dataclass(frozen=True, slots=True)
class InvoiceMatch:
    """The last word on an invoice: of which period it is, and how far it is from the ledger, in thousandths of it.

    `corrected` says that the ledger of that period was corrected after the two were compared.
    """

    label: str
    matched: bool
    permille: int | None
    recorded_at: int
    corrected: bool = False


@dataclass(frozen=True, slots=True)
class InvoiceMatchRow:
    """One row of what was kept."""

    label: str
    start: int
    end: int
    invoice: str
    matched: bool
    permille: int | None
    recorded_at: int
    who: str


@dataclass(frozen=True, slots=True)
class InvoiceSource:
    """Which invoice (its file's name and the digest of its content), who says it, and when in microseconds."""

    invoice: str
    digest: str
    who: str
    at_us: int


def keep(session: Session, compared: "Comparison", bill: "Bill", label: str, told: InvoiceSource) -> None:
    """Write down what was found. The same invoice again says it anew."""
    digest, at_us = told.digest, told.at_us
    start, end = compared.compared
    key = hashlib.sha256(f"{digest} {start} {end} {at_us}".encode()).hexdigest()[:16]
    others = sum(other.nanos for other in bill.others.values() if other.currency == compared.currency)
    row = (
        key, at_us, told.who, start, end, label, told.invoice, digest, compared.currency,
        compared.ledger_micros, compared.invoice_micros, compared.apart_micros, compared.permille, compared.matched,
        others,
    )  # fmt: skip
    session.load("invoice_matches", _COLUMNS, [row], replace=False)


def kept_matches(session: Session, most: int) -> list[InvoiceMatchRow]:
    """Return what was kept, the newest first."""
    rows = session.rows(
        "SELECT period_label, period_start, period_end, invoice, matched, apart_permille, recorded_at, who "
        "FROM invoice_matches ORDER BY recorded_at DESC, match_id LIMIT ?",
        [most],
    )
    return [InvoiceMatchRow(*row) for row in rows]


def last_match(session: Session, period: Period) -> InvoiceMatch | None:
    """Return the newest word on the invoice that a period rests on: one that reaches into it, else the last before it.

    None where no invoice of it or before it was held against the ledger.
    """
    rows = session.rows(
        "SELECT period_label, matched, apart_permille, recorded_at, EXISTS (FROM adjustments a WHERE a.recorded_at > "
        "m.recorded_at AND a.hour >= m.period_start AND a.hour < m.period_end) "
        "FROM invoice_matches m WHERE period_start < $end "
        "ORDER BY period_end > $start DESC, CASE WHEN period_end <= $start THEN period_end END DESC, recorded_at DESC "
        "LIMIT 1",
        {"start": period.start, "end": period.end},
    )
    return InvoiceMatch(*rows[0]) if rows else None


def match_words(match: InvoiceMatch | None) -> str:
    """Return what the head of a report says of the invoice."""
    if match is None:
        return "not reconciled with an invoice"
    if match.permille is None:
        return f"not reconciled with an invoice ({match.label} could not be compared)"
    since = "; the ledger was corrected since" if match.corrected else ""
    share = f"{match.permille // 10}.{match.permille % 10}%"
    if match.matched:
        return f"invoice matched within {share} ({match.label}){since}"
    return f"invoice not matched: {share} apart ({match.label}){since}"
