"""GET /v1/runs and all below it: who ran what, where one run's GPU time went, its traffic, and its series."""

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from agent.wire.contract import Column
from agent.wire.tables import TABLES
from analyzer.interfaces.api.parameters import READS, GoneError, Opt, Paged, Parameters, Spanned, Texts
from analyzer.interfaces.api.request_service import RequestContext, RequestService
from analyzer.ledger.run_facts import find_run
from analyzer.measures.traffic.run_traffic import RunTraffic
from analyzer.period import Period
from analyzer.reports.document import Document, Iso, Micros, Model, Span, iso
from analyzer.reports.run import RunDocument, RunPage, known_span, run_span, runs_where
from collector.lake.series import CHARTED, MAX_POINTS, Series, Subject, gpus_of_run, hosts, series
from collector.store.session import Session

RunId = Annotated[
    str,
    Path(
        min_length=1,
        max_length=500,
        description="Its id or a unique end of it, its name, or `last`.",
        examples=["last"],
    ),
]


class _RunsAsked(Spanned, Paged):
    """Which runs: those that held a GPU in the period, or, without one, all."""

    team: Texts = Field([])
    project: Texts = Field([])
    model: Texts = Field([])
    queue: Texts = Field([])
    stage: Texts = Field([])
    exit_status: Texts = Field([])
    name: Texts = Field([])
    running: bool | Opt = Field(None, description="Whether it is running, as far as the ledger knows.")


class _RunAsked(Parameters):
    """How much of a run."""

    details: bool = Field(
        False, description="Also efficiency, traffic and energy, which need more than the ledger and take longer."
    )


_CELLS_MAX = 10_000


class RunTrafficDocument(Document):
    """One run's traffic. The cells of its matrix are the largest."""

    period: Span
    traffic: RunTraffic
    left_out: int = Field(description="Number of cells of the matrix that were left out.")


_HeldSpans = Mapping[str, Collection[tuple[int, int]]]  # by GPU or host: from when until when
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


class _SeriesAsked(Parameters):
    """What of a run, from when until when, how finely."""

    column: Annotated[list[_GpuColumn], Field(max_length=_COLUMNS_MAX)] = Field(
        ["utilization_ratio"], description="Columns of each of its GPUs."
    )
    host_column: Annotated[list[_HostColumn], Field(max_length=_COLUMNS_MAX)] = Field(
        [], description="Columns of each of its hosts."
    )
    start: _Instant | Opt = Field(None, description="Microseconds; default: the start of the run.")
    end: _Instant | Opt = Field(
        None, description="Microseconds; default: the end of the ledger's last hour of the run."
    )
    points: int = Field(500, ge=2, le=MAX_POINTS, description="Maximum number of points per series.")
    subjects: int = Field(16, ge=1, le=_SUBJECTS_MAX, description="Maximum number of GPUs, and of hosts.")


class OneSeries(Model):
    """One column of one GPU or host. Point n holds from `start + n * step`.

    null is a gap: not reported, or not held by the run.
    """

    kind: Literal["gpu", "host"]
    subject: str = Field(description="The GPU's UUID or the host's name.")
    column: str
    start: Micros
    start_iso: Iso
    step: int = Field(description="Microseconds between two points.")
    mean: list[float | None] = Field(description="Of an amount: per second.")
    least: list[float | None]
    most: list[float | None]


class SeriesDocument(Document):
    """How a run did over time. `left_out` counts GPUs and hosts beyond `subjects`."""

    run_id: str
    left_out: int
    items: list[OneSeries]


def run_routes(service: RequestService) -> APIRouter:
    """Return the routes; that of one run comes last, for its id has slashes."""
    router = APIRouter()

    @router.get("/runs", response_model=RunPage, responses=READS, tags=["runs"])
    def runs(request: Request, asked: Annotated[_RunsAsked, Query()]) -> Response:
        """Runs, newest first."""
        return service.answer(request, lambda context: _run_page(context, asked))

    @router.get("/runs/{run_id:path}/series", response_model=SeriesDocument, responses=READS, tags=["runs"])
    def run_series(request: Request, run_id: RunId, asked: Annotated[_SeriesAsked, Query()]) -> Response:
        """How a run's GPUs and hosts did over time."""
        return service.answer(request, lambda context: _series_document(context, run_id, asked), follows_ledger=False)

    @router.get("/runs/{run_id:path}/traffic", response_model=RunTrafficDocument, responses=READS, tags=["runs"])
    def run_traffic(request: Request, run_id: RunId, _asked: Annotated[Parameters, Query()]) -> Response:
        """What a run moved between its hosts and beyond: measured, estimated, and not attributed."""
        return service.answer(request, lambda context: _traffic_document(context, run_id), follows_ledger=False)

    @router.get("/runs/{run_id:path}", response_model=RunDocument, responses=READS, tags=["runs"])
    def run(request: Request, run_id: RunId, asked: Annotated[_RunAsked, Query()]) -> Response:
        """One run: its facts, and where its GPU time went."""
        return service.answer(
            request,
            lambda context: _run_document(context, run_id, details=asked.details),
            follows_ledger=not asked.details,
        )

    return router


