"""The runs of a period, dearest first: what each cost and what it lost most to."""

from collections import defaultdict
from dataclasses import dataclass

from analyzer.period import Period
from analyzer.queries.ledger_query import Breakdown, Counted, fold, within
from analyzer.text.words import amount, at_least, gpu_hours, percent
from collector.store.session import Session

_RUNS_SHOWN = 25


@dataclass(frozen=True, slots=True)
class RunLine:
    """One run as the page lists it; `money` is None where nothing of it has a price."""

    run_id: str
    name: str
    team: str
    stage: str
    hours: str
    money: str | None
    useful: str
    largest_loss: str


def run_list(session: Session, period: Period) -> tuple[RunLine, ...]:
    """Return the runs that held most GPU time."""
    where, values = within(period)
    rows = session.rows(
        f"WITH held AS (SELECT * FROM ledger WHERE {where} AND run_id IS NOT NULL), "
        "top AS (SELECT run_id, sum(milliseconds) AS ms FROM held GROUP BY run_id "
        f"ORDER BY sum(cost_micros) DESC NULLS LAST, ms DESC, run_id LIMIT {_RUNS_SHOWN}) "
        "SELECT held.run_id, name, team, stage, state, cause, sum(milliseconds), sum(cost_micros) "
        "FROM held JOIN top USING (run_id) LEFT JOIN runs USING (run_id) "
        "GROUP BY held.run_id, name, team, stage, state, cause, cost_micros IS NULL",
        values,
    )
    counted: dict[tuple[str, str | None, str | None, str | None], list[Counted]] = defaultdict(list)
    for run_id, name, team, stage, *count in rows:
        counted[run_id, name, team, stage].append((count[0], count[1], count[2], count[3]))
    found = [(key, Breakdown(fold(counts))) for key, counts in counted.items()]
    found.sort(key=lambda pair: (-(pair[1].cost_micros or 0), -pair[1].milliseconds, pair[0][0]))
    return tuple(_line(*key, breakdown) for key, breakdown in found)


def _line(run_id: str, name: str | None, team: str | None, stage: str | None, breakdown: Breakdown) -> RunLine:
    whole, measured = breakdown.milliseconds, breakdown.measured.milliseconds
    cost = breakdown.cost_micros
    lost = max(breakdown.of("avoidable").entries, key=lambda entry: entry.milliseconds, default=None)
    return RunLine(
        run_id,
        name or run_id.rsplit("/", 1)[-1],
        team or "unmapped",
        stage or "",
        gpu_hours(whole),
        None if cost is None else at_least(amount(cost, 2), breakdown.is_part),
        percent(breakdown.of("useful").milliseconds, measured),
        f"{lost.label} {percent(lost.milliseconds, measured)}" if lost else "" if measured else "not measured",
    )
