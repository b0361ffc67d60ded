"""The month that a person means, from the ledger and the budgets file that the settings name."""

from analyzer.errors import ConfigError, LedgerError
from analyzer.finops.budgets.budget_file import budget_book
from analyzer.finops.budgets.month import MonthReport, month_report
from analyzer.ledger.coverage import ledger_end
from analyzer.period import Calendar, local
from analyzer.settings.settings import Settings
from collector.store.session import Session


def read_month(session: Session, calendar: Calendar, settings: Settings, month: str | None) -> MonthReport:
    """Return a month against its budgets; without a word, the month of the newest hour.

    Raises:
        ConfigError: the word names no month.
        LedgerError: the ledger is empty, or has nothing of it.
    """
    now = ledger_end(session)
    period = calendar.month_of(now - 1) if month is None else calendar.parse(month, now)
    if calendar.month_of(period.start) != period:
        raise ConfigError(f"{month} is no month: write one such as {local(now - 1, period.timezone):%Y-%m}")
    allowed = budget_book(settings).of(period.first_day)
    found = month_report(session, period, now, settings.currency, allowed)
    if found is None:
        raise LedgerError(f"the ledger has nothing of {period.label}")
    return found
