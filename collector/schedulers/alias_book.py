"""Which names the store has been told of, so that asking again every minute tells only new ones."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from collector.schedulers.poll import Row

if TYPE_CHECKING:
    from collector.store.session import Session

_MOST_ALIASES = 200_000  # remembered; a forgotten one is told again


class AliasBook:
    """Knows the run that each alias was last told to stand for. Nothing changes here until rows are in the store."""

    def __init__(self, told: Iterable[tuple[str, str]] = ()) -> None:
        self._told = dict(told)

    @classmethod
    def read(cls, session: "Session", prefix: str) -> "AliasBook":
        """Return what the store knows of the runs whose ids begin with this; of an alias told twice the later."""
        told = session.rows(
            "SELECT alias_run_id, run_id FROM run_aliases WHERE starts_with(run_id, ?) ORDER BY batch", [prefix]
        )
        return cls(told[-_MOST_ALIASES:])

    def news(self, rows: Iterable[Row]) -> list[Row]:
        """Return those rows that say something new."""
        return [row for row in rows if self._told.get(str(row["alias_run_id"])) != row["run_id"]]

    def keep(self, rows: Iterable[Row]) -> None:
        """Note that these rows are in the store, and forget the oldest of too many."""
        for row in rows:
            self._told[str(row["alias_run_id"])] = str(row["run_id"])
        while len(self._told) > _MOST_ALIASES:
            self._told.pop(next(iter(self._told)))
