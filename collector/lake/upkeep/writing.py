"""One transaction of the upkeep where the samples are: in the lake, or in the file of a store without one."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from collector.lake.sealing.syncing import sync

if TYPE_CHECKING:
    from collector.store.database import Store
    from collector.store.session import Session


@contextmanager
def writing(store: "Store") -> Iterator["Session"]:
    """Yield a session in a transaction; its files are on the disk before the catalogue names them.

    Raises:
        StoreError: the store refused, or another's commit was in the way; nothing was kept, and later is soon enough.
    """
    with store.turn, store.session() as session, session.transaction():
        yield session
        sync(store.lake.folder if store.lake is not None else None)
