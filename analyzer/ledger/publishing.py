"""Put a chunk's priced rows into the ledger: open hours are replaced, closed hours get adjustment rows."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.ledger.closing import status_of_hour
from analyzer.ledger.pending import Chunk, Versions
from analyzer.ledger.tables import BOOKED, ORDER
from analyzer.queries.placed import stood
from analyzer.queries.statements import run_with
from analyzer.settings.settings import Settings
from collector.store.session import Session

if TYPE_CHECKING:
    from analyzer.prices.price_book import PriceBook

_KINDS = f"""
SELECT DISTINCT o.sku, o.purchase_option, h.node_group, h.region, o.hour_ms * 1000
FROM owned_hours o JOIN gpus g USING (gid) {stood("g.node", "o.hour_ms * 1000")} ORDER BY ALL
"""


@dataclass(frozen=True, slots=True)
class Published:
    """How much of a chunk was written."""

    hours: int
    gpu_hours: int
    rows: int
    adjustments: int


def rates_of(session: Session, book: "PriceBook", kinds: str = _KINDS) -> None:
    """Fill the temporary table `rates` with the price of each kind of GPU in each hour; unknown prices stay null.

    `kinds` is the query that names them; without a word, those of a chunk.
    """
    session.execute(
        """
        CREATE OR REPLACE TEMP TABLE rates (
            sku VARCHAR, purchase_option VARCHAR, node_group VARCHAR, region VARCHAR, hour BIGINT, micros BIGINT,
            price_version VARCHAR)
        """
    )
    rows = [
        (sku, option, group, region, hour, price.micros_per_gpu_hour, price.version)
        for sku, option, group, region, hour in session.rows(kinds)
        if (price := book.price(sku, option, hour, group, region))
    ]
    columns = ("sku", "purchase_option", "node_group", "region", "hour", "micros", "price_version")
    session.load("rates", columns, rows)


def publish_chunk(session: Session, chunk: Chunk, settings: Settings, versions: Versions, now_us: int) -> Published:
    """Write `priced` into the ledger and say what became of it."""
    told: dict[str, object] = {"rules": versions.rules, "prices": versions.prices, "now_us": now_us}
    told |= {"from_us": chunk.from_ms * 1000, "until_us": chunk.until_ms * 1000}
    run_with(session, "ledger/publish.sql", (("booked_columns", BOOKED), ("order", ORDER)), told)
    (known_us,) = session.row("SELECT until_us FROM known")
    hours = [hour for (hour,) in session.rows("SELECT DISTINCT hour FROM priced ORDER BY hour")]
    batch = session.row("SELECT coalesce(max(batch), 0) FROM receipts")[0]
    digest = f"{versions.rules} {versions.prices} {batch}"
    # Of an hour that is booked in parts, the last says so: a pass that is cut off before is made good by the next.
    columns = ("hour", "status", "input_digest", "rules_version", "price_version")
    if chunk.is_last:
        calendar = settings.calendar
        rows = [
            (hour, status_of_hour(hour, known_us, now_us, calendar), digest, versions.rules, versions.prices)
            for hour in hours
        ]
        session.load("ledger_hours", columns, rows, replace=True)
    (written,) = session.row("SELECT count(*) FROM priced")
    (adjusted,) = session.row("SELECT count(*) FROM differences")
    (gpu_hours,) = session.row("SELECT count(*) FROM chunk")
    return Published(len(hours), gpu_hours, written, adjusted)
