"""A server that starts again shows the pages of before, each to whom it was shown, and says of when they are."""

import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from playwright.sync_api import Browser, expect

from agent.wire.units import HOUR_US
from analyzer.findings.finding import Finding
from collector.config import CollectorConfig
from collector.store.database import Store
from collector.store.session import Session
from dashboards.server.app import ServerConfig, create_server
from tests.analyzer.reports import example_week
from tests.analyzer.reports.test_reading import BERLIN, EXAMPLE
from tests.collector.access.conftest import add_key, bearer
from tests.dashboards.serving import served
from tests.waiting import PATIENCE_SECONDS, until

OPENED = {"sec-fetch-dest": "document"}
LATER = example_week.W46.end + HOUR_US


@dataclass(frozen=True)
class Running:
    """A server, its store, and what lets its judges find something."""

    app: FastAPI
    store: Store
    client: httpx.Client
    lets: threading.Event

    def passes(self) -> None:
        """Let a pass have changed an hour of the ledger."""
        with self.store.session() as session, session.transaction():
            session.execute("UPDATE ledger_hours SET input_digest = '+' WHERE hour = ?", [example_week.W46.start])
            session.execute("UPDATE analysis SET analysed_at = analysed_at + 1")

    def settled(self) -> int:
        """Wait until all is made that is made ahead; return how many pages were made, and not found."""
        until(lambda: not self.app.state.prefetch.is_asked, "all is made that is made ahead")
        assert self.app.state.prefetch.failed == 0
        return int(self.app.state.pages.made)


def week_in(folder: Path) -> Path:
    """Return the file of a store with the example week, as an analysis has left it."""
    path = folder / "store.duckdb"
    with Store.open(path) as store, store.session() as session:
        example_week.fill(session)
        session.execute("INSERT INTO analysis VALUES (1, ?)", [LATER])
    return path


@contextmanager
def running(path: Path) -> Iterator[Running]:
    """Yield a server that has just started; its judges find nothing before a test lets them."""
    lets = threading.Event()

    def findings(session: Session, start: int, end: int, run: str | None) -> list[Finding]:
        assert lets.wait(PATIENCE_SECONDS)
        return EXAMPLE.findings(session, start, end, run)

    loss_source = replace(EXAMPLE, findings=findings)
    with Store.open(path) as store:
        config = ServerConfig(CollectorConfig(store=path, listen="127.0.0.1:0"), BERLIN, None, collects=False)
        app = create_server(config, store, loss_source)
        with served(app, makes_ahead=True) as client:
            try:
                yield Running(app, store, client, lets)
            finally:
                lets.set()  # before the server ends, which waits for what is being made


@dataclass(frozen=True)
class Left:
    """What a server that has ended has left in a folder, the pages that it kept, and one as it was sent."""

    folder: Path
    kept: list[str]
    sent: str


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the file of a store that no server has run on."""
    return week_in(tmp_path)


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Left:
    """Run a server until it has made what it makes ahead, and end it."""
    folder = tmp_path_factory.mktemp("left")
    with running(week_in(folder)) as server:
        server.lets.set()
        assert server.settled() > 0
        sent = server.client.get("/recommendations", headers=OPENED).text
        return Left(folder, [made.text for made in server.app.state.pages._kept.values()], sent)


@pytest.fixture
def path_again(left: Left, tmp_path: Path) -> Path:
    """Return the file of a store that a server has run on, a copy for this test alone."""
    return shutil.copytree(left.folder, tmp_path / "site") / "store.duckdb"


def test_nothing_is_made_twice_of_a_ledger_that_is_the_same(path_again: Path) -> None:
    """A restart for a new setting of the collector would else cost what a pass costs."""
    with running(path_again) as server:
        server.lets.set()
        assert server.settled() == 0
        told = dict(re.findall(r"^(gpuledger_pages_\S+) (\S+)$", server.client.get("/metrics").text, re.MULTILINE))
    assert (told["gpuledger_pages_made_total"], told["gpuledger_pages_disk_failures_total"]) == ("0.0", "0.0")
    assert float(told["gpuledger_pages_found_total"]) > 10
    assert float(told['gpuledger_pages_kept_bytes{place="disk"}']) > 1000


def test_pages_of_before_are_there_before_anything_is_read(path_again: Path) -> None:
    """Who opens a page in the first second of a server's life looks at figures, with the moment they were read."""
    with running(path_again) as server:
        until(lambda: server.client.get("/healthz").status_code == 200, "the server answers")
        before = server.client.get("/recommendations", headers=OPENED)
        server.passes()
        after = server.client.get("/recommendations", headers=OPENED)
        part = server.client.get("/parts/findings", headers={"Prefer": "wait=0"})
        report = server.client.get("/v1/read?what=week&format=html", headers=OPENED)
        other = server.client.get("/parts/node?node=n01", headers={"Prefer": "wait=0"})
    assert (before.status_code, "refresh" in before.headers) == (200, False)
    assert "These figures were read on" in after.text
    assert re.search("Read on .*; newer figures appear in a few seconds", part.text)
    assert "These figures were read on" in report.text
    assert all(answer.headers["refresh"] for answer in (after, part, report, other))
    assert (other.status_code, other.text) == (202, ""), "and nothing is made for who does not wait"


