"""Make predictions of recommendations: what they stand on, and what their runs held, read from the ledger."""

from collections.abc import Mapping, Sequence

from analyzer.findings.finding import Finding
from analyzer.ledger.coverage import known_hours, newest_hour_end
from analyzer.period import Period
from analyzer.recommendations.lifecycle.prediction import (
    Amount,
    Prediction,
    Span,
    Versions,
    lost_by,
    name_of,
    nodes_of,
    runs_of,
    shares_version,
    weekly_quantiles,
)
from analyzer.recommendations.recommendation import Recommendation
from analyzer.recommendations.saving import Share
from collector.store.session import Session

_NOTHING = Amount(None, None)


def predicted(
    session: Session,
    advice: Sequence[Recommendation],
    found: Sequence[Finding],
    period: Period,
    made_at_us: int,
    realised: Mapping[str, Share] | None = None,
) -> list[Prediction]:
    """Return what these recommendations of a period predict; of one that is not over yet, as far as it is known.

    `realised` are the shares that took the place of assumed ones.
    """
    known = known_hours(session, period)
    end = min(period.end, newest_hour_end(session) or period.end)
    span = Span(period.start, end, period.label)
    rules = known.rules_versions[-1] if known.rules_versions else None
    versions = Versions(
        shares_version(realised or {}), rules, known.price_versions[-1] if known.price_versions else None
    )
    held, made = _held(session, span), []
    for one in advice:
        own, lost = lost_by(one, found)
        runs = runs_of(one, own)
        made.append(
            Prediction(
                one.id,
                made_at_us,
                span,
                one.kind,
                one.subject,
                one.team,
                one.title,
                one.finding_ids,
                runs,
                nodes_of(one, own),
                weekly_quantiles(one, one.saves_milliseconds),
                weekly_quantiles(one, one.saves_micros) if one.saves_micros else None,
                lost,
                held.get((name_of(one.subject, runs), one.team), _NOTHING) if runs else _NOTHING,
                versions,
            )
        )
    return made


def _held(session: Session, span: Span) -> dict[tuple[str, str | None], Amount]:
    """Return what all runs of a name and team held: what they are compared with once a change is applied."""
    rows = session.rows(
        "SELECT coalesce(name, run_id), team, sum(milliseconds)::BIGINT, sum(cost_micros)::BIGINT "
        "FROM ledger JOIN runs USING (run_id) WHERE hour >= ? AND hour < ? GROUP BY ALL",
        [span.start, span.end],
    )
    return {(name, team): Amount(milliseconds, micros) for name, team, milliseconds, micros in rows}
