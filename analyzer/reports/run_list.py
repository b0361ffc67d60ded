"""The runs of a period: what each held and cost, how much of that was useful, and what it lost most to."""

from collections import defaultdict
from dataclasses import dataclass

from analyzer.period import Period
from analyzer.queries.ledger_query import Breakdown, BreakdownEntry, Counted, fold, within
from analyzer.reports.request import Order
from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run. `gpus` is how many it asked for, `sku` None where it held several kinds of GPU."""

    run_id: str
    name: str  # what people call it, else the last part of its id
    team: str | None
    gpus: int | None
    sku: str | None
    breakdown: Breakdown

    @property
    def main_loss(self) -> BreakdownEntry | None:
        """What most avoidable time of it went to; None where there is none."""
        return max(self.breakdown.of("avoidable").entries, key=lambda entry: entry.milliseconds, default=None)


@dataclass(frozen=True, slots=True)
class RunList:
    """All runs that held a GPU in a period, in the order that was asked for."""

    period: Period
    currency: str
    runs: tuple[RunSummary, ...]


def list_runs(session: Session, period: Period, currency: str, order: Order) -> RunList:
    """Return the runs of a period; equal ones stand in the order of their ids."""
    where, values = within(period)
    rows = session.rows(
        "SELECT run_id, known.name, known.team, known.gpus, known.sku, held.state, held.cause, "
        "sum(held.milliseconds), sum(held.cost_micros) "
        f"FROM (SELECT * FROM ledger WHERE {where} AND run_id IS NOT NULL) AS held "
        "LEFT JOIN runs AS known USING (run_id) "
        "GROUP BY 1, 2, 3, 4, 5, 6, 7, held.cost_micros IS NULL",
        values,
    )
    counted: dict[str, list[Counted]] = defaultdict(list)
    known = {}
    for run_id, name, team, gpus, sku, *count in rows:
        counted[run_id].append((count[0], count[1], count[2], count[3]))
        known[run_id] = (name or run_id.rsplit("/", 1)[-1], team, gpus, sku)
    runs = [RunSummary(run_id, *known[run_id], Breakdown(fold(counts))) for run_id, counts in counted.items()]
    return RunList(period, currency, tuple(sorted(runs, key=lambda run: (*_rank(run, order), run.run_id))))


def _rank(run: RunSummary, order: Order) -> tuple[int, int]:
    """Return what sorts a run: by money where it has a price, else by time."""
    share = run.breakdown.of("avoidable") if order == "avoidable" else run.breakdown
    if order == "gpus":
        return -(run.gpus or 0), -share.milliseconds
    return -(share.cost_micros or 0), -share.milliseconds
