"""GET /v1/topology: which hosts stand where, with which GPUs. Places belong to the site and to no team."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from analyzer.errors import LedgerError
from analyzer.interfaces.api.parameters import READS, Paged, Texts
from analyzer.interfaces.api.request_service import RequestContext, RequestService
from analyzer.ledger.coverage import EMPTY
from analyzer.queries.statements import statements
from analyzer.reports.document import Iso, Listing, Micros, Model, iso


class TopologyAsked(Paged):
    """Which hosts. Several values of one parameter are alternatives."""

    rack: Texts = Field([])
    node_group: Texts = Field([])
    sku: Texts = Field([])


class Node(Model):
    """One host. null is what nobody has told."""

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


def topology_routes(service: RequestService) -> APIRouter:
    """Return the routes."""
    router = APIRouter()

    @router.get("/topology", response_model=TopologyPage, responses=READS, tags=["ledger"])
    def topology(request: Request, asked: Annotated[TopologyAsked, Query()]) -> Response:
        """Which hosts stand in which rack, with how many GPUs of which kind."""
        return service.answer(request, lambda context: _topology_page(context, asked))

    return router


def _topology_page(context: RequestContext, asked: TopologyAsked) -> TopologyPage:
    """Return one page of hosts.

    Raises:
        LedgerError: the ledger is empty.
    """
    place = context.place(asked.cursor, (str,))
    (hour,) = context.whole.session.row("SELECT max(hour) FROM ledger_hours")
    if hour is None:
        raise LedgerError(EMPTY)
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


def _is_wanted(node: Node, asked: TopologyAsked) -> bool:
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
