"""Up to which batch a collector has sealed: told by the lake, moved by the sealer, read by the writer."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collector.store.database import Store
    from collector.store.session import Session

FIRST_COLLECTOR = 0  # of a site with one collector


class Mark:
    """What a collector has sealed. `upto` only grows, and is an integer, so that threads need no lock to read it."""

    def __init__(self, collector: int, upto: int) -> None:
        self.collector = collector
        self.upto = upto

    def catch_up(self, session: "Session") -> None:
        """Move to where the lake has it: it may have taken a sealing whose answer was lost on the way.

        Raises:
            StoreError: the lake cannot be read.
        """
        told = "SELECT coalesce(max(upto), 0) FROM lake.main.markers WHERE collector = ?"
        (upto,) = session.row(told, [self.collector])
        self.upto = max(self.upto, int(upto))

    @classmethod
    def of(cls, store: "Store", collector: int = FIRST_COLLECTOR) -> "Mark":
        """Return the mark of a collector as the lake has it; that of a store without a lake never moves.

        Raises:
            StoreError: the lake cannot be read.
        """
        if store.lake is None:
            return cls(collector, 0)
        mark = cls(collector, 0)
        with store.session() as session:
            mark.catch_up(session)
        return mark
