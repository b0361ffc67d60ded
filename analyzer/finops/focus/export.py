"""Export a period of the ledger: as FOCUS, held to the ledger before it is kept, or as rows for a spreadsheet.

One pass, a day at a time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from typing import Any

from analyzer.errors import LedgerError
from analyzer.finops.focus.charges import (
    Charge,
    Settled,
    adjusted_days,
    adjustments,
    charges,
    days,
    hours_in,
    place_hosts,
    places,
    statuses,
)
from analyzer.finops.focus.columns import Column, Issuer, columns
from analyzer.finops.focus.rows import MILLIONTHS, FocusRow, RowContext, adjustment_row, hours_of, scaled, usage_rows
from analyzer.finops.focus.write import FileFormat, write
from analyzer.period import Period, local
from analyzer.queries.ledger_query import ledger_sums
from analyzer.queries.statements import booked
from analyzer.states import booking
from collector.store.session import Session

_HOURS_AT_ONCE = 24


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What is exported, how fine and as what. `leave_out_unpriced` leaves out GPU time that has no price.

    `energy` adds what the GPUs drew.
    """

    issuer: Issuer
    period: Period
    hourly: bool = False
    form: FileFormat = "csv"
    leave_out_unpriced: bool = False
    energy: bool = False


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written: rows, the bill and its corrections in millionths, and GPU time left out for want of a price."""

    rows: int
    cost_micros: int
    adjusted_micros: int
    unpriced_ms: int
    hours_known: int
    status: str | None


def export_focus(session: Session, asked: ExportOptions, path: Path) -> Exported:
    """Write the file and return what it says. Either it is whole and sums to the ledger, or it is not there.

    Raises:
        LedgerError: the period has no hour in the ledger, or GPU time without a price that was not to be left out.
        ConfigError: the file cannot be written.
    """
    with session.transaction():  # one state of the ledger from the first day to the last
        known = statuses(session, asked.period)
        if not known.by_hour:
            raise LedgerError(
                f"the ledger has no hour of {asked.period.label}; gpuledger admin analyze books what is there"
            )
        cost, unpriced = _totals(session, asked.period)
        if unpriced and not asked.leave_out_unpriced:
            raise LedgerError(
                f"{hours_of(unpriced):,.1f} GPU-hours have no price, and a bill needs one of each: gpuledger bill "
                "prices "
                "check names them; --leave-out-unpriced exports the others"
            )
        tally = _Tally()
        rows = tally.watched(_rows(session, asked, known))
        count = write(path, columns(asked.issuer.version), rows, asked.form, tally.holds_to(cost))
    status = known.least(asked.period.start, asked.period.end)
    return Exported(count, cost, tally.adjusted_micros, unpriced, len(known.by_hour), status)


def _totals(session: Session, period: Period) -> tuple[int, int]:
    (every,) = ledger_sums(session, period=period)
    return every.cost_micros or 0, every.unpriced_milliseconds


def _rows(session: Session, asked: ExportOptions, known: Settled) -> Iterator[FocusRow]:
    place_hosts(session, asked.period)
    for spans in _spans(asked):
        booked_spans = [(*span, status) for span in spans if (status := known.least(*span)) is not None]
        if not booked_spans:
            continue
        (first, until), last = spans[0], spans[-1][1]
        of_span: dict[int, list[Charge]] = {start: [] for start, _ in spans}
        for charge in charges(session, first, last, energy=asked.energy, each_us=until - first):
            if charge.unit_micros is not None:
                of_span[charge.start].append(charge)
        for start, end, status in booked_spans:
            yield from usage_rows(of_span[start], RowContext(asked.issuer, places(session, start, end), status))
    for start, end in adjusted_days(session, asked.period):
        for (begins, ends), of_hour in groupby(adjustments(session, start, end), lambda one: (one.start, one.end)):
            around = RowContext(asked.issuer, places(session, begins, ends), None)
            yield from (adjustment_row(charge, around) for charge in of_hour if charge.cost_micros is not None)


def _spans(asked: ExportOptions) -> Iterator[list[tuple[int, int]]]:
    """Yield the charge periods that are asked of the ledger at once: a day's hours, or a day."""
    if not asked.hourly:
        yield from ([day] for day in days(asked.period))
        return
    hours = list(hours_in(asked.period))
    yield from (hours[n : n + _HOURS_AT_ONCE] for n in range(0, len(hours), _HOURS_AT_ONCE))


def _amount(row: FocusRow, name: str) -> Decimal:
    value = row[name]
    if not isinstance(value, Decimal):
        raise TypeError(f"BUG: {name} is {value!r}")
    return value


@dataclass(slots=True)
class _Tally:
    """Sums what passes by, in millionths, so that a bill that is not the ledger's is never kept."""

    effective: Decimal = Decimal(0)
    billed: Decimal = Decimal(0)
    adjusted: Decimal = Decimal(0)

    @property
    def adjusted_micros(self) -> int:
        return int(self.adjusted.scaleb(MILLIONTHS))

    def watched(self, rows: Iterator[FocusRow]) -> Iterator[FocusRow]:
        for row in rows:
            cost, billed = _amount(row, "EffectiveCost"), _amount(row, "BilledCost")
            if row["ChargeCategory"] == "Adjustment":
                self.adjusted += cost
            else:
                self.effective += cost
                self.billed += billed
            yield row

    def holds_to(self, cost_micros: int) -> Callable[[], None]:
        """Return what is asked once all rows are written, before the file gets its name."""

        def check() -> None:
            ledger = scaled(cost_micros, MILLIONTHS)
            if (self.effective, self.billed) != (ledger, ledger):
                raise LedgerError(f"BUG: the bill is {self.effective} and {self.billed} billed, the ledger {ledger}")

        return check


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
        return write(path, COLUMNS, _day_rows(session, period, currency, known), "csv", lambda: None)


def _day_rows(session: Session, period: Period, currency: str, known: Settled) -> Iterator[FocusRow]:
    for start, end in days(period):
        day = f"{local(start, period.timezone).date()}"
        status = known.least(start, end)
        if status is not None:
            for row in session.rows(_ROWS, {"start": start, "end": end}):
                yield {"day": day, "currency": currency, "status": status, **_row(row)}


def _row(row: tuple[Any, ...]) -> FocusRow:
    *words, milliseconds, cost, _ = row
    known = dict(zip(_WORDS, words, strict=True))
    known["holder"] = "nobody" if known["run_id"] is None else "unmapped" if known["team"] is None else "team"
    known["class"] = booking(known["state"], known["cause"]).klass
    amounts: FocusRow = {"gpu_milliseconds": Decimal(milliseconds), "gpu_hours": hours_of(milliseconds)}
    if cost is not None:
        amounts["cost"] = scaled(cost, MILLIONTHS)
    return {name: str(value) for name, value in known.items() if value is not None} | amounts
