"""Read a period's workloads, and what is known against each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.finops.portfolio.review import Reviewed, Workload, review
from analyzer.finops.unit_cost.report import UnitLine, unit_report
from analyzer.period import Calendar, Period
from analyzer.queries.statements import statements
from analyzer.states import words_of
from collector.store.session import Session

if TYPE_CHECKING:
    from analyzer.recommendations.recommendation import Recommendation

_OF = {"useful": words_of("useful"), "avoidable": words_of("avoidable")}


@dataclass(frozen=True, slots=True)
class Portfolio:
    """A period's workloads, dearest first, each with its word."""

    period: Period
    currency: str
    reviewed: tuple[Reviewed, ...]


def portfolio(
    session: Session, period: Period, calendar: Calendar, currency: str, advice: "Sequence[Recommendation]"
) -> Portfolio:
    """Review a period's workloads against its unit economics and what is recommended now."""
    (query,) = statements("finops/portfolio/names.sql")
    rows = session.rows(query, {"start": period.start, "end": period.end, **_OF})
    workloads = [
        Workload(name, team, stage, runs, tuple(sku for sku in skus if sku), *amounts)
        for name, team, stage, runs, skus, *amounts in rows
    ]
    units: dict[tuple[str, str | None], UnitLine] = {}
    for line in unit_report(session, period, calendar, currency).units:
        units.setdefault((line.name, line.team), line)
    open_: dict[tuple[str, str | None], list[tuple[str, str]]] = {}
    named = _names(session, [run for one in advice for run in one.run_ids])
    for one in advice:
        for whose in sorted({named[run] for run in one.run_ids if run in named}, key=str):
            open_.setdefault(whose, []).append((one.id, one.kind))
    return Portfolio(period, currency, review(workloads, units, open_))


def _names(session: Session, run_ids: Sequence[str]) -> dict[str, tuple[str, str | None]]:
    rows = session.rows(
        "SELECT run_id, coalesce(name, run_id), team FROM runs WHERE list_contains(?::VARCHAR[], run_id)",
        [sorted(set(run_ids))],
    )
    return {run_id: (name, team) for run_id, name, team in rows}
