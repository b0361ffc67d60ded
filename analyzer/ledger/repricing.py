"""Price closed hours anew whose samples are gone: what they are booked as stands, and what it costs now is known.

Hours that still have their samples are made anew whole (pending.py); of these the cost alone is corrected.
"""

from typing import TYPE_CHECKING

from analyzer.ledger.booking import rates_of
from analyzer.ledger.pending import GPU_HOURS, Versions, spans
from analyzer.ledger.tables import BOOKED, split
from analyzer.queries.statements import run_with, stood
from collector.store.session import Session

if TYPE_CHECKING:
    from analyzer.prices.price_book import PriceBook

_DUE = """
CREATE OR REPLACE TEMP TABLE reprice_due AS
SELECT hour FROM ledger_hours
WHERE status IN ('closed', 'final') AND price_version IS DISTINCT FROM $prices AND hour < $judgeable
"""
_BOOKED = f"""
CREATE OR REPLACE TEMP TABLE booked_now AS
SELECT * EXCLUDE (milliseconds, cost_micros),
    sum(milliseconds)::BIGINT AS milliseconds, sum(cost_micros)::BIGINT AS cost_micros
FROM (
    SELECT {BOOKED} FROM ledger WHERE hour BETWEEN $first AND $last
    UNION ALL SELECT {BOOKED} FROM adjustments WHERE hour BETWEEN $first AND $last
) WHERE hour IN (SELECT hour FROM reprice_due) GROUP BY ALL HAVING sum(milliseconds) <> 0
"""
_SPLIT = (("split", split("booked_now", "now_micros")),)
_KINDS = f"""
SELECT DISTINCT b.sku, b.purchase_option, h.node_group, h.region, b.hour
FROM booked_now b {stood("b.node", "b.hour")} ORDER BY ALL
"""


def reprice(session: Session, book: "PriceBook", versions: Versions, judgeable_us: int, now_us: int) -> int:
    """Write what closed hours before `judgeable_us` would cost by this book as adjustments; return how many.

    Without a price file nothing is: nobody says then that another price holds.
    """
    if not book.version or not judgeable_us:
        return 0
    session.execute(_DUE, {"prices": versions.prices, "judgeable": judgeable_us})
    hours = [hour for (hour,) in session.rows("SELECT hour FROM reprice_due ORDER BY hour")]
    made = 0
    for first, last in spans(session, hours, GPU_HOURS):
        span: dict[str, object] = {"first": first, "last": last}
        with session.transaction():
            session.execute(_BOOKED, span)
            rates_of(session, book, _KINDS)
            told = {"rules": versions.rules, "prices": versions.prices, "now_us": now_us}
            run_with(session, "ledger/repriced.sql", _SPLIT, span | told)
            (changed,) = session.row(
                "SELECT count(*) FROM repriced WHERE coalesce(now_micros, 0) <> coalesce(cost_micros, 0)"
            )
            made += int(changed)
    return made
