"""After a restart: when each target was last scraped, by the receipts, so that its next row begins there."""

import logging
import time
from typing import TYPE_CHECKING

from collector.errors import StoreError
from collector.prometheus.targets import STREAM

if TYPE_CHECKING:
    from collector.store.database import Store

_LOG = logging.getLogger(__name__)
_RECENT = 3_600_000_000  # microseconds; what was last scraped longer ago has a gap in any case


def last_scrapes(store: "Store") -> dict[str, int]:
    """Return the last scrape that is stored of each target that was heard within the hour, milliseconds UTC.

    A store that cannot tell costs a row a target, and no more.
    """
    since = time.time_ns() // 1000 - _RECENT
    asked = (
        "SELECT stream, max(sequence) FROM receipts WHERE received_at > ? AND starts_with(stream, ?) GROUP BY stream"
    )
    found: dict[str, int] = {}
    try:
        for session in (store.hot_session(), store.session()):  # what is not sealed yet, and what is
            with session:
                for stream, last in session.rows(asked, [since, STREAM]):
                    found[stream] = max(last, found.get(stream, -1))
    except StoreError as error:
        _LOG.warning("remote write cannot see where it stopped: %s", error)
    return found
