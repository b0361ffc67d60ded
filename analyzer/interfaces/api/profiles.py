"""GET /v1/profiles and /v1/runs/{id}/profile: what was measured of runs, as one document to keep and to compare.

It says where their GPU time went, on what evidence, and what was not judged. It forecasts nothing.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from analyzer.findings.finding import Finding, FindingDocument
from analyzer.interfaces.api.ledger import Selection, selection
from analyzer.interfaces.api.parameters import READS, Parameters, Selected
from analyzer.interfaces.api.request_service import RequestContext, RequestService
from analyzer.interfaces.api.runs import RunId
from analyzer.ledger.coverage import Hours, NotJudged, known_hours, not_judged
from analyzer.ledger.run_facts import find_run
from analyzer.period import Period
from analyzer.reports.document import Amounts, Document, Entry, Model, Span, entries
from analyzer.reports.run import run_span
from collector.store.session import Session

# The name here, the name in a window, and by what its whole numbers are divided.
_SIGNALS = (
    ("activity_ratio", "activity", 1000),
    ("utilization_ratio", "utilization", 1000),
    ("tensor_active_ratio", "tensor", 1000),
    ("dram_active_ratio", "dram", 1000),
    ("still_ratio", "still", 1000),
    ("power_limit_ratio", "power", 1000),
    ("clock_lost_ratio", "slowed_most", 1000),
    ("host_cpu_busy_ratio", "cpu_busy", 1000),
    ("cores_used", "cores_used_milli", 1000),
    ("cores_allotted", "cores_milli", 1000),
    ("disk_busy_ratio", "disk_busy", 1000),
    ("disk_read_bytes_per_second", "block_read", 1),
    ("mount_read_bytes_per_second", "mount_read", 1),
    ("rdma_transmit_bytes_per_second", "rdma_out", 600),
    ("worker_busiest_cpu_ratio", "busiest", 1000),
    ("worker_waiting_ratio", "waiting", 1000),
)
_QUANTILES = (10, 50, 90, 99)


class Signal(Model):
    """One signal over the windows in which it was measured: its mean by GPU time, its median, ninth tenth and peak."""

    name: str
    windows: int = Field(description="Ten-minute windows in which it was measured.")
    mean: float
    p50: float
    p90: float
    peak: float


class Activity(Model):
    """How busy the GPUs were while held, by GPU time: SM activity where it is measured, else NVML's utilization."""

    p10_ratio: float
    p50_ratio: float
    p90_ratio: float
    p99_ratio: float


def signals(session: Session, chosen: Selection, period: Period) -> list[Signal]:
    """Return what was measured of the selected runs; a signal that nobody reported is left out."""
    extracted = ", ".join(f"(counts->>'$.{field}')::BIGINT AS v{place}" for place, (_, field, _) in enumerate(_SIGNALS))
    counted = ", ".join(
        f"count(v{place}), sum(v{place}::HUGEINT * ms) FILTER (v{place} IS NOT NULL), "
        f"sum(ms) FILTER (v{place} IS NOT NULL), quantile_disc(v{place}, 0.5), quantile_disc(v{place}, 0.9), "
        f"max(v{place})"
        for place in range(len(_SIGNALS))
    )
    row = session.row(
        f"""
        WITH windows AS (
            SELECT greatest((counts->>'$.ms')::BIGINT, 1) AS ms, {extracted} FROM run_windows
            WHERE window_start >= $from AND window_start < $until AND run_id IN (SELECT l.run_id {chosen.source()})
        )
        SELECT {counted} FROM windows
        """,
        chosen.values | {"from": period.start, "until": period.end},
    )
    found = (_signal(name, row[6 * place : 6 * place + 6], per) for place, (name, _, per) in enumerate(_SIGNALS))
    return [signal for signal in found if signal is not None]


def _signal(name: str, figures: tuple[Any, ...], per: int) -> Signal | None:
    windows, weighted, weight, median, tenth, peak = figures
    if not windows:
        return None
    p50, p90, most = (_ratio(value, per) for value in (median, tenth, peak))
    return Signal(name=name, windows=windows, mean=_ratio(weighted, weight * per), p50=p50, p90=p90, peak=most)


def _ratio(part: int, whole: int) -> float:
    return round(part / whole, 6)


