"""GET /v1/topology and /v1/plan/…: what stands where, and what a plan takes of it (docs/planning.md).

A team's key reads the history of that team's runs. What is free of the fleet tells what others do: no key of a team
is shown it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema
from starlette.responses import Response

from analyzer.capacity.planner.ledger import Peaks, StoreLedger
from analyzer.errors import ConfigError, EmptyLedgerError
from analyzer.interfaces.api.parameters import READS, MeaninglessError, Paged, Parameters, Text, Texts
from analyzer.interfaces.api.request_service import RequestContext, RequestService
from analyzer.interfaces.questions.sizing import read_known
from analyzer.queries.ledger_query import QueuedRun
from analyzer.queries.statements import statements
from analyzer.reports.document import Document, Iso, Listing, Micros, Model, iso
from analyzer.sizing.fitting import GpuKind
from analyzer.sizing.sized import PastRun


class _TopologyAsked(Paged):
    """Which hosts. Several values of one parameter are alternatives."""

    rack: Texts = Field([])
    node_group: Texts = Field([])
    sku: Texts = Field([])


class Node(Model):
    """One host. null is not reported."""

    node: str
    region: str | None
    zone: str | None
    block: str | None = Field(description="Block or spine group.")
    rack: str | None
    node_group: str | None
    topology_source: str | None = Field(description="Where its rack, block and zone were read.")
    sku: str | None = Field(description="Its kind of GPU: H100-80GB.")
    gpus: int
    gpu_memory_bytes: int | None = Field(description="Of one GPU.")
    cpu_cores: int | None
    host_memory_bytes: int | None
    local_nvme_bytes: int | None


class Rack(Model):
    """What a rack holds; `rack` null is all hosts whose rack is not known."""

    rack: str | None
    nodes: int
    gpus: int


class TopologyPage(Listing):
    """Hosts of which the ledger's newest hour books GPUs, by name. `racks` are of all hosts asked for, on any page."""

    hour: Micros
    hour_iso: Iso
    nodes: int
    gpus: int
    racks: list[Rack]
    items: list[Node]


def _topology_page(context: RequestContext, asked: _TopologyAsked) -> TopologyPage:
    """Return one page of hosts.

    Raises:
        LedgerError: the ledger is empty.
    """
    place = context.place(asked.cursor, (str,))
    (hour,) = context.whole.session.row("SELECT max(hour) FROM ledger_hours")
    if hour is None:
        raise EmptyLedgerError
    nodes = [node for node in _nodes(context) if _is_wanted(node, asked)]
    after = [node for node in nodes if place is None or node.node > str(place.key[0])]
    shown = after[: asked.limit]
    return TopologyPage(
        **context.head(),
        next_cursor=context.next((shown[-1].node,), None) if len(after) > len(shown) else None,
        hour=hour,
        hour_iso=iso(hour),
        nodes=len(nodes),
        gpus=sum(node.gpus for node in nodes),
        racks=_racks(nodes),
        items=shown,
    )


def _nodes(context: RequestContext) -> list[Node]:
    (told,) = statements("interfaces/topology.sql")
    rows: Sequence[tuple[Any, ...]] = context.whole.session.rows(told)
    return [Node(**dict(zip(Node.model_fields, row, strict=True))) for row in rows]


def _is_wanted(node: Node, asked: _TopologyAsked) -> bool:
    return (
        (not asked.rack or node.rack in asked.rack)
        and (not asked.node_group or node.node_group in asked.node_group)
        and (not asked.sku or node.sku in asked.sku)
    )


def _racks(nodes: Sequence[Node]) -> list[Rack]:
    """Return the racks by name, those hosts last whose rack nobody has told."""
    hosts, gpus = Counter(node.rack for node in nodes), Counter[str | None]()
    for node in nodes:
        gpus[node.rack] += node.gpus
    order = sorted(hosts, key=lambda rack: (rack is None, rack or ""))
    return [Rack(rack=rack, nodes=hosts[rack], gpus=gpus[rack]) for rack in order]


_MOST_GPUS = 10_000


class _HistoryAsked(Parameters):
    """Which runs."""

    name: Text = Field(description="Runs of exactly this name.")
    gpus: int = Field(0, ge=0, le=_MOST_GPUS, description="Runs that held this number of GPUs.")
    sku: Text | SkipJsonSchema[None] = Field(
        None, description="Runs on this kind of GPU; optional where they ran on only one kind."
    )


