"""From when on a table still has its rows: what was dropped, and when, is written down where everybody can read it."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collector.store.session import Session


def kept_from(session: "Session", tables: Iterable[str]) -> int:
    """Return the first microsecond from which these tables have all they ever had; 0 where nothing was dropped."""
    names = list(tables)
    (first,) = session.row(
        "SELECT coalesce(max(kept_from), 0) FROM retention WHERE list_contains($names, table_name)", {"names": names}
    )
    return int(first)