def activity(session: Session, chosen: Selection, period: Period) -> Activity | None:
    """Return the exact distribution of activity, by GPU time; None where none was measured."""
    wanted = ", ".join(f"min(permille) FILTER (upto * 100 >= whole * {each})" for each in _QUANTILES)
    row = session.row(
        f"""
        WITH busy AS (
            SELECT permille, sum(milliseconds) AS ms FROM run_activity
            WHERE hour >= $from AND hour < $until AND run_id IN (SELECT l.run_id {chosen.source()}) GROUP BY permille
        ), upto AS (
            SELECT permille, sum(ms) OVER (ORDER BY permille) AS upto, sum(ms) OVER () AS whole FROM busy
        )
        SELECT {wanted} FROM upto
        """,
        chosen.values | {"from": period.start, "until": period.end},
    )
    if row[0] is None:
        return None
    return Activity(**{f"p{each}_ratio": value / 1000 for each, value in zip(_QUANTILES, row, strict=True)})


_RUNS_NAMED = 100


class Profile(Document):
    """What was measured of a run, or of several: figures of `hours` that are not final may still change."""

    period: Span
    hours: Hours
    runs: int
    run_ids: list[str] = Field(description=f"The {_RUNS_NAMED} that held most GPU time.")
    gpus: int = Field(description="Number of different GPUs they held.")
    skus: list[str]
    total: Amounts
    entries: tuple[Entry, ...]
    activity: Activity | None
    signals: list[Signal] = Field(description="A signal that was not reported is left out.")
    evidence: list[FindingDocument] = Field(description="Their findings, suspicions too.")
    not_judged: tuple[NotJudged, ...]


def profile_routes(service: RequestService) -> APIRouter:
    """Return the routes."""
    router = APIRouter()

    @router.get("/profiles", response_model=Profile, responses=READS, tags=["runs"])
    def profile(request: Request, asked: Annotated[Selected, Query()]) -> Response:
        """Measurements of a set of runs: all that the parameters select, together."""
        return service.answer(request, lambda context: _profile_of_set(context, asked))

    @router.get("/runs/{run_id:path}/profile", response_model=Profile, responses=READS, tags=["runs"])
    def run_profile(request: Request, run_id: RunId, _asked: Annotated[Parameters, Query()]) -> Response:
        """Measurements of one run, over its whole life."""
        return service.answer(request, lambda context: _profile_of_run(context, run_id))

    return router


def _profile_of_run(context: RequestContext, text: str) -> Profile:
    """Return the profile of one run.

    Raises:
        LedgerError: no run answers to this text, or the ledger has no hour of it.
    """
    run_id = find_run(context.session, text)
    period = run_span(context.session, run_id, context.reader.settings.timezone)
    return _profile(
        context, Selection(("l.run_id = $run",), {"run": run_id}), period, context.reader.of_run(run_id, period)
    )


def _profile_of_set(context: RequestContext, asked: Selected) -> Profile:
    period = context.period(asked.since, asked.until)
    chosen = selection(context.session, asked, period)
    held = Selection((*chosen.conditions, "l.run_id IS NOT NULL"), chosen.values, chosen.joins)
    own = {run_id for (run_id,) in context.session.rows(f"SELECT DISTINCT l.run_id {held.source()}", held.values)}
    found = [
        finding for finding in context.reader.findings(period) if finding.run_ids and own.issuperset(finding.run_ids)
    ]
    return _profile(context, held, period, found)


def _profile(context: RequestContext, chosen: Selection, period: Period, found: list[Finding]) -> Profile:
    session = context.session
    runs, gpus, skus = session.row(
        "SELECT count(DISTINCT l.run_id), count(DISTINCT l.gpu_uuid), "
        f"coalesce(list(DISTINCT l.sku ORDER BY l.sku) FILTER (l.sku IS NOT NULL), []) {chosen.source()}",
        chosen.values,
    )
    most = session.rows(
        f"SELECT l.run_id {chosen.source()} GROUP BY l.run_id ORDER BY sum(l.milliseconds) DESC, l.run_id "
        f"LIMIT {_RUNS_NAMED}",
        chosen.values,
    )
    total, spent = entries(chosen.sums(session), context.currency)
    one = most[0][0] if runs == 1 else None
    missing = not_judged(session, period, one) if one else ()
    return Profile(
        **context.head(),
        period=period,
        hours=known_hours(session, period),
        runs=runs,
        run_ids=[run_id for (run_id,) in most],
        gpus=gpus,
        skus=skus,
        total=total,
        entries=spent,
        activity=activity(session, chosen, period),
        signals=signals(session, chosen, period),
        evidence=list(context.reader.documents(found, period)),
        not_judged=missing,
    )
