"""What the ledger can be summed by: each dimension's column, and the joins that lead to it; for reports and API."""

from collections.abc import Collection, Sequence
from typing import Literal

from analyzer.queries.booked import booked
from analyzer.queries.placed import placed
from analyzer.states import BOOKINGS

Dimension = Literal[
    "team", "user", "project", "model", "stage", "queue", "node_group", "held", "run", "node", "gpu", "sku",
    "purchase_option", "class", "state", "cause", "day", "hour",
]  # fmt: skip

# Each dimension: where its value stands, and the type that it has in a cursor.
COLUMNS: dict[str, tuple[str, type]] = {
    "team": ("l.team", str),
    "user": ("l.owner", str),
    "project": ("l.project", str),
    "model": ("l.model", str),
    "stage": ("l.stage", str),
    "queue": ("l.queue", str),
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
OF_RUNS = frozenset({"team", "user", "project", "model", "stage", "queue"})  # read with the runs of the ledger's rows
PEOPLE = frozenset({"user"})  # names of people: shown to owners and admins alone
_CLASSES = ", ".join(f"('{each.state}', nullif('{each.cause or ''}', ''), '{each.klass}')" for each in BOOKINGS)
_JOINS = {
    "h": placed("l"),
    "c": (
        f"LEFT JOIN (VALUES {_CLASSES}) c(state, cause, class) ON c.state = l.state "
        "AND c.cause IS NOT DISTINCT FROM l.cause"
    ),
    "d": "ASOF LEFT JOIN (SELECT unnest($days) AS day) d ON l.hour >= d.day",
    "s": "LEFT JOIN ledger_hours s ON s.hour = l.hour",
}


def ledger_source(conditions: Sequence[str], dimensions: Sequence[str] = (), joins: Collection[str] = ()) -> str:
    """Return FROM ... WHERE ... of the ledger `l` with what these dimensions need, and these joins besides.

    The join "r" is of its runs: their columns are then the ledger's.
    """
    needed = {*joins, *(COLUMNS[name][0][0] for name in dimensions)}
    text = " ".join(text for letter, text in _JOINS.items() if letter in needed)
    table = booked("ledger") if "r" in needed or not OF_RUNS.isdisjoint(dimensions) else "ledger"
    return f"FROM {table} l {text} WHERE {' AND '.join(conditions)}"