def test_a_store_that_was_analysed_by_another_shows_nothing_of_before(path_again: Path) -> None:
    """An older copy, or another ledger of the same name, would be shown with figures that it never had."""
    with Store.open(path_again) as store, store.session() as session:
        session.execute("UPDATE analysis SET analysed_at = analysed_at - 1")
    with running(path_again) as server:
        assert server.client.get("/parts/findings", headers={"Prefer": "wait=0"}).status_code == 202
    with Store.open(path_again) as store:
        server_settings = replace(BERLIN, currency="EUR")
        config = ServerConfig(
            CollectorConfig(store=path_again, listen="127.0.0.1:0"), server_settings, None, collects=False
        )
        with served(create_server(config, store, EXAMPLE), makes_ahead=True) as client:
            assert client.get("/parts/chart", headers={"Prefer": "wait=0"}).status_code == 202


def test_a_view_that_was_seen_is_made_ahead_and_kept_for_itself_alone(path_again: Path) -> None:
    """A team looks at its pages as often as the platform does; what it finds must be its own after a restart too."""
    with running(path_again) as server:
        server.lets.set()
        registry = server.app.state.access.registry
        keys = {team: bearer(add_key(registry, "read", teams=(f"team-{team}",))) for team in ("nlp", "vision")}
        server.app.state.access.directory.refresh()
        server.settled()
        assert server.client.get("/money", headers=keys["nlp"] | OPENED).status_code in (200, 202)
        server.app.state.prefetch.turn()
        made = server.settled()
        own = server.client.get("/recommendations", headers=keys["nlp"] | OPENED).text
        assert server.settled() == made
    with running(path_again) as server:
        until(lambda: server.client.get("/healthz").status_code == 200, "the server answers")
        assert server.client.get("/recommendations", headers=keys["nlp"] | OPENED).text == own
        assert server.client.get("/recommendations", headers=keys["vision"] | OPENED).text != own
        assert "team-nlp" not in server.client.get("/money", headers=keys["vision"] | OPENED).text


def test_no_file_has_a_token_of_a_session(left: Left) -> None:
    """Pages have forms; the token that they show is put in when they are sent, and belongs to who is sent it."""
    (token,) = set(re.findall(r'name="csrf" value="([^"]+)"', left.sent))
    assert [text for text in left.kept if 'name="csrf"' in text], "or this test shows nothing"
    assert not [text for text in left.kept if token in text]


def test_a_browser_shows_the_week_of_before_and_then_that_of_now(browser: Browser, path_again: Path) -> None:
    """All of the fleet's page is there at once, each part with its time; the new figures take their places."""
    with running(path_again) as server:
        until(lambda: server.client.get("/healthz").status_code == 200, "the server answers")
        server.passes()
        page = browser.new_page()
        wrong: list[str] = []
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(str(server.client.base_url))
        expect(page.locator("#findings [data-again]")).to_be_visible()
        expect(page.locator("#findings")).to_contain_text("llama-sft")
        expect(page.locator('[aria-busy="true"]')).to_have_count(0)
        server.lets.set()
        expect(page.locator("#findings [data-again]")).to_have_count(0, timeout=PATIENCE_SECONDS * 1000)
        expect(page.locator("#findings")).to_contain_text("llama-sft")
        expect(page.locator("[data-again]")).to_have_count(0, timeout=PATIENCE_SECONDS * 1000)
        page.close()
    assert wrong == []


def test_servers_of_other_tests_make_nothing_ahead(path: Path) -> None:
    """It takes longer than most tests, and whether a page came from it depended on how fast the machine was."""
    with Store.open(path) as store:
        config = ServerConfig(CollectorConfig(store=path, listen="127.0.0.1:0"), BERLIN, None, collects=False)
        app = create_server(config, store, EXAMPLE)
        with served(app) as client:
            assert client.get("/runs").status_code == 200
        assert app.state.pages.made == 1
        assert app.state.prefetch.made == 0
