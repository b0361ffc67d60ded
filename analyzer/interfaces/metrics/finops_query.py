"""What stands beside the ledger on /metrics: traffic of the last complete hour, the month's budgets, faults of prices.

It is read once an hour of the ledger, and not with every pass of the analysis: a month's spending reads weeks.
"""

import logging
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from agent.wire.units import HOUR_US
from analyzer.errors import ConfigError
from analyzer.finops.budgets.month import BudgetLine, MonthReport, read_month
from analyzer.ledger.teams import team_book
from analyzer.measures.traffic.fleet import read_fleet_traffic
from analyzer.measures.traffic.locality import ClassBytes
from analyzer.measures.traffic.tariff import TariffBook
from analyzer.period import Period
from analyzer.prices.check import booked_kinds, complaints, owned_kinds
from analyzer.prices.price_book import price_book
from analyzer.reports.reader import Reader

_LOG = logging.getLogger(__name__)
_BEARERS_SHOWN, _BUDGETS_SHOWN = 20, 50
_FAULTS = ("missing", "stale", "gaps", "over", "ending", "suspicious", "unused", "unknown")


@dataclass(frozen=True, slots=True)
class Bearer:
    """One bearer of the month's cost; None of its amounts where that is not known, or it has no budget."""

    name: str
    scope: str  # team, project or fleet; unmapped, and nobody, are no teams, whatever a team is called
    spent_micros: int | None
    budget_micros: int | None
    expected_micros: int | None
    high_micros: int | None


@dataclass(frozen=True, slots=True)
class FinopsFigures:
    """What was read for one hour. `faults` counts the complaints of `gpuledger bill prices check` by kind."""

    traffic: tuple[ClassBytes, ...] = ()
    month: Period | None = None  # None where it could not be read
    bearers: tuple[Bearer, ...] = ()
    faults: dict[str, int] | None = None  # None where the price file cannot be read
    unreadable: dict[str, bool] = field(default_factory=dict)  # by the settings key of the file


def read_beside(reader: Reader, hour: int | None, until: int) -> FinopsFigures:
    """Return what stands beside a ledger whose last complete hour begins at `hour`, and that is known until `until`.

    A file that a person broke costs its own figures and no others.
    """
    month, faults = _month(reader), _faults(reader, until)
    return FinopsFigures(
        _traffic(reader, hour),
        None if month is None else month.period,
        () if month is None else _bearers(month),
        faults,
        {"budgets": month is None, "prices": faults is None},
    )


def _traffic(reader: Reader, hour: int | None) -> tuple[ClassBytes, ...]:
    if hour is None:
        return ()
    of_hour = replace(reader.calendar.week_of(hour), start=hour, end=hour + HOUR_US)
    return read_fleet_traffic(reader.session, of_hour, reader.settings.currency, TariffBook()).classes


def _month(reader: Reader) -> MonthReport | None:
    try:
        return read_month(reader.session, reader.calendar, reader.settings, None)
    except ConfigError as error:
        _LOG.warning("/metrics is without budgets: %s", error)
        return None


def _bearers(month: MonthReport) -> tuple[Bearer, ...]:
    """Return the dearest bearers, and of those that have a budget more."""
    budgeted = [line for line in month.every if line.budget is not None][:_BUDGETS_SHOWN]
    names = {line.name for line in (*month.lines[:_BEARERS_SHOWN], *budgeted, month.fleet)}
    return tuple(_bearer(line, _scope(line, month)) for line in month.every if line.name in names)


def _scope(line: BudgetLine, month: MonthReport) -> str:
    if line is month.fleet:
        return "fleet"
    if not line.held:
        return "nobody"
    if line.project is not None:
        return "project"
    return "unmapped" if line.team is None else "team"


def _bearer(line: BudgetLine, scope: str) -> Bearer:
    is_priced = bool(line.spent_micros or not line.unpriced_milliseconds)
    ending, budget = line.ending if is_priced else None, line.budget
    return Bearer(
        line.name,
        scope,
        line.spent_micros if is_priced else None,
        None if budget is None else budget.micros_per_month,
        None if ending is None else ending.expected_micros,
        None if ending is None else ending.high_micros,
    )


def _faults(reader: Reader, until: int) -> dict[str, int] | None:
    today = datetime.fromtimestamp(reader.clock() / 1e6, UTC).date()
    try:
        book, mapped = price_book(reader.settings), team_book(reader.settings)
    except ConfigError as error:
        _LOG.warning("/metrics is without faults of prices: %s", error)
        return None
    teams = {rule.team.name for rule in mapped.rules} or None
    fleet, booked = owned_kinds(reader.session, until), booked_kinds(reader.session)
    found = complaints(book, fleet, today, teams, booked)
    return dict.fromkeys(_FAULTS, 0) | Counter(each.kind for each in found)
