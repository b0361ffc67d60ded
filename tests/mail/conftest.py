"""The example week's report, and a server that takes its mails."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from analyzer.mail.settings import MailSettings
from analyzer.report.week import WeekReport, week_report
from collector.registry import Registry, open_registry
from collector.store.database import Store
from collector.store.session import Session
from tests.mail.smtp import PASSWORD, USER, Mailbox, certificate, running
from tests.report import example_week


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


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    """A registry of this test's own."""
    with open_registry(tmp_path / "store.duckdb.registry.sqlite") as registry:
        yield registry


@dataclass(frozen=True)
class Served:
    """A running server: what it took, and settings that reach it."""

    mailbox: Mailbox
    settings: MailSettings
    certificate: Path


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server with STARTTLS and AUTH, and settings that trust it and know the password."""
    files = certificate(tmp_path)
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    mailbox = Mailbox()
    with running(mailbox, files) as port:
        settings = MailSettings(
            sender="gpuledger@example.com",
            host="127.0.0.1",
            port=port,
            ca=files[0],
            user=USER,
            password_file=tmp_path / "password",
            recipients=("gpu-owners@example.com",),
            teams={"team-nlp": "nlp@example.com"},
            base_url="https://gpuledger.example",
            stop_address="stop@example.com",
            timeout_seconds=10,
        )
        yield Served(mailbox, settings, files[0])
