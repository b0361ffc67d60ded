"""Sites that tests of interfaces share."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from analyzer.interfaces.mail.settings import MOST_SECONDS, MailSettings
from analyzer.settings.settings import Settings
from collector.registry import Registry, open_registry
from tests.analyzer.interfaces.api_sites import Site
from tests.analyzer.interfaces.api_sites import site as api_site
from tests.analyzer.interfaces.mail_smtp import PASSWORD, USER, Mailbox, certificate, running
from tests.analyzer.interfaces.mcp_sites import store_at
from tests.analyzer.reports.conftest import example_store, session, week


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A running server on the small site, with keys of two teams."""
    with api_site(tmp_path_factory.mktemp("api")) as running:
        yield running


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Settings]:
    """A store of the small site and its settings."""
    return store_at(tmp_path_factory.mktemp("assistant"))


__all__ = ["example_store", "session", "week"]  # the same fixtures


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
            stop_address="stop@example.com",
            timeout_seconds=MOST_SECONDS,
        )
        yield Served(mailbox, settings, files[0])
