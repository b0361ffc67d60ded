"""Which part of the ledger is meant, as SQL: the conditions of a request, and what its rows are grouped by."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Literal

from analyzer.api.asking import Selected
from analyzer.period import Calendar, Period, day_starts
from analyzer.report.which_run import find_run
from analyzer.states import BOOKINGS

if TYPE_CHECKING:
    from collector.store.session import Session

Dimension = Literal[
    "team", "project", "stage", "queue", "node_group", "held", "run", "node", "gpu", "sku", "purchase_option",
    "class", "state", "cause", "day", "hour",
]  # fmt: skip

DAYS_MAX = 36_600  # a century

# Each dimension: where its value stands, and the type that it has in a cursor.
COLUMNS: dict[str, tuple[str, type]] = {
    "team": ("r.team", str),
    "project": ("r.project", str),
    "stage": ("r.stage", str),
    "queue": ("r.queue", str),
    "node_group": ("h.node_group", str),
    "held": ("l.run_id IS NOT NULL", bool),
    "run": ("l.run_id", str),
    "node": ("l.node", str),
    "gpu": ("l.gpu_uuid", str),
    "sku": ("l.sku", str),
    "purchase_option": ("l.purchase_option", str),
    "class": ("c.class", str),
    "state": ("l.state", str),
    "cause": ("l.cause", str),
    "day": ("d.day", int),
    "hour": ("l.hour", int),
}
_CLASSES = ", ".join(f"('{each.state}', nullif('{each.cause or ''}', ''), '{each.klass}')" for each in BOOKINGS)
_JOINS = {
    "r": "LEFT JOIN runs r ON r.run_id = l.run_id",
    "h": (
        "LEFT JOIN (SELECT node, arg_max(node_group, (started_at, batch)) AS node_group FROM inventory "
        "WHERE gpu_uuid IS NULL GROUP BY node) h ON h.node = l.node"
    ),
    "c": (
        f"LEFT JOIN (VALUES {_CLASSES}) c(state, cause, class) ON c.state = l.state "
        "AND c.cause IS NOT DISTINCT FROM l.cause"
    ),
    "d": "ASOF LEFT JOIN (SELECT unnest($days) AS day) d ON l.hour >= d.day",
    "s": "LEFT JOIN ledger_hours s ON s.hour = l.hour",
}


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows of the ledger: FROM and WHERE, and the values that they name."""

    conditions: tuple[str, ...]
    values: dict[str, object]
    joins: frozenset[str] = field(default_factory=frozenset)

    def source(self, dimensions: Sequence[str] = (), *, classes: bool = False) -> str:
        """Return FROM … WHERE … with what these dimensions need."""
        needed = self.joins | {COLUMNS[name][0][0] for name in dimensions} | ({"c"} if classes else set())
        joins = " ".join(text for letter, text in _JOINS.items() if letter in needed)
        return f"FROM ledger l {joins} WHERE {' AND '.join(self.conditions)}"


def selection(session: "Session", asked: Selected, period: Period) -> Selection:
    """Return what a request selects.

    Raises:
        LedgerError: it names a run that is none, or several.
    """
    conditions, values = ["l.hour >= $start", "l.hour < $end"], dict[str, object](start=period.start, end=period.end)
    joins = set[str]()
    runs = sorted({find_run(session, text) for text in asked.run})
    wanted: dict[str, Sequence[object]] = {
        "team": asked.team, "project": asked.project, "queue": asked.queue, "stage": asked.stage,
        "node_group": asked.node_group, "run": runs, "state": asked.state, "cause": asked.cause, "class": asked.klass,
    }  # fmt: skip
    for name, accepted in wanted.items():
        if accepted:
            column = COLUMNS[name][0]
            conditions.append(f"list_contains(${name}, {column})")
            values[name] = list(accepted)
            joins.add(column[0])
    if asked.status:
        conditions.append("list_contains($status, s.status)")
        values["status"] = list(asked.status)
        joins.add("s")
    if asked.held is not None:
        conditions.append(f"(l.run_id IS NOT NULL) = {'true' if asked.held else 'false'}")
    return Selection(tuple(conditions), values, frozenset(joins - {"l"}))


def days_of(session: "Session", calendar: Calendar, period: Period) -> list[int]:
    """Return the first instant of each local day of a period, from the ledger's first hour on."""
    (first,) = session.row("SELECT coalesce(min(hour), 0) FROM ledger_hours")
    return list(islice(day_starts(max(first, period.start), period.end, calendar.timezone), DAYS_MAX))
