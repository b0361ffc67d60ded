"""The ledger as a plan asks it: how long a job takes, and what nodes there are. A store or a server answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from analyzer.capacity.planner.errors import UnseenError
from analyzer.capacity.planner.history import History, Peaks
from analyzer.capacity.planner.stock import NodeHolder, StockNode
from analyzer.errors import ConfigError
from analyzer.server_client import ask_server_json, dataclass_of, of_this_version

if TYPE_CHECKING:
    from collector.store.session import Session


class Ledger(Protocol):
    """Whoever can say both.

    Raises (of each method):
        UnseenError: there are too few runs of the name on that kind of GPU.
        LedgerError: the ledger is empty, or the server does not answer.
        StoreError: the store does not answer.
    """

    def history(self, name: str, gpus: int, sku: str | None = None) -> History:
        """Return what runs of a name with so many GPUs of a kind took; without `sku` of the one kind that there is."""

    def nodes(self) -> tuple[StockNode, ...]:
        """Return the nodes with what is free of them now."""


@dataclass(frozen=True, slots=True)
class StoreLedger:
    """A store on this machine."""

    session: "Session"

    def history(self, name: str, gpus: int, sku: str | None = None) -> History:
        """Return what runs of a name with so many GPUs of a kind took."""
        from analyzer.capacity.planner.history_query import read_history

        return read_history(self.session, name, gpus, sku)

    def nodes(self) -> tuple[StockNode, ...]:
        """Return the nodes with what is free of them now."""
        from analyzer.capacity.planner.stock_query import read_stock
        from analyzer.ledger.coverage import ledger_end

        return read_stock(self.session, ledger_end(self.session))


@dataclass(frozen=True, slots=True)
class ServerLedger:
    """A running server. A key of a team reads the history of its own runs there, and no nodes."""

    address: str

    def history(self, name: str, gpus: int, sku: str | None = None) -> History:
        """Return what runs of a name with so many GPUs of a kind took."""
        from urllib.parse import urlencode

        asked = {"name": name, "gpus": gpus, **({} if sku is None else {"sku": sku})}
        try:
            said = ask_server_json(self.address, f"/v1/plan/history?{urlencode(asked)}")
        except ConfigError as error:  # it has read the question, and has no answer
            raise UnseenError(str(error)) from error
        told = {**said, "first_us": said.get("first_at"), "last_us": said.get("last_at")}
        with of_this_version(self.address):
            found: History = dataclass_of(History, told, seconds=tuple, peaks=lambda part: dataclass_of(Peaks, part))
            return found

    def nodes(self) -> tuple[StockNode, ...]:
        """Return the nodes with what is free of them now."""
        said = ask_server_json(self.address, "/v1/plan/nodes")
        with of_this_version(self.address):
            return tuple(dataclass_of(StockNode, one, holders=_holders) for one in said["nodes"])


def _holders(said: list[Mapping[str, Any]]) -> tuple[NodeHolder, ...]:
    return tuple(dataclass_of(NodeHolder, {**one, "until_us": one["until"]}) for one in said)
