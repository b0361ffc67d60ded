"""By which signal the measured time was judged: SM activity where the GPU tells it, else NVML's utilization.

Each run's held time in the ledger, which divides shared GPUs among their holders, is divided as its telemetry of the
period was (`run_doings`). Time that nobody held, was not measured, or was on a broken GPU is judged by neither.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from analyzer.period import Period
from analyzer.queries.booked import booked
from analyzer.queries.ledger_query import known_sum, within
from collector.store.session import Session

_JUDGED = """
WITH held AS (
    SELECT run_id, team, sku, sum(milliseconds)::HUGEINT AS ms FROM {ledger} l
    WHERE {where} AND run_id IS NOT NULL AND state NOT IN ('unobserved', 'broken') GROUP BY run_id, team, sku
), told AS (
    SELECT run_id, sum(measured_ms)::HUGEINT AS all_ms, sum(sm_ms)::HUGEINT AS sm_ms,
        sum(measured_ms) FILTER (sm_ms IS NOT NULL)::HUGEINT AS known_ms FROM run_doings WHERE {where} GROUP BY run_id
), judged AS (
    SELECT team, sku, ms, ms * known_ms // nullif(all_ms, 0) AS known, ms * sm_ms // nullif(all_ms, 0) AS sm
    FROM held LEFT JOIN told USING (run_id)
)
SELECT team, sku, sum(ms)::BIGINT, sum(sm)::BIGINT, sum(known - sm)::BIGINT
FROM judged GROUP BY ALL ORDER BY ALL
"""


@dataclass(frozen=True, slots=True)
class MeasuredWith:
    """Measured GPU milliseconds of one kind of GPU, and by what they were judged.

    `sm_activity` and `utilization` are None where an earlier release counted all of it, and fall short of
    `milliseconds` where it counted a part.
    """

    sku: str | None
    milliseconds: int
    sm_activity: int | None
    utilization: int | None


def by_what(session: Session, period: Period) -> tuple[MeasuredWith, ...]:
    """Return the measured time that runs held by kind of GPU, most first."""
    return _by_kind(judged for _, judged in _rows(session, period))


def by_what_of_teams(session: Session, period: Period) -> dict[str, tuple[MeasuredWith, ...]]:
    """Return the same of each team's runs."""
    found: dict[str, list[MeasuredWith]] = {}
    for team, judged in _rows(session, period):
        if team is not None:
            found.setdefault(team, []).append(judged)
    return {team: _by_kind(own) for team, own in found.items()}


def _rows(session: Session, period: Period) -> list[tuple[str | None, MeasuredWith]]:
    where, values = within(period)
    return [
        (team, MeasuredWith(*row))
        for team, *row in session.rows(_JUDGED.format(ledger=booked("ledger"), where=where), [*values, *values])
    ]


def _by_kind(every: Iterable[MeasuredWith]) -> tuple[MeasuredWith, ...]:
    kinds: dict[str | None, list[MeasuredWith]] = {}
    for one in every:
        kinds.setdefault(one.sku, []).append(one)
    sums = [
        MeasuredWith(
            sku,
            sum(one.milliseconds for one in own),
            known_sum(one.sm_activity for one in own),
            known_sum(one.utilization for one in own),
        )
        for sku, own in kinds.items()
    ]
    return tuple(sorted(sums, key=lambda one: (-one.milliseconds, one.sku or "")))
