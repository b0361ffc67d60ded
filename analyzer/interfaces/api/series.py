"""GET /v1/runs/{id}/series: how a run's GPUs and hosts did over time, for charts, from the tier that gives it.

The only reading here that is not of the ledger: minutes, hours or samples, whichever are the fewest that will do.
"""

import math
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from agent.wire.contract import Column
from agent.wire.tables import TABLES
from analyzer.interfaces.api.faults import GoneError
from analyzer.interfaces.api.parameters import READS, Opt, Parameters
from analyzer.interfaces.api.request_service import RequestContext, RequestService
from analyzer.interfaces.api.runs import RunId, span_of
from analyzer.ledger.which_run import find_run
from analyzer.reports.document import Document, Iso, Micros, Model, iso
from collector.lake.series import CHARTED, MAX_POINTS, Series, Subject, gpus_of_run, hosts, series
from collector.store.session import Session

HeldSpans = Mapping[str, Collection[tuple[int, int]]]  # by GPU or host: from when until when
_EVER = 2**62
_SUBJECTS_MAX = 64
_COLUMNS_MAX = 8
_VALUES_MAX = 150_000  # in one answer: of more series each has fewer points


def _names(table: str) -> tuple[str, ...]:
    charted: list[Column] = [
        column for column in TABLES[table].columns if column.kind in CHARTED and column.type in ("int64", "float64")
    ]
    return tuple(column.name for column in charted)


_GPU_COLUMNS, _HOST_COLUMNS = _names("gpu_samples"), _names("host_samples")
_GpuColumn = Literal[_GPU_COLUMNS]  # type: ignore[valid-type]  # the contract, once
_HostColumn = Literal[_HOST_COLUMNS]  # type: ignore[valid-type]
_Instant = Annotated[int, Field(ge=0, le=2**62)]


class SeriesAsked(Parameters):
    """What of a run, from when until when, how finely."""

    column: Annotated[list[_GpuColumn], Field(max_length=_COLUMNS_MAX)] = Field(
        ["utilization_ratio"], description="Of each of its GPUs."
    )
    host_column: Annotated[list[_HostColumn], Field(max_length=_COLUMNS_MAX)] = Field(
        [], description="Of each of its hosts."
    )
    start: _Instant | Opt = Field(None, description="Microseconds; by default where the run began.")
    end: _Instant | Opt = Field(None, description="Microseconds; by default where the ledger's last hour of it ends.")
    points: int = Field(500, ge=2, le=MAX_POINTS, description="The most points of each series.")
    subjects: int = Field(16, ge=1, le=_SUBJECTS_MAX, description="The most GPUs, and the most hosts.")


class OneSeries(Model):
    """One column of one GPU or host. Point n holds from `start + n * step`.

    null is a gap: nothing was told, or the run did not hold it.
    """

    kind: Literal["gpu", "host"]
    subject: str = Field(description="The GPU's UUID or the host's name.")
    column: str
    start: Micros
    start_iso: Iso
    step: int = Field(description="Microseconds between two points.")
    mean: list[float | None] = Field(description="Of an amount: how much a second.")
    least: list[float | None]
    most: list[float | None]


class SeriesDocument(Document):
    """How a run did over time. `left_out` counts GPUs and hosts beyond `subjects`."""

    run_id: str
    left_out: int
    items: list[OneSeries]


def series_routes(service: RequestService) -> APIRouter:
    """Return the routes."""
    router = APIRouter()

    @router.get("/runs/{run_id:path}/series", response_model=SeriesDocument, responses=READS, tags=["runs"])
    def run_series(request: Request, run_id: RunId, asked: Annotated[SeriesAsked, Query()]) -> Response:
        """How a run's GPUs and hosts did over time."""
        return service.answer(request, lambda context: _series_document(context, run_id, asked), follows_ledger=False)

    return router


def _series_document(context: RequestContext, text: str, asked: SeriesAsked) -> SeriesDocument:
    """Return the series of one run that may be seen.

    Raises:
        LedgerError: no run, or several, answer to this text; it has no time, or none that was asked for.
    """
    run_id = find_run(context.session, text)  # whose run it is, is known by now: samples name no team
    start, end = _span(context, run_id, asked)
    gpus = gpus_of_run(context.whole.session, run_id)
    nodes = dict.fromkeys(gpus.nodes)
    shown = Subject(gpus.table, gpus.key, gpus.values[: asked.subjects], gpus.nodes)
    hosted = hosts(tuple(nodes)[: asked.subjects])
    columns, host_columns = list(dict.fromkeys(asked.column)), list(dict.fromkeys(asked.host_column))
    count = len(shown.values) * len(columns) + len(hosted.values) * len(host_columns)
    points = max(2, min(asked.points, _VALUES_MAX // (3 * max(1, count))))
    session, held = context.whole.session, _held(context.whole.session, run_id)
    items = [_item("gpu", each, held) for each in series(session, shown, columns, start, end, points)]
    items += [_item("host", each, held) for each in series(session, hosted, host_columns, start, end, points)]
    left_out = len(gpus.values) - len(shown.values) + (len(nodes) - len(hosted.values)) * bool(host_columns)
    return SeriesDocument(**context.head(), run_id=run_id, left_out=left_out, items=items)


def _span(context: RequestContext, run_id: str, asked: SeriesAsked) -> tuple[int, int]:
    known = span_of(context, run_id)
    if known is None:
        raise GoneError(f"the ledger has no GPU time of {run_id}: it waited, or its hours are not analysed yet")
    (began,) = context.session.row("SELECT started_at FROM runs WHERE run_id = ?", [run_id])
    start = asked.start if asked.start is not None else max(known.start, began or known.start)
    end = asked.end if asked.end is not None else known.end
    if not known.start <= start < end or start >= known.end:
        raise GoneError(f"no time of {run_id} lies between start and end; it is known from {iso(known.start)}")
    return start, min(end, known.end)


def _held(session: Session, run_id: str) -> HeldSpans:
    """Return when the run held each GPU, and was on each host: what others did there before and after is theirs."""
    rows = session.rows(
        "SELECT gpu_uuid, node, started_at, coalesce(ended_at, ?) FROM allocations "
        "WHERE run_id = ? AND started_at IS NOT NULL",
        [_EVER, run_id],
    )
    held: dict[str, set[tuple[int, int]]] = {}
    for gpu, node, start, end in rows:
        for subject in (gpu, node):
            held.setdefault(subject, set()).add((start, end))
    return held


def _item(kind: Literal["gpu", "host"], one: Series, held: HeldSpans) -> OneSeries:
    spans = held.get(one.subject, ())
    points = range(one.start, one.start + len(one.mean) * one.step_us, one.step_us)
    shown = [any(start < at + one.step_us and end > at for start, end in spans) for at in points]
    return OneSeries(
        kind=kind,
        subject=one.subject,
        column=one.column,
        start=one.start,
        start_iso=iso(one.start),
        step=one.step_us,
        mean=_values(one.mean, shown),
        least=_values(one.least, shown),
        most=_values(one.most, shown),
    )


def _values(numbers: Any, shown: list[bool]) -> list[float | None]:  # noqa: ANN401 - an Arrow array
    told = zip(numbers.to_pylist(), shown, strict=True)
    return [value if is_shown and value is not None and math.isfinite(value) else None for value, is_shown in told]