class HistoryDocument(Document):
    """Wall times of the newest completed runs of one name, size and kind of GPU, on one host, of a gang on several.

    From the first GPU held to the last given back.
    """

    name: str
    gpus: int
    sku: str | None = Field(description="The kind of GPU they ran on; null: none.")
    seconds: list[int] = Field(description="One for each run, the shortest first.")
    restarted: int = Field(description="Number of runs with more than one attempt.")
    unfinished: int = Field(description="Number of such runs that did not complete; no figure counts them.")
    first_at: Micros
    first_at_iso: Iso
    last_at: Micros
    last_at_iso: Iso
    peaks: Peaks
    crossing_permille: int | None = Field(
        description="Of a gang: how long it takes in several racks beside one, in thousandths; null: not known."
    )


class HolderTold(Model):
    """A run that holds a part of a host. `until` is when its time limit ends, null where nobody knows."""

    run_id: str
    name: str
    gpus: int
    cores: float | None
    memory_bytes: int | None
    until: Micros | None
    until_iso: Iso | None


class StockTold(Model):
    """One host, what it has, and who holds what of it now. null is not known, and never none."""

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
    price_micros_per_gpu_hour: int | None = Field(description="Price of one GPU-hour of it in the last day.")
    is_up: bool = Field(description="As reported by its scheduler.")
    holders: list[HolderTold]
    cores_busy: float | None = Field(description="Of hosts without GPUs, where their holders are not known.")
    memory_busy_bytes: int | None


class StockDocument(Document):
    """Every host of the last day of the ledger, by name, and the runs that wait, in their scheduler's order."""

    nodes: list[StockTold]
    queue: tuple[QueuedRun, ...]


class SizingDocument(Document):
    """What `gpuledger capacity size --server` sizes by."""

    kinds: tuple[GpuKind, ...]
    runs: tuple[PastRun, ...]


def fleet_routes(service: RequestService) -> APIRouter:
    """Return the routes."""
    router = APIRouter()

    @router.get("/topology", response_model=TopologyPage, responses=READS, tags=["ledger"])
    def topology(request: Request, asked: Annotated[_TopologyAsked, Query()]) -> Response:
        """Which hosts stand in which rack, with how many GPUs of which kind."""
        return service.answer(request, lambda context: _topology_page(context, asked))

    @router.get("/plan/history", response_model=HistoryDocument, responses=READS, tags=["plans"])
    def history(request: Request, asked: Annotated[_HistoryAsked, Query()]) -> Response:
        """How long a recurring job takes, by its runs that completed; 404 where they are too few to say."""
        return service.answer(request, lambda context: _history_document(context, asked))

    @router.get("/plan/nodes", response_model=StockDocument, responses=READS, tags=["plans"])
    def nodes(request: Request) -> Response:
        """Which hosts there are, with what others hold of them now."""
        return service.answer(request, _stock_document, follows_ledger=False)

    @router.get("/sizing", response_model=SizingDocument, responses=READS, tags=["plans"])
    def sizing(request: Request) -> Response:
        """Which kinds of GPU may be chosen at what price, and what runs of the last 90 days took and cost."""
        return service.answer(request, _sizing_document, follows_ledger=False)

    return router


def _history_document(context: RequestContext, asked: _HistoryAsked) -> HistoryDocument:
    """Return what runs of a name took.

    Raises:
        MeaninglessError: there are too few, or of several kinds of GPU.
    """
    try:
        found = StoreLedger(context.session).history(asked.name, asked.gpus, asked.sku)
    except ConfigError as error:  # the question can be read; the ledger has no answer to it
        raise MeaninglessError(str(error)) from error
    return HistoryDocument(**context.head() | asdict(found))


def _stock_document(context: RequestContext) -> StockDocument:
    """Return the hosts with what is free of them.

    Raises:
        LedgerError: the ledger is empty.
    """
    ledger = StoreLedger(context.session)
    nodes = [StockTold.model_validate(node) for node in ledger.nodes()]
    return StockDocument(**context.head(), nodes=nodes, queue=ledger.queue())


def _sizing_document(context: RequestContext) -> SizingDocument:
    """Return what sizes a model.

    Raises:
        LedgerError: the ledger is empty.
    """
    known = read_known(context.session, context.reader.settings)
    return SizingDocument(**context.head(), kinds=known.kinds, runs=known.runs)
