"""All of the API, put together."""

import logging
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import JSONResponse, Response

from analyzer.errors import ConfigError, LedgerError
from analyzer.interfaces.api.adjustments import adjustment_routes
from analyzer.interfaces.api.capacity import capacity_routes
from analyzer.interfaces.api.costs import cost_routes
from analyzer.interfaces.api.decisions import decision_routes
from analyzer.interfaces.api.faults import BusyError, MeaninglessError, PeopleError, WholeError
from analyzer.interfaces.api.finding_words import finding_word_routes
from analyzer.interfaces.api.findings import finding_routes
from analyzer.interfaces.api.for_plans import plan_routes
from analyzer.interfaces.api.hours import hour_routes
from analyzer.interfaces.api.invoices import invoice_routes
from analyzer.interfaces.api.ledger import ledger_routes
from analyzer.interfaces.api.notices import notice_routes
from analyzer.interfaces.api.openapi import document
from analyzer.interfaces.api.profiles import profile_routes
from analyzer.interfaces.api.recommendations import advice_routes
from analyzer.interfaces.api.request_service import RequestService
from analyzer.interfaces.api.runs import one_run_routes, run_routes
from analyzer.interfaces.api.savings import savings_routes
from analyzer.interfaces.api.series import series_routes
from analyzer.interfaces.api.sizing import sizing_routes
from analyzer.interfaces.api.topology import topology_routes
from analyzer.interfaces.api.traffic import traffic_routes
from analyzer.queries.generation import ByGeneration
from analyzer.recommendations.advice_options import LossSource
from analyzer.server_client import WRONG_USAGE
from analyzer.settings.settings import Settings
from collector.errors import RegistryError, StoreError
from collector.problem import answer_with_problems, problem_response, sentences
from collector.store.session import Session

_LOG = logging.getLogger(__name__)


def add_api(
    app: FastAPI,
    open_session: Callable[[], Session],
    settings: Settings,
    loss_source: LossSource | None = None,
    kept: ByGeneration | None = None,
) -> RequestService:
    """Add the API to an application, its document, and its way of refusing; return the desk that pages ask, too.

    `kept` is what is made once for all who read one state of the ledger.
    """
    service = RequestService(open_session, settings, loss_source, kept=kept)
    app.include_router(_api_routes(service), prefix="/v1")

    made: list[dict[str, Any]] = []  # once, when it is first asked for: all routes are there by then

    @app.get("/v1/openapi.json", include_in_schema=False)
    def openapi() -> JSONResponse:
        if not made:
            made.append(document(app))
        return JSONResponse(made[0])

    answer_with_problems(app)
    app.add_exception_handler(ConfigError, sentences(400))
    app.add_exception_handler(PeopleError, sentences(403))
    app.add_exception_handler(WholeError, sentences(403))
    app.add_exception_handler(LedgerError, sentences(404))
    app.add_exception_handler(MeaninglessError, sentences(404, reason=WRONG_USAGE))
    app.add_exception_handler(StoreError, _unreadable)
    app.add_exception_handler(RegistryError, _silent)
    app.add_exception_handler(BusyError, _busy)
    return service


def _unreadable(request: Request, error: Exception) -> Response:
    """Say that the store cannot be read; what it said of its inside is for the log alone."""
    _LOG.error("%s could not be read: %s", request.url.path, error)
    return problem_response(503, "the store cannot be read now; the server's log says why", {"Retry-After": "5"})


def _silent(request: Request, error: Exception) -> Response:
    """Say that the registry cannot be asked; what it said of its inside is for the log alone."""
    _LOG.error("%s could not ask the registry: %s", request.url.path, error)
    return problem_response(503, "the registry does not answer now; the server's log says why", {"Retry-After": "5"})


def _busy(_: Request, error: Exception) -> Response:
    return problem_response(503, str(error), {"Retry-After": "5"})


def _api_routes(service: RequestService) -> APIRouter:
    """Return all routes below /v1; that of one run comes last, for its id may have slashes."""
    router = APIRouter()
    for routes in (
        run_routes, series_routes, profile_routes, traffic_routes, ledger_routes, cost_routes, finding_routes,
        finding_word_routes, advice_routes, decision_routes, savings_routes, notice_routes, adjustment_routes,
        hour_routes, topology_routes, plan_routes, sizing_routes, invoice_routes, capacity_routes,
        one_run_routes,
    ):  # fmt: skip
        router.include_router(routes(service))
    return router
