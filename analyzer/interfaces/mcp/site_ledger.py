"""The ledger as a plan asks it, through the one way to the figures: no plan uses what the key of who asks may not read.

It is asked from the thread of a tool, which waits for the server's own loop to read.
"""

from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar

from anyio import from_thread
from pydantic import ValidationError

from analyzer.capacity.planner.errors import UnseenError
from analyzer.capacity.planner.history import History, Peaks
from analyzer.capacity.planner.stock import NodeHolder, StockNode
from analyzer.errors import LedgerError, UnansweredError
from analyzer.interfaces.api.for_plans import HistoryDocument, HolderTold, StockDocument, StockTold
from analyzer.interfaces.mcp.site import Query, Site
from analyzer.reports.document import Document
from analyzer.server_client import WRONG_USAGE

DocumentT = TypeVar("DocumentT", bound=Document)


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
            found = self._asked("/v1/plan/history", asked, HistoryDocument)
        except UnansweredError as error:
            if error.reason == WRONG_USAGE:
                raise UnseenError(error.said or str(error)) from error
            raise
        return History(
            found.name,
            found.gpus,
            tuple(found.seconds),
            found.restarted,
            found.unfinished,
            found.first_at,
            found.last_at,
            Peaks(found.peaks.cores, found.peaks.memory_bytes, found.peaks.gpu_memory_bytes),
            found.sku,
        )

    def nodes(self) -> tuple[StockNode, ...]:
        """Return the hosts with what is free of them now.

        Raises:
            LedgerError: the ledger is empty, or it is refused.
        """
        try:
            found = self._asked("/v1/plan/nodes", {}, StockDocument)
        except UnansweredError as error:
            if error.status == HTTPStatus.FORBIDDEN:
                raise LedgerError(
                    "nodes: inventory tells what others hold, which no key of a team is shown; write the nodes that "
                    "the plan may use into the file (topology lists hosts)"
                ) from error
            raise
        return tuple(_node(one) for one in found.nodes)

    def _asked(self, path: str, query: Query, kind: type[DocumentT]) -> DocumentT:
        document = from_thread.run(self.site.ask, path, query, self.shown)
        try:
            return kind.model_validate(document)
        except ValidationError as error:
            raise UnansweredError("the server answers in words that this release does not know; upgrade it") from error


def _node(told: StockTold) -> StockNode:
    said = told.model_dump(exclude={"holders"})
    return StockNode(**said, holders=tuple(_holder(one) for one in told.holders))


def _holder(told: HolderTold) -> NodeHolder:
    return NodeHolder(told.run_id, told.name, told.gpus, told.cores, told.memory_bytes, told.until)
