"""GET /v1/hours: which hours the ledger has, how settled each is, and how much of it was measured."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from analyzer.interfaces.api.parameters import READS, VALUES_MAX, Paged, Spanned
from analyzer.interfaces.api.request_service import RequestContext, RequestService
from analyzer.ledger.coverage import known_hours
from analyzer.reports.document import Coverage, Iso, Listing, Micros, Milliseconds, Model, Span, Status, iso

_HOURS = """
WITH page AS (
    SELECT hour, status, rules_version, price_version FROM ledger_hours
    WHERE hour >= $start AND hour < $end AND hour > $after AND ($every OR list_contains($status, status))
    ORDER BY hour LIMIT $limit
)
SELECT p.hour, p.status, p.rules_version, p.price_version, count(DISTINCT l.gpu_uuid),
    coalesce(sum(l.milliseconds), 0)::BIGINT,
    coalesce(sum(l.milliseconds) FILTER (l.state = 'unobserved'), 0)::BIGINT,
    coalesce(sum(l.milliseconds) FILTER (l.cost_micros IS NULL), 0)::BIGINT
FROM page p LEFT JOIN ledger l ON l.hour = p.hour GROUP BY ALL ORDER BY p.hour
"""


class HoursAsked(Spanned, Paged):
    """Which hours."""

    status: Annotated[list[Status], Field(max_length=VALUES_MAX)] = Field([])


class Hour(Model):
    """One hour of the ledger. `open` may still change, `closed` ones are corrected by adjustments, `final` ones are."""

    hour: Micros
    hour_iso: Iso
    status: Status
    rules_version: str
    price_version: str | None
    gpus: int = Field(description="GPUs that the hour has rows of.")
    milliseconds: Milliseconds
    unobserved_milliseconds: Milliseconds = Field(description="Of them not measured.")
    unpriced_milliseconds: Milliseconds = Field(description="Of them without a price.")


class HourPage(Listing):
    """Hours of a period, the earliest first."""

    period: Span
    hours: Coverage
    items: list[Hour]


def hour_routes(service: RequestService) -> APIRouter:
    """Return the routes."""
    router = APIRouter()

    @router.get("/hours", response_model=HourPage, responses=READS, tags=["ledger"])
    def list_hours(request: Request, asked: Annotated[HoursAsked, Query()]) -> Response:
        """Which hours the ledger has, and how far they are settled and measured."""
        return service.answer(request, lambda context: _hour_page(context, asked))

    return router


def _hour_page(context: RequestContext, asked: HoursAsked) -> HourPage:
    """Return one page of hours."""
    place = context.place(asked.cursor, (int,))
    period = place.period if place and place.period else context.period(asked.since, asked.until)
    values: dict[str, object] = {
        "start": period.start,
        "end": period.end,
        "after": place.key[0] if place else period.start - 1,
        "every": not asked.status,
        "status": list(asked.status),
        "limit": asked.limit + 1,
    }
    rows = context.session.rows(_HOURS, values)
    shown = rows[: asked.limit]
    return HourPage(
        **context.head(),
        next_cursor=context.next((shown[-1][0],), period) if len(rows) > len(shown) else None,
        period=Span.of(period),
        hours=Coverage.of(known_hours(context.session, period)),
        items=[_item(*row) for row in shown],
    )


def _item(
    hour: int, status: Status, rules: str, prices: str | None, gpus: int, whole: int, silent: int, unpriced: int
) -> Hour:
    return Hour(
        hour=hour,
        hour_iso=iso(hour),
        status=status,
        rules_version=rules,
        price_version=prices,
        gpus=gpus,
        milliseconds=whole,
        unobserved_milliseconds=silent,
        unpriced_milliseconds=unpriced,
    )
