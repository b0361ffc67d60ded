"""Which part of the ledger is meant, as SQL: the conditions of a request, and what its rows are grouped by."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from analyzer.interfaces.api.parameters import Selected
from analyzer.ledger.which_run import find_run
from analyzer.period import Calendar, Period, day_starts
from analyzer.queries.dimensions import COLUMNS, OF_RUNS, ledger_source
from collector.store.session import Session

_DAYS_MAX = 36_600  # a century


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows of the ledger: FROM and WHERE, and the values that they name."""

    conditions: tuple[str, ...]
    values: dict[str, object]
    joins: frozenset[str] = field(default_factory=frozenset)

    def source(self, dimensions: Sequence[str] = (), *, classes: bool = False) -> str:
        """Return FROM … WHERE … with what these dimensions need."""
        return ledger_source(self.conditions, dimensions, self.joins | ({"c"} if classes else set()))


def selection(session: Session, asked: Selected, period: Period) -> Selection:
    """Return what a request selects.

    Raises:
        LedgerError: it names a run that is none, or several.
    """
    conditions, values = ["l.hour >= $start", "l.hour < $end"], dict[str, object](start=period.start, end=period.end)
    joins = set[str]()
    runs = sorted({find_run(session, text) for text in asked.run})
    wanted: dict[str, Sequence[object]] = {
        "team": asked.team, "project": asked.project, "model": asked.model, "queue": asked.queue, "stage": asked.stage,
        "node_group": asked.node_group, "run": runs, "state": asked.state, "cause": asked.cause, "class": asked.klass,
    }  # fmt: skip
    for name, accepted in wanted.items():
        if accepted:
            column = COLUMNS[name][0]
            conditions.append(f"list_contains(${name}, {column})")
            values[name] = list(accepted)
            joins.add("r" if name in OF_RUNS else column[0])
    if asked.status:
        conditions.append("list_contains($status, s.status)")
        values["status"] = list(asked.status)
        joins.add("s")
    if asked.held is not None:
        conditions.append(f"(l.run_id IS NOT NULL) = {'true' if asked.held else 'false'}")
    return Selection(tuple(conditions), values, frozenset(joins - {"l"}))


def days_of(session: Session, calendar: Calendar, period: Period) -> list[int]:
    """Return the first instant of each local day of a period, from the ledger's first hour on."""
    (first,) = session.row("SELECT coalesce(min(hour), 0) FROM ledger_hours")
    return list(islice(day_starts(max(first, period.start), period.end, calendar.timezone), _DAYS_MAX))
