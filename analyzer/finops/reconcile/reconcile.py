"""Hold a FOCUS invoice against the ledger of a store, or of a running server, which is sent its sums alone."""

from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agent.wire.units import DAY_US
from analyzer.errors import ConfigError, LedgerError
from analyzer.finops.focus.read import is_own, read_focus
from analyzer.finops.reconcile.bill import Bill, SkuMap, gather
from analyzer.finops.reconcile.compare import Comparison, booked, compare
from analyzer.finops.reconcile.invoice_matches import digest_of
from analyzer.ledger.coverage import EMPTY
from analyzer.period import Calendar
from analyzer.server_client import ask_server_json
from collector.store.session import Session

Span = tuple[int | None, int | None]  # microseconds; None is what the invoice covers


def ledger_skus(session: Session) -> list[str]:
    """Return the GPU kinds of a ledger.

    Raises:
        LedgerError: it is empty.
    """
    skus = [sku for (sku,) in session.rows("SELECT DISTINCT sku FROM ledger WHERE sku IS NOT NULL ORDER BY sku")]
    if not skus:
        raise LedgerError(EMPTY)
    return skus


def gathered(invoice: Path, skus: Collection[str], mapping: Path | None, span: Span) -> Bill:
    """Return an invoice as it is compared, by the ledger's kinds and a mapping file.

    Raises:
        ConfigError: the invoice or the mapping cannot be read, or it is our own export.
    """
    if is_own(invoice):
        raise ConfigError(f"{invoice} is an export of gpuledger, not an invoice: it always agrees with the ledger")
    return gather(read_focus(invoice), SkuMap.of(skus, mapping), *span)


def hold(session: Session, bill: Bill, name: str, currency: str, span: Span) -> Comparison:
    """Return what differs between a gathered invoice and the ledger.

    Raises:
        ConfigError: no line of it is of GPUs.
    """
    start = span[0] if span[0] is not None else bill.first
    end = span[1] if span[1] is not None else None if bill.last is None else bill.last + DAY_US
    if start is None or end is None:
        raise ConfigError(
            f"{name}: none of its {bill.lines:,} lines in the period is of a known GPU; map them "
            "with --map FILE (docs/focus.md)"
        )
    known = session.rows(
        "SELECT hour // $day * $day, count(*) FROM ledger_hours WHERE hour >= $start AND hour < $end GROUP BY 1",
        {"day": DAY_US, "start": start, "end": end},
    )
    return compare(booked(session, start, end), bill, currency, (start, end), dict(known))


def reconcile(
    session: Session, invoice: Path, mapping: Path | None, currency: str, span: Span = (None, None)
) -> tuple[Comparison, Bill]:
    """Return what differs, and the invoice as it was gathered. Raises as its parts do."""
    bill = gathered(invoice, ledger_skus(session), mapping, span)
    return hold(session, bill, str(invoice), currency, span), bill


_PATH = "/v1/invoices"


def reconcile_by_server(
    server: str, invoice: Path, mapping: Path | None, spoken: tuple[str | None, str | None], keep: bool, top: int
) -> dict[str, Any]:
    """Return the server's answer: `matched`, `text` and `report`. `spoken` are the words of --since and --until.

    Raises:
        ConfigError: the invoice, the mapping or the words cannot be read.
        LedgerError: the server does not answer, or refuses.
    """
    about = ask_server_json(server, _PATH)
    start = end = None
    try:
        if spoken != (None, None):
            span = Calendar("UTC").span(*spoken, int(about["known_until"]))
            start, end = span.start, span.end
        bill = gathered(invoice, [str(sku) for sku in about["skus"]], mapping, (start, end))
    except (KeyError, TypeError) as error:
        raise LedgerError(f"{server}{_PATH} does not answer as gpuledger does") from error
    body = _body(bill) | {"invoice": invoice.name, "digest": digest_of(invoice), "keep": keep, "top": top}
    return ask_server_json(
        server, _PATH, body | {name: at for name, at in (("start", start), ("end", end)) if at is not None}
    )


def _body(bill: Bill) -> dict[str, object]:
    return {
        "currencies": sorted(bill.currencies),
        "lines": bill.lines,
        "days": [{"sku": sku, "day": day, **asdict(one)} for (sku, day), one in sorted(bill.days.items())],
        "others": [asdict(one) for one in bill.others.values()],
    }
