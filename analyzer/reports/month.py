"""The report of a calendar month: the ledger's table, the targets, and the budgets. Pure data."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.errors import ConfigError
from analyzer.finops.budgets.month import MonthReport, read_month
from analyzer.finops.targets import Target, targets
from analyzer.finops.unit_cost.report import unit_report
from analyzer.ledger.coverage import known_hours
from analyzer.period import Period, local
from analyzer.reports.groups import By
from analyzer.reports.week import WeekReport

if TYPE_CHECKING:
    from analyzer.reports.reader import Reader


@dataclass(frozen=True, slots=True)
class MonthPage:
    """One month: what `report` says of a week, how it stands against targets, and against budgets."""

    week: WeekReport
    targets: tuple[Target, ...]
    budgets: MonthReport


def month_of(reader: "Reader", month: str | None, by: By | None = None) -> MonthPage:
    """Return a month's report; without a word, the last month that is over, or the one that runs where none is.

    Raises:
        ConfigError: the word names no month.
        LedgerError: the ledger is empty, or has nothing of it.
    """
    period = _last(reader) if month is None else reader.period(month)
    if reader.calendar.month_of(period.start) != period:
        raise ConfigError(f"{month} is not a month; use a form such as {local(period.start, period.timezone):%Y-%m}")
    budgets = read_month(reader.session, reader.calendar, reader.settings, period.label)
    units = unit_report(reader.session, period, reader.calendar, reader.settings.currency)
    return MonthPage(reader.week(period, by), targets(reader.session, period, units), budgets)


def _last(reader: "Reader") -> Period:
    now = reader.calendar.month_of(reader.now() - 1)
    before = reader.calendar.before(now)
    return before if reader.now() < now.end and known_hours(reader.session, before).known else now
