"""Amounts of ledgers that are written by hand: booked as a pass of the analysis books them."""

from analyzer.ledger.amounts import book_amounts
from analyzer.ledger.believed import show_believed
from collector.store.database import Store


def book(store: Store) -> None:
    """Book the amounts of every hour that the ledger has, by what the samples say now."""
    with store.session() as session:
        show_believed(session)
        session.execute("CREATE OR REPLACE TEMP TABLE amount_due AS SELECT hour FROM ledger_hours")
        session.execute("CREATE OR REPLACE TEMP TABLE amount_shut (hour BIGINT)")
        session.execute(
            "CREATE OR REPLACE TEMP TABLE other_names AS SELECT alias_run_id, arg_max(run_id, batch) AS run_id, "
            "0 AS from_us, 9223372036854775807 AS until_us FROM run_aliases GROUP BY ALL"
        )
        book_amounts(session, 0)
