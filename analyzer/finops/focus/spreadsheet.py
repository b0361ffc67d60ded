"""The ledger's rows for a spreadsheet: by day, team, run, state, in stable columns, one pass, a day at a time."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from analyzer.errors import LedgerError
from analyzer.finops.focus.charges import Settled, days, statuses
from analyzer.finops.focus.columns import Column
from analyzer.finops.focus.exact import MILLIONTHS, scaled
from analyzer.finops.focus.rows import FocusRow, hours_of
from analyzer.finops.focus.write import write
from analyzer.period import Period, local
from analyzer.queries.booked import booked
from analyzer.states import booking
from collector.store.session import Session

COLUMNS: tuple[Column, ...] = (
    Column("day", "text", False, "the site's day"),
    Column("holder", "text", False, "team, unmapped (a run of no known team) or nobody"),
    Column("team", "text", True, "the team"),
    Column("cost_centre", "text", True, "its cost centre"),
    Column("project", "text", True, "the run's project"),
    Column("run_id", "text", True, "the run that held"),
    Column("run_name", "text", True, "its name"),
    Column("stage", "text", True, "the kind of work"),
    Column("sku", "text", True, "the GPU kind"),
    Column("purchase_option", "text", True, "on_demand, reserved, spot or owned"),
    Column("class", "text", False, "useful, avoidable, overhead, spare or unknown"),
    Column("state", "text", False, "the ledger's state"),
    Column("cause", "text", True, "its cause"),
    Column("gpu_milliseconds", "decimal", False, "GPU time, exactly"),
    Column("gpu_hours", "decimal", False, "the same, rounded down to a billionth"),
    Column("cost", "decimal", True, "to the millionth; empty where no price is known"),
    Column("currency", "text", False, "the ledger's"),
    Column("status", "text", True, "provisional, open, closed or final: the day's least settled hour's"),
    Column("model", "text", True, "the model that the run is of"),
)
_WORDS = (
    "run_id", "run_name", "team", "cost_centre", "project", "stage", "model", "sku", "purchase_option", "state",
    "cause",
)  # fmt: skip
_ROWS = f"""
SELECT l.run_id, l.name, l.team, l.cost_centre, l.project, l.stage, l.model, l.sku, l.purchase_option, l.state, l.cause,
    sum(l.milliseconds), sum(l.cost_micros), l.cost_micros IS NULL AS unpriced
FROM {booked("ledger")} l WHERE l.hour >= $start AND l.hour < $end
GROUP BY ALL
ORDER BY l.team NULLS LAST, l.run_id NULLS LAST, l.sku, l.purchase_option, l.state, l.cause, unpriced
"""


def export_csv(session: Session, period: Period, currency: str, path: Path) -> int:
    """Write the file and return how many rows it has; their time and cost sum to the ledger's of the period.

    Raises:
        LedgerError: the ledger has no hour of the period.
        ConfigError: the file cannot be written.
    """
    with session.transaction():
        known = statuses(session, period)
        if not known.by_hour:
            raise LedgerError(f"the ledger has no hour of {period.label}; gpuledger admin analyze books what is there")
        return write(path, COLUMNS, _rows(session, period, currency, known), "csv", lambda: None)


def _rows(session: Session, period: Period, currency: str, known: Settled) -> Iterator[FocusRow]:
    for start, end in days(period):
        day = f"{local(start, period.timezone).date()}"
        status = known.least(start, end)
        for row in session.rows(_ROWS, {"start": start, "end": end}):
            yield {"day": day, "currency": currency, **({"status": status} if status else {}), **_row(row)}


def _row(row: tuple[Any, ...]) -> FocusRow:
    *words, milliseconds, cost, _ = row
    known = dict(zip(_WORDS, words, strict=True))
    known["holder"] = "nobody" if known["run_id"] is None else "unmapped" if known["team"] is None else "team"
    known["class"] = booking(known["state"], known["cause"]).klass
    amounts: FocusRow = {"gpu_milliseconds": Decimal(milliseconds), "gpu_hours": hours_of(milliseconds)}
    if cost is not None:
        amounts["cost"] = scaled(cost, MILLIONTHS)
    return {name: str(value) for name, value in known.items() if value is not None} | amounts
