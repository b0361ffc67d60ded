"""Hold an invoice against the ledger of a running server: it is gathered here, and its sums are sent."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from analyzer.errors import LedgerError
from analyzer.finops.reconcile.bill import Bill
from analyzer.finops.reconcile.invoice_matches import digest_of
from analyzer.finops.reconcile.reconcile import gathered
from analyzer.period import Calendar
from analyzer.server_client import ask_server_json

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
