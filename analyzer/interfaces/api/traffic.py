"""GET /v1/runs/{id}/traffic: who of a run sent how much to whom, how far it went, and how its ring crosses racks.

Like the series it reads hours, minutes and samples, and not the ledger alone.
"""

from datetime import date
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from analyzer.interfaces.api.faults import GoneError
from analyzer.interfaces.api.parameters import READS, Parameters
from analyzer.interfaces.api.request_service import RequestContext, RequestService
from analyzer.interfaces.api.runs import RunId, span_of
from analyzer.ledger.which_run import find_run
from analyzer.measures.traffic.locality import Locality
from analyzer.measures.traffic.matrix import Basis, Link, Way
from analyzer.measures.traffic.run_traffic import RunTraffic
from analyzer.measures.traffic.tariff import tariff_book
from analyzer.measures.traffic.traffic_query import read_traffic
from analyzer.reports.document import CostMicros, Document, Milliseconds, Model, Span
from analyzer.text.as_json import plain_data

_CELLS_MAX = 10_000
_Bytes = Annotated[int, Field(description="Bytes.")]


class TrafficHost(Model):
    """One host of the run. `order` is its place in the last attempt's ring, null where ranks are unknown."""

    node: str
    rack: str | None
    block: str | None
    zone: str | None
    region: str | None
    order: int | None
    shared_permille: int = Field(description="Of the run's time on it, how much other runs were there too.")


class TrafficClass(Model):
    """Bytes by the widest border they are known to have crossed; each byte once."""

    locality: Locality
    bytes: _Bytes
    estimated_bytes: _Bytes = Field(description="Of them, what RDMA ports moved: to whom is estimated.")


class TrafficRing(Model):
    """How often the ring of hosts, in the order of their ranks, changes its rack, block or zone."""

    level: str
    hosts: int
    places: int | None
    crossings: int | None
    contiguous: int | None = Field(description="With the ranks ordered by place: the fewest.")
    interleaved: int | None = Field(description="With the ranks alternating: the most.")
    missing: str | None


class TrafficBill(Model):
    """Bytes over a border that has tariffs. `cost_micros` is null where none is known; `source` then says why."""

    locality: Locality
    bytes: _Bytes
    cost_micros: CostMicros | None
    source: str
    as_of: date | None


class TrafficWaited(Model):
    """GPU time that the ledger booked to crossing racks; it is never added to what tariffs make."""

    milliseconds: Milliseconds
    cost_micros: CostMicros | None


class TrafficCell(Model):
    """Bytes from one end to another. `basis`: tcp is counted; ring and peers are estimated from RDMA ports."""

    from_: str = Field(alias="from")
    to: str
    bytes: _Bytes
    basis: Basis


class TrafficBalance(Model):
    """One host's links: told + other_runs + unattributed - excess = link bytes.

    Of a host that was shared, a team's key sees its own bytes alone.
    """

    node: str
    link: Link
    way: Way
    link_bytes: _Bytes | None
    told_bytes: _Bytes
    other_runs_bytes: _Bytes | None
    unattributed_bytes: _Bytes | None
    excess_bytes: _Bytes | None


class TrafficDocument(Document):
    """One run's traffic. `cells` are the largest, `left_out` counts the others."""

    run_id: str
    period: Span
    hosts: list[TrafficHost]
    classes: list[TrafficClass]
    rings: list[TrafficRing]
    ring_crossing_bytes: _Bytes | None = Field(description="Estimated: what the ring moved across racks.")
    ring_contiguous_bytes: _Bytes | None = Field(description="Estimated: with the ranks ordered by rack.")
    link_bytes: _Bytes | None = Field(description="Of the hosts that the run had for itself, both ways.")
    unattributed_bytes: _Bytes | None
    bills: list[TrafficBill]
    waited: TrafficWaited | None
    missing: list[str]
    doubts: list[str]
    cells: list[TrafficCell]
    left_out: int
    balances: list[TrafficBalance]


def traffic_routes(service: RequestService) -> APIRouter:
    """Return the routes."""
    router = APIRouter()

    @router.get("/runs/{run_id:path}/traffic", response_model=TrafficDocument, responses=READS, tags=["runs"])
    def run_traffic(request: Request, run_id: RunId, _asked: Annotated[Parameters, Query()]) -> Response:
        """What a run moved between its hosts and beyond: counted, estimated, and not attributed."""
        return service.answer(request, lambda context: _traffic_document(context, run_id), follows_ledger=False)

    return router


def _traffic_document(context: RequestContext, text: str) -> TrafficDocument:
    """Return the traffic of one run that may be seen.

    Raises:
        LedgerError: no run, or several, answer to this text; or it held no host that is known.
    """
    run_id = find_run(context.session, text)  # whose run it is, is known by now: samples name no team
    period = span_of(context, run_id)
    if period is None:
        raise GoneError(f"the ledger has no GPU time of {run_id}: it waited, or its hours are not analysed yet")
    tariffs = tariff_book(context.reader.settings)
    found = read_traffic(context.whole.session, [run_id], period.start, period.end, tariffs).get(run_id)
    if found is None:
        raise GoneError(f"no host is known that {run_id} held")
    cells = sorted(found.matrix.cells, key=lambda cell: (-cell.bytes, cell.from_, cell.to, cell.basis))
    return TrafficDocument(
        **context.head(),
        run_id=run_id,
        period=Span.of(period),
        hosts=[_host(found, index) for index in range(len(found.hosts))],
        classes=[TrafficClass.model_validate(one, from_attributes=True) for one in found.classes],
        rings=[TrafficRing.model_validate(one, from_attributes=True) for one in found.rings],
        ring_crossing_bytes=found.ordered.now_bytes if found.ordered else None,
        ring_contiguous_bytes=found.ordered.contiguous_bytes if found.ordered else None,
        link_bytes=found.link_bytes,
        unattributed_bytes=found.unattributed_bytes,
        bills=[TrafficBill.model_validate(one, from_attributes=True) for one in found.bills],
        waited=TrafficWaited.model_validate(found.waited, from_attributes=True) if found.waited else None,
        missing=list(found.missing),
        doubts=list(found.doubts) if context.scope.teams is None else [],
        cells=[TrafficCell.model_validate(plain_data(one)) for one in cells[:_CELLS_MAX]],
        left_out=max(0, len(cells) - _CELLS_MAX),
        balances=_balances(found, confined=context.scope.teams is not None),
    )


def _host(found: RunTraffic, index: int) -> TrafficHost:
    host = found.hosts[index]
    place = host.place
    return TrafficHost(
        node=host.node,
        rack=place.rack,
        block=place.block,
        zone=place.zone,
        region=place.region,
        order=host.order,
        shared_permille=host.shared_permille,
    )


def _balances(found: RunTraffic, *, confined: bool) -> list[TrafficBalance]:
    """Return the balances; of a host where others were too, a team is not told what they moved."""
    hidden = {host.node for host in found.hosts if host.shared_permille} if confined else set()
    return [
        TrafficBalance(
            node=one.node,
            link=one.link,
            way=one.way,
            link_bytes=None if one.node in hidden else one.link_bytes,
            told_bytes=one.told_bytes,
            other_runs_bytes=None if one.node in hidden else one.other_runs_bytes,
            unattributed_bytes=None if one.node in hidden else one.unattributed_bytes,
            excess_bytes=None if one.node in hidden else one.excess_bytes,
        )
        for one in found.matrix.balances
    ]
