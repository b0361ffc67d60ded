"""Ask the API, and tell its answer with every word of the fleet marked; bounded in rows and in bytes."""

from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from analyzer.errors import UnansweredError
from analyzer.findings.finding import FindingDocument
from analyzer.interfaces.api.costs import Cost, CostPage
from analyzer.interfaces.api.findings import FindingAnswer, FindingPage
from analyzer.interfaces.api.run_list import Run, RunPage
from analyzer.interfaces.api.topology import Node, TopologyPage
from analyzer.interfaces.mcp.answers import (
    Costs,
    CostTold,
    Explained,
    Findings,
    NodeTold,
    RackTold,
    Runs,
    RunTold,
    Topology,
)
from analyzer.interfaces.mcp.site import Query, Site
from analyzer.interfaces.mcp.untrusted import LIST_MOST, marked, marked_or_none, marked_text
from analyzer.reports.document import Listing
from analyzer.states import CLASSES

ROWS, ROWS_MOST = 20, 50
ANSWER_BYTES = 64 * 1024  # of one answer
_RACKS_MOST = 64

Document = TypeVar("Document", bound=BaseModel)
Read = TypeVar("Read", bound=Listing)
AnswerT = TypeVar("AnswerT", bound=BaseModel)


async def findings(site: Site, query: Query, rows: int, shown: str | None) -> Findings:
    """Return what was avoidable."""
    return await _rows(site, "/v1/findings", query, rows, shown, FindingPage, _findings)


async def explained(site: Site, finding_id: str, query: Query, shown: str | None) -> Explained:
    """Return one finding with its evidence."""
    found = await _asked(site, f"/v1/findings/{quote(finding_id, safe='')}", query, shown, FindingAnswer)
    return Explained(
        generation=found.generation,
        currency=found.currency,
        period=found.period,
        finding=marked(found.finding, FindingDocument),
        recommendation_ids=found.recommendation_ids[:LIST_MOST],
    )


async def runs(site: Site, query: Query, rows: int, shown: str | None) -> Runs:
    """Return who ran what."""
    return await _rows(site, "/v1/runs", query, rows, shown, RunPage, _runs)


async def costs(site: Site, by: str, query: Query, rows: int, shown: str | None) -> Costs:
    """Return what each bearer cost."""
    asked = {**query, "by": by}
    return await _rows(site, "/v1/costs", asked, rows, shown, CostPage, lambda page: _costs(page, by))


async def topology(site: Site, query: Query, rows: int, shown: str | None) -> Topology:
    """Return what stands where."""
    return await _rows(site, "/v1/topology", query, rows, shown, TopologyPage, _topology)


async def _rows(
    site: Site, path: str, query: Query, rows: int, shown: str | None, kind: type[Read], told: Callable[[Read], AnswerT]
) -> AnswerT:
    """Return as many rows as fit: where names are long it asks again for fewer, so that the cursor stays true."""
    while True:
        answer = told(await _asked(site, path, {**query, "limit": rows}, shown, kind))
        size = len(answer.model_dump_json(indent=2).encode())  # as it is sent
        if size <= ANSWER_BYTES or rows == 1:
            return answer
        rows = max(1, rows * ANSWER_BYTES // size)


async def _asked(site: Site, path: str, query: Query, shown: str | None, kind: type[Document]) -> Document:
    document = await site.ask(path, query, shown)
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        raise UnansweredError("the server answers in words that this release does not know; upgrade it") from error


def _head(page: Listing) -> dict[str, Any]:
    """Return what every listing begins with (answers.Page)."""
    return {
        "generation": page.generation,
        "currency": page.currency,
        "more": page.next_cursor is not None,
        "cursor": page.next_cursor,
    }


def _findings(page: FindingPage) -> Findings:
    return Findings(
        **_head(page),
        period=page.period,
        hours=page.hours,
        measured=page.measured,
        items=[marked(item, FindingDocument) for item in page.items],
    )


def _runs(page: RunPage) -> Runs:
    return Runs(
        **_head(page),
        period=page.period,
        items=[_run(item) for item in page.items],
    )


def _run(item: Run) -> RunTold:
    return RunTold(
        run_id=marked_text(item.run_id),
        name=marked_or_none(item.name),
        team=marked_or_none(item.team),
        project=marked_or_none(item.project),
        model=marked_or_none(item.model),
        queue=marked_or_none(item.queue),
        stage=marked_or_none(item.stage),
        exit_status=marked_or_none(item.exit_status),
        sku=marked_or_none(item.sku),
        started_at_iso=item.started_at_iso,
        ended_at_iso=item.ended_at_iso,
        running=item.running,
        gpus=item.gpus,
        nodes=item.nodes,
        racks=item.racks,
    )


def _costs(page: CostPage, by: str) -> Costs:
    return Costs(
        **_head(page),
        period=page.period,
        hours=page.hours,
        by=by,
        total=page.total,
        items=[_cost(item, by) for item in page.items],
    )


def _cost(item: Cost, by: str) -> CostTold:
    bearer: str | None = getattr(item, "run_id" if by == "run" else by)
    total = {name: getattr(item, name) for name in ("milliseconds", "cost_micros", "unpriced_milliseconds", "display")}
    classes = {name: getattr(item.classes, name) for name in CLASSES}
    return CostTold(bearer=marked_or_none(bearer), held=item.held, total=total, **classes)  # type: ignore[arg-type]


def _topology(page: TopologyPage) -> Topology:
    return Topology(
        **_head(page),
        hour_iso=page.hour_iso,
        node_count=page.nodes,
        gpu_count=page.gpus,
        racks=[
            RackTold(rack=marked_or_none(one.rack), nodes=one.nodes, gpus=one.gpus) for one in page.racks[:_RACKS_MOST]
        ],
        rack_count=len(page.racks),
        items=[_node(item) for item in page.items],
    )


def _node(item: Node) -> NodeTold:
    return NodeTold(
        node=marked_text(item.node),
        zone=marked_or_none(item.zone),
        block=marked_or_none(item.block),
        rack=marked_or_none(item.rack),
        node_group=marked_or_none(item.node_group),
        sku=marked_or_none(item.sku),
        gpus=item.gpus,
        gpu_memory_bytes=item.gpu_memory_bytes,
        cpu_cores=item.cpu_cores,
        host_memory_bytes=item.host_memory_bytes,
        local_nvme_bytes=item.local_nvme_bytes,
    )
