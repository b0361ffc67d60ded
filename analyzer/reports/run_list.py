"""The runs of a period: all of them in an order, or a page of those that somebody looks for."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Final, Literal, get_args

from analyzer.period import Period
from analyzer.queries.ledger_query import Breakdown, BreakdownEntry, Counted, fold, ledger_source
from analyzer.reports.request import Order
from analyzer.reports.run import RunFacts
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
        return self.breakdown.main_loss


@dataclass(frozen=True, slots=True)
class RunList:
    """All runs that held a GPU in a period, in the order that was asked for."""

    period: Period
    currency: str
    runs: tuple[RunSummary, ...]


# What a sheet has of each run, exact.
RUN_COLUMNS = (
    "run_id", "name", "team", "gpus", "sku", "started_us", "ended_us", "exit_status", "milliseconds", "cost_micros",
    "useful_ms", "avoidable_ms", "measured_ms", "lost_most_to", "lost_ms",
)  # fmt: skip


def run_values(run: RunSummary, known: RunFacts | None) -> tuple[object, ...]:
    """Return the values of RUN_COLUMNS; `known` is what is known of the run beside the ledger."""
    went, lost = run.breakdown, run.main_loss
    return (
        run.run_id, run.name, run.team, run.gpus, run.sku, known.started_at if known else None,
        known.ended_at if known else None, known.exit_status if known else None, went.milliseconds,
        went.cost_micros, went.of("useful").milliseconds, went.of("avoidable").milliseconds,
        went.measured.milliseconds, lost.label if lost else None, lost.milliseconds if lost else None,
    )  # fmt: skip


Sort = Literal["cost", "avoidable", "hours", "useful", "started", "gpus", "name", "team", "state"]
RunState = Literal[
    "running", "completed", "failed", "cancelled", "preempted", "node_failed", "timeout", "out_of_memory"
]  # fmt: skip
SORTS: Final = get_args(Sort)
RUN_STATES: Final = get_args(RunState)
_SORTED_BY: dict[Sort, str] = {
    "cost": "micros DESC NULLS LAST, ms DESC",
    "avoidable": "avoidable_micros DESC NULLS LAST, avoidable_ms DESC",
    "hours": "ms DESC",
    "useful": "useful_ms / nullif(measured_ms, 0) NULLS LAST",  # the least useful first: that is what is looked for
    "started": "started_at DESC NULLS LAST",
    "gpus": "gpus DESC NULLS LAST, ms DESC",
    "name": "lower(coalesce(name, run_id))",
    "team": "lower(known.team) NULLS LAST",
    "state": "known.ended_at IS NOT NULL, known.exit_status NULLS LAST",
}
_FOUND = """
WITH held AS (
    SELECT l.*, c.class {source}
), summed AS (
    SELECT run_id, sum(milliseconds) AS ms, sum(cost_micros) AS micros,
        sum(milliseconds) FILTER (class = 'useful') AS useful_ms,
        sum(milliseconds) FILTER (class <> 'unknown') AS measured_ms,
        sum(milliseconds) FILTER (class = 'avoidable') AS avoidable_ms,
        sum(cost_micros) FILTER (class = 'avoidable') AS avoidable_micros
    FROM held GROUP BY run_id
), found AS (
    SELECT run_id, count(*) OVER () AS total, row_number() OVER (ORDER BY {order}, run_id) AS place
    FROM summed LEFT JOIN runs AS known USING (run_id) WHERE {conditions}
    QUALIFY place > {skipped} AND place <= {skipped} + {most}
)
SELECT run_id, place, total, known.name, known.team, known.gpus, known.sku, held.state, held.cause,
    sum(held.milliseconds), sum(held.cost_micros)
