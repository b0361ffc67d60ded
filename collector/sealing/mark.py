"""Up to which batch a collector has sealed: told by the lake, moved by the sealer, read by the writer."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collector.store.database import Store

FIRST_COLLECTOR = 0  # of a site with one collector


class Mark:
    """What a collector has sealed. `upto` only grows, and is an integer, so that threads need no lock to read it."""

    def __init__(self, collector: int, upto: int) -> None:
        self.collector = collector
        self.upto = upto

    @classmethod
    def of(cls, store: "Store", collector: int = FIRST_COLLECTOR) -> "Mark":
        """Return the mark of a collector as the lake has it; that of a store without a lake never moves.

        Raises:
            StoreError: the lake cannot be read.
        """
        if store.lake is None:
            return cls(collector, 0)
        with store.session() as session:
            (upto,) = session.row("SELECT coalesce(max(upto), 0) FROM lake.markers WHERE collector = ?", [collector])
        return cls(collector, upto)
