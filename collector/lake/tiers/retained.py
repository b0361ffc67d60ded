"""From when on a table still has its rows: what was dropped, and when, is written down where everybody can read it."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collector.store.session import Session


def kept_from(session: "Session", tables: Iterable[str]) -> int:
    """Return the first microsecond from which these tables have all they ever had; 0 where nothing was dropped."""
    return all_kept_from(kept_by_table(session), tables)


def kept_by_table(session: "Session") -> dict[str, int]:
    """Return the first microsecond from which each table of which anything was dropped has all it ever had."""
    return dict(session.rows("SELECT table_name, max(kept_from) FROM retention GROUP BY table_name"))


def all_kept_from(kept: Mapping[str, int], tables: Iterable[str]) -> int:
    """Return from when on all of these tables have their rows; 0 where nothing was dropped."""
    return max((kept.get(table, 0) for table in tables), default=0)
