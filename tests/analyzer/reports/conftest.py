"""The example week, made once for all tests that only read it."""

from collections.abc import Iterator

import pytest

from analyzer.reports.week import WeekReport, week_report
from collector.store.database import Store
from collector.store.session import Session
from tests.analyzer.reports import example_week


@pytest.fixture(scope="session")
def example_store() -> Iterator[Store]:
    """Yield a store in memory that holds the imaginary week 2026-W46."""
    with example_week.example_store() as store:
        yield store


@pytest.fixture
def session(example_store: Store) -> Iterator[Session]:
    """Yield a session on the example; tests must not write through it."""
    with example_store.session() as session:
        yield session


@pytest.fixture
def week(session: Session) -> WeekReport:
    """Return the report of the example week."""
    return week_report(
        session,
        example_week.W46,
        example_week.CALENDAR,
        "USD",
        example_week.findings(),
        example_week.recommendations(),
    )
