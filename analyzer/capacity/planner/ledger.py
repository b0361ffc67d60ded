"""The ledger as a plan asks it: how long a job takes, and what nodes there are. A store or a server answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlencode

from analyzer.capacity.planner.errors import UnseenError
from analyzer.errors import ConfigError
from analyzer.server_client import ask_server_json, of_this_version, typed

HISTORY_PATH, NODES_PATH = "/v1/plan/history", "/v1/plan/nodes"
_P10, _P50, _P90 = 10, 50, 90


@dataclass(frozen=True, slots=True)
class Peaks:
    """The most that any of the runs used on one host, and of memory on one GPU: gauges, not needs. None: not known."""

    cores: float | None
    memory_bytes: int | None
    gpu_memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class History:
    """Wall times of the newest completed runs of one name, size and kind of GPU on one host, the shortest first.

    Wall time is in whole seconds, from the first GPU held to the last given back; a restart is part of it. `unfinished`
    are such runs that did not complete: no figure here counts them. Moments are microseconds UTC.
    """

    name: str
    gpus: int
    seconds: tuple[int, ...]
    restarted: int
    unfinished: int
    first_at: int
    last_at: int
    peaks: Peaks
    sku: str | None = None  # the kind of GPU; None: they held none

    @property
    def runs(self) -> int:
        """How many runs it stands on."""
        return len(self.seconds)

    @property
    def p10_seconds(self) -> int:
        """A tenth of the runs took no longer."""
        return self.percentile(_P10)

    @property
    def p50_seconds(self) -> int:
        """Half of the runs took no longer."""
        return self.percentile(_P50)

    @property
    def p90_seconds(self) -> int:
        """Nine tenths of the runs took no longer."""
        return self.percentile(_P90)

    def percentile(self, percent: int) -> int:
        """Return the wall time of the run at this rank: always one that was seen, as quantile_disc gives it."""
        return self.seconds[max(0, -(-percent * len(self.seconds) // 100) - 1)]


@dataclass(frozen=True, slots=True)
class NodeHolder:
    """A run that holds a part of one node: GPUs there, cores that it may use and memory that it used at the most.

    `until` is the end of the time that it asked for; None where nobody knows: it asked for none, or is over it.
    """

    run_id: str
    name: str
    gpus: int
    cores: float | None
    memory_bytes: int | None
    until: int | None


@dataclass(frozen=True, slots=True)
class StockNode:
    """One node of the inventory. None is not known, and never none; `gpus` of a node without any is 0.

    `price_micros_per_gpu_hour` is what a GPU-hour of it came to in the last day; None
    also where its GPUs are of several kinds. `is_up` is its scheduler's word.
    """

    node: str
    rack: str | None
    group: str | None
    cpu_cores: int | None
    memory_bytes: int | None
    local_nvme_bytes: int | None
    gpus: int
    gpus_free: int
    sku: str | None
    gpu_memory_bytes: int | None
    price_micros_per_gpu_hour: int | None
    is_up: bool
    holders: tuple[NodeHolder, ...]
    cores_busy: float | None = None  # of nodes without GPUs, where nobody says what holds them
    memory_busy_bytes: int | None = None

    @property
    def cores_free(self) -> float | None:
        """Cores that no holder may use; None where one of them may use nobody knows how many."""
        held = [holder.cores for holder in self.holders]
        if self.cpu_cores is None or any(cores is None for cores in held):
            return None
        return max(0.0, self.cpu_cores - sum(cores or 0.0 for cores in held) - (self.cores_busy or 0.0))

    @property
    def memory_free_bytes(self) -> int | None:
        """Memory that no holder was seen to use; None where of one of them it is not known."""
        held = [holder.memory_bytes for holder in self.holders]
        if self.memory_bytes is None or any(amount is None for amount in held):
            return None
        return max(0, self.memory_bytes - sum(amount or 0 for amount in held) - (self.memory_busy_bytes or 0))


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
class ServerLedger:
    """A running server. A key of a team reads the history of its own runs there, and no nodes."""

    address: str

    def history(self, name: str, gpus: int, sku: str | None = None) -> History:
        """Return what runs of a name with so many GPUs of a kind took."""
        asked = {"name": name, "gpus": gpus, **({} if sku is None else {"sku": sku})}
        try:
            document = ask_server_json(self.address, f"{HISTORY_PATH}?{urlencode(asked)}")
        except ConfigError as error:  # it has read the question, and has no answer
            raise UnseenError(str(error)) from error
        with of_this_version(self.address):
            return history_of(document)

    def nodes(self) -> tuple[StockNode, ...]:
        """Return the nodes with what is free of them now."""
        document = ask_server_json(self.address, NODES_PATH)
        with of_this_version(self.address):
            return nodes_of(document)


def history_of(document: Mapping[str, Any]) -> History:
    """Return the history of a server's answer; what this version does not know in it is left.

    Raises:
        ValueError: something is not there, or of another shape.
    """
    history: History = typed(History, document)
    return history


def nodes_of(document: Mapping[str, Any]) -> tuple[StockNode, ...]:
    """Return the nodes of a server's answer. Raises as history_of()."""
    nodes: tuple[StockNode, ...] = typed(tuple[StockNode, ...], document.get("nodes"))
    return nodes
