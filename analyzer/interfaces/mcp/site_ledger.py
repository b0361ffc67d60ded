"""The ledger as a plan asks it, through the one way to the figures: no plan uses what the key of who asks may not read.

It is asked from the thread of a tool, which waits for the server's own loop to read.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from anyio import from_thread

from analyzer.capacity.planner.errors import UnseenError
from analyzer.capacity.planner.ledger import HISTORY_PATH, NODES_PATH, History, StockNode, history_of, nodes_of
from analyzer.errors import LedgerError, UnansweredError
from analyzer.interfaces.mcp.site import Query, Site
from analyzer.server_client import WRONG_USAGE


@dataclass(frozen=True, slots=True)
class SiteLedger:
    """What the holder of one Authorization may read of a site."""

    site: Site
    shown: str | None

    def history(self, name: str, gpus: int, sku: str | None = None) -> History:
        """Return what runs of a name with so many GPUs of a kind took.

        Raises:
            UnseenError: there are too few.
            LedgerError: it is refused.
        """
        asked: Query = {"name": name, "gpus": gpus, **({} if sku is None else {"sku": sku})}
        try:
            document = self._asked(HISTORY_PATH, asked)
        except UnansweredError as error:
            if error.reason == WRONG_USAGE:
                raise UnseenError(error.said or str(error)) from error
            raise
        with _of_this_release():
            return history_of(document)

    def nodes(self) -> tuple[StockNode, ...]:
        """Return the hosts with what is free of them now.

        Raises:
            LedgerError: the ledger is empty, or it is refused.
        """
        try:
            document = self._asked(NODES_PATH, {})
        except UnansweredError as error:
            if error.status == HTTPStatus.FORBIDDEN:
                raise LedgerError(
                    "nodes: inventory tells what others hold, which no key of a team is shown; write the nodes that "
                    "the plan may use into the file (topology lists hosts)"
                ) from error
            raise
        with _of_this_release():
            return nodes_of(document)

    def _asked(self, path: str, query: Query) -> dict[str, Any]:
        return from_thread.run(self.site.ask, path, query, self.shown)


@contextmanager
def _of_this_release() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise UnansweredError("the server answers in words that this release does not know; upgrade it") from error