FROM held JOIN found USING (run_id) LEFT JOIN runs AS known USING (run_id)
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, held.cost_micros IS NULL ORDER BY place
"""
_OF_USER = "SELECT run_id FROM runs AS known WHERE {conditions}"
_RUNS_OF_USER_MOST = 100_000
_ALL = 2**62


@dataclass(frozen=True, slots=True)
class RunSearch:
    """Which runs are looked for; None is any. `text` is part of a name, id, project, model, queue, stage or node.

    `people` is whether it may be part of a user's name too. `user` is one user's name, as the scheduler has it or with
    the domain that a provider of sign-in adds.
    """

    text: str | None = None
    team: str | None = None
    user: str | None = None
    queue: str | None = None
    sku: str | None = None
    state: RunState | None = None
    sort: Sort = "cost"
    people: bool = False

    @property
    def conditions(self) -> tuple[str, dict[str, object]]:
        """What `summed LEFT JOIN runs AS known` must meet, and its values."""
        found: dict[str, str] = {}
        if self.text:
            columns = ["run_id", "known.name", "known.project", "known.model", "known.queue", "known.stage"]
            named = " OR ".join(
                f"contains(lower({column}), lower($text))" for column in [*columns, *["known.owner"] * self.people]
            )
            on_node = "run_id IN (SELECT run_id FROM held WHERE contains(lower(node), lower($text)))"
            found["text"] = f"({named} OR {on_node})"
        if self.team:
            found["team"] = "known.team = $team"
        if self.user:
            found["user"] = "known.owner IN ($user, split_part($user, '@', 1))"
        if self.queue:
            found["queue"] = "known.queue = $queue"
        if self.sku:
            found["sku"] = "run_id IN (SELECT run_id FROM held WHERE sku = $sku)"
        values: dict[str, object] = {name: getattr(self, name) for name in found}
        if self.state == "running":
            found["state"] = "known.ended_at IS NULL"
        elif self.state:
            found["state"] = "known.ended_at IS NOT NULL AND known.exit_status = $state"
            values["state"] = self.state
        return " AND ".join(found.values()) or "true", values


@dataclass(frozen=True, slots=True)
class RunPage:
    """Some of the runs that were found, in the order that was asked for, and how many there are in all."""

    runs: tuple[RunSummary, ...]
    total: int


def search_runs(session: Session, period: Period, asked: RunSearch, most: int, skipped: int = 0) -> RunPage:
    """Return a page of the runs of a period: what the others of a large fleet did is not read one by one."""
    conditions, values = asked.conditions
    statement = _FOUND.format(
        source=ledger_source(["l.hour >= $start", "l.hour < $end", "l.run_id IS NOT NULL"], joins=["c"]),
        order=_SORTED_BY[asked.sort],
        conditions=conditions,
        skipped=skipped,
        most=most,
    )
    counted: dict[str, list[Counted]] = defaultdict(list)
    known = {}
    rows = session.rows(statement, values | {"start": period.start, "end": period.end})
    for run_id, _, _, name, team, gpus, sku, *count in rows:
        counted[run_id].append((count[0], count[1], count[2], count[3]))
        known[run_id] = (name or run_id.rsplit("/", 1)[-1], team, gpus, sku)
    runs = (RunSummary(run_id, *known[run_id], Breakdown(fold(counts))) for run_id, counts in counted.items())
    return RunPage(tuple(runs), rows[0][2] if rows else 0)


def user_breakdown(session: Session, period: Period, user: str) -> Breakdown:
    """Return where the time of all runs of a user went in a period."""
    conditions, values = RunSearch(user=user).conditions
    own = f"l.run_id IN ({_OF_USER.format(conditions=conditions)})"
    rows = session.rows(
        "SELECT l.state, l.cause, sum(l.milliseconds), sum(l.cost_micros) "
        f"{ledger_source(['l.hour >= $start', 'l.hour < $end', own])} GROUP BY l.state, l.cause, l.cost_micros IS NULL",
        values | {"start": period.start, "end": period.end},
    )
    return Breakdown(fold((state, cause, milliseconds, cost) for state, cause, milliseconds, cost in rows))


def user_runs(session: Session, user: str) -> frozenset[str]:
    """Return the ids of a user's runs, of so many as are looked at."""
    conditions, values = RunSearch(user=user).conditions
    rows = session.rows(f"{_OF_USER.format(conditions=conditions)} LIMIT {_RUNS_OF_USER_MOST}", values)
    return frozenset(run_id for (run_id,) in rows)


def list_runs(session: Session, period: Period, currency: str, order: Order) -> RunList:
    """Return all runs of a period; equal ones stand in the order of their ids."""
    asked = RunSearch(sort="cost" if order == "busy" else order)
    return RunList(period, currency, search_runs(session, period, asked, _ALL).runs)


def most_expensive_runs(session: Session, period: Period, most: int) -> tuple[RunSummary, ...]:
    """Return the runs that cost most, at most so many."""
    return search_runs(session, period, RunSearch(), most).runs
