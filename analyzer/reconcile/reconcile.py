"""Hold a FOCUS invoice against the ledger of a store."""

from dataclasses import dataclass
from pathlib import Path

from analyzer.errors import ConfigError, LedgerError
from analyzer.focus.read import is_own, read_focus
from analyzer.reconcile.bill import DAY_US, Bill, gather
from analyzer.reconcile.booked import booked
from analyzer.reconcile.compare import Comparison, compare
from analyzer.reconcile.skus import SkuMap
from analyzer.report.coverage import EMPTY
from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class Asked:
    """The invoice, whose GPU kinds a mapping file says, and the span: None is what the invoice covers."""

    invoice: Path
    mapping: Path | None
    currency: str
    start: int | None = None
    end: int | None = None


def reconcile(session: Session, asked: Asked) -> tuple[Comparison, Bill]:
    """Return what differs, and the invoice as it was gathered.

    Raises:
        ConfigError: the invoice or the mapping cannot be read, no line of it is of GPUs, or it is our own export.
        LedgerError: the ledger is empty.
    """
    if is_own(asked.invoice):
        raise ConfigError(
            f"{asked.invoice} is an export of gpuledger, and no invoice: it can only agree with the ledger"
        )
    skus = [sku for (sku,) in session.rows("SELECT DISTINCT sku FROM ledger WHERE sku IS NOT NULL")]
    if not skus:
        raise LedgerError(EMPTY)
    bill = gather(read_focus(asked.invoice), SkuMap.of(skus, asked.mapping), asked.start, asked.end)
    start = asked.start if asked.start is not None else bill.first
    end = asked.end if asked.end is not None else None if bill.last is None else bill.last + DAY_US
    if start is None or end is None:
        raise ConfigError(
            f"{asked.invoice}: none of its {bill.lines:,} lines in the period is of a GPU that is known; say which are "
            "with --map FILE (docs/focus.md)"
        )
    known = session.rows(
        "SELECT hour // $day * $day, count(*) FROM ledger_hours WHERE hour >= $start AND hour < $end GROUP BY 1",
        {"day": DAY_US, "start": start, "end": end},
    )
    return compare(booked(session, start, end), bill, asked.currency, (start, end), dict(known)), bill
