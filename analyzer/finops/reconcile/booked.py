"""What the ledger says of each GPU kind and UTC day: the side of a reconciliation that is ours."""

from dataclasses import dataclass

from agent.wire.units import DAY_US
from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class OwnedTime:
    """GPU milliseconds that were owned, what they cost, and how much of them no agent saw or no price is known of.

    `owned_ms` is what of it the site owns itself: nobody bills that.
    """

    milliseconds: int
    cost_micros: int
    owned_ms: int
    owned_micros: int
    unseen_ms: int
    unpriced_ms: int


def booked(session: Session, start: int, end: int) -> dict[tuple[str, int], OwnedTime]:
    """Return the ledger of a span by GPU kind and UTC day."""
    rows = session.rows(
        """
        SELECT coalesce(sku, 'unknown'), hour // $day_us * $day_us, sum(milliseconds), coalesce(sum(cost_micros), 0),
            coalesce(sum(milliseconds) FILTER (purchase_option = 'owned'), 0),
            coalesce(sum(cost_micros) FILTER (purchase_option = 'owned'), 0),
            coalesce(sum(milliseconds) FILTER (state = 'unobserved' AND cause = 'never_seen'), 0),
            coalesce(sum(milliseconds) FILTER (cost_micros IS NULL), 0)
        FROM ledger WHERE hour >= $start AND hour < $end GROUP BY 1, 2
        """,
        {"day_us": DAY_US, "start": start, "end": end},
    )
    return {(sku, int(day)): OwnedTime(*map(int, amounts)) for sku, day, *amounts in rows}