def _run_page(context: RequestContext, asked: _RunsAsked) -> RunPage:
    place = context.place(asked.cursor, (int, str))
    period = place.period if place else None
    if period is None and (asked.since is not None or asked.until is not None):
        period = context.period(asked.since, asked.until)
    conditions, values = _conditions(asked, period)
    found = runs_where(context.session, conditions, values, asked.limit + 1, place.key if place else None)
    shown = found[: asked.limit]
    last = shown[-1] if len(found) > asked.limit else None
    start = None if last is None or last.started_at is None else -last.started_at
    return RunPage(
        **context.head(),
        next_cursor=None if last is None else context.next((start, last.run_id), period),
        period=period,
        items=shown,
    )


def _conditions(asked: _RunsAsked, period: Period | None) -> tuple[list[str], dict[str, object]]:
    values: dict[str, object] = {
        name: list(accepted)
        for name in ("team", "project", "model", "queue", "stage", "exit_status", "name")
        if (accepted := getattr(asked, name))
    }
    conditions = [f"list_contains(${name}, {name})" for name in values]
    if asked.running is not None:
        conditions.append(f"(started_at IS NOT NULL AND ended_at IS NULL) = {'true' if asked.running else 'false'}")
    if period is not None:
        conditions.append("started_at < $end AND coalesce(ended_at, $end) > $start")
        values |= {"start": period.start, "end": period.end}
    return conditions, values


def _run_document(context: RequestContext, text: str, *, details: bool) -> RunDocument:
    """Return one run, as far as the ledger knows it.

    Raises:
        LedgerError: no run, or several, answer to this text.
    """
    reader = context.reader
    run_id = find_run(reader.session, text)
    period = known_span(reader.session, run_id, reader.settings.timezone)
    document = reader.run_document(run_id, period, context.generation)
    if not details or period is None:
        return document
    traffic = reader.traffic(run_id, period) if len(document.nodes) > 1 else None
    return reader.with_details(document).model_copy(update={"traffic": traffic})


def _traffic_document(context: RequestContext, text: str) -> RunTrafficDocument:
    """Return the traffic of one run that may be seen.

    Raises:
        LedgerError: no run, or several, answer to this text; or it held no host that is known.
    """
    run_id = find_run(context.session, text)  # whose run it is, is known by now: samples name no team
    period = run_span(context.session, run_id, context.reader.settings.timezone)
    traffic = context.reader.traffic(run_id, period)
    if traffic is None:
        raise GoneError(f"no host of {run_id} is known")
    cells = sorted(traffic.matrix.cells, key=lambda cell: (-cell.bytes, cell.from_, cell.to, cell.basis))
    matrix = replace(traffic.matrix, cells=tuple(cells[:_CELLS_MAX]))
    left_out = max(0, len(cells) - _CELLS_MAX)
    return RunTrafficDocument(
        **context.head(), period=period, traffic=replace(traffic, matrix=matrix), left_out=left_out
    )


def _series_document(context: RequestContext, text: str, asked: _SeriesAsked) -> SeriesDocument:
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


def _span(context: RequestContext, run_id: str, asked: _SeriesAsked) -> tuple[int, int]:
    known = run_span(context.session, run_id, context.reader.settings.timezone)
    (began,) = context.session.row("SELECT started_at FROM runs WHERE run_id = ?", [run_id])
    start = asked.start if asked.start is not None else max(known.start, began or known.start)
    end = asked.end if asked.end is not None else known.end
    if not known.start <= start < end or start >= known.end:
        raise GoneError(f"no time of {run_id} lies between start and end; it is known from {iso(known.start)}")
    return start, min(end, known.end)


def _held(session: Session, run_id: str) -> _HeldSpans:
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


def _item(kind: Literal["gpu", "host"], one: Series, held: _HeldSpans) -> OneSeries:
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
