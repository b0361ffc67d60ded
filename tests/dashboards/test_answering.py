"""What a reader gets of a page that is kept, of one that is older than the ledger, and of one that is not there yet."""

import threading
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

import pytest
from starlette.requests import Request

from analyzer.errors import LedgerError
from analyzer.interfaces.api.request_service import Scope
from collector.config import CollectorConfig
from collector.store.database import Store
from dashboards.pages import read_pages as module
from dashboards.pages.read_pages import Answering, Wanted
from dashboards.server.app import ServerConfig, create_server
from tests.analyzer.reports import example_week
from tests.analyzer.reports.test_reading import BERLIN, EXAMPLE
from tests.collector.access.conftest import bearer
from tests.dashboards.keys import Guarded, guarded
from tests.dashboards.serving import served
from tests.waiting import PATIENCE_SECONDS

OPENED = {"sec-fetch-dest": "document"}


class PlainFrame:
    """A frame that says of a page what it was told of it."""

    asks = False

    def finished(self, draft: str, older_than_now: int | None = None, token: str = "") -> str:
        """Return the page, with "older" before it where it is."""
        return draft if older_than_now is None else f"older: {draft}"

    def tells_time(self, draft: str) -> bool:
        """Whether a page says its time: all but reports."""
        return not draft.startswith("report")

    def render(self, template: str, *_: object, **view: object) -> str:
        """Return which template was asked for."""
        return f"{template} {view}"


@dataclass
class Site:
    """A ledger whose state a test chooses, and whose pages take until it lets them."""

    state: int = 1
    made: list[Hashable] = field(default_factory=list)
    lets: threading.Event = field(default_factory=threading.Event)
    answering: Answering = field(init=False)

    def __post_init__(self) -> None:
        self.answering = Answering(PlainFrame(), lambda: self.state)  # type: ignore[arg-type]

    def wanted(self, scope: Scope | None = None, what: str = "/money") -> Wanted:
        """Return a page for a scope."""

        def make() -> tuple[Hashable, str]:
            assert self.lets.wait(PATIENCE_SECONDS)
            self.made.append((scope, what))
            return self.state, f"{what} of {self.state} for {scope and scope.teams}"

        return Wanted(scope or Scope(), what, make, "/money")

    def ask(self, wanted: Wanted | None = None, **headers: str) -> tuple[int, str, dict[str, str]]:
        """Return status, text and headers of the answer."""
        raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in (OPENED | headers).items()]
        scope = {"type": "http", "method": "GET", "path": "/money", "query_string": b"week=2026-W46", "headers": raw}
        request = Request(scope | {"server": ("localhost", 80), "scheme": "http"})
        answer = self.answering.answer(request, wanted or self.wanted(), {"Vary": "Cookie"})
        return answer.status_code, bytes(answer.body).decode(), dict(answer.headers)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Yield a site of which nobody waits for a page."""
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.0)
    made = Site()
    yield made
    made.lets.set()
    made.answering.cache.close()


def test_a_page_that_is_there_is_whole_and_is_not_sent_twice(site: Site) -> None:
    """What is looked at all day asks again and again."""
    site.lets.set()
    site.answering.ahead(site.wanted())
    status, text, headers = site.ask()
    assert (status, text) == (200, "/money of 1 for None")
    assert "refresh" not in headers
    assert site.ask(if_none_match=headers["etag"])[0] == 304
    assert len(site.made) == 1


def test_a_page_that_is_not_there_is_no_blank_wait(site: Site) -> None:
    """The frame is there at once, with a way to ask again, and the browser does so by itself."""
    status, text, headers = site.ask()
    assert status == 202
    assert text == "waiting.html {'again': '/money?week=2026-W46'}"
    assert (headers["refresh"], headers["cache-control"]) == ("1; url=/money?week=2026-W46", "no-store")


def test_a_page_of_the_ledger_before_says_so(site: Site) -> None:
    """Figures that are older than the parts beside them must not look as if they were of now."""
    site.lets.set()
    site.answering.ahead(site.wanted())
    site.lets.clear()
    site.state = 2
    status, text, headers = site.ask()
    assert (status, text, headers["refresh"][:6]) == (200, "older: /money of 1 for None", "1; url")
    assert "etag" not in headers


def test_a_report_that_cannot_say_its_time_is_not_shown_once_it_is_old(site: Site) -> None:
    """A page of its own has no place for that sentence; figures without their time would be taken for those of now."""
    report = site.wanted(what="report")
    site.lets.set()
    site.answering.ahead(report)
    site.lets.clear()
    site.state = 2
    assert site.ask(report)[0] == 202


def test_programs_and_parts_wait_for_what_they_ask(site: Site) -> None:
    """A script that gets a page without figures would take it for the answer."""
    site.lets.set()
    site.answering.ahead(site.wanted())
    site.state = 2
    assert site.ask(sec_fetch_dest="empty")[1] == "/money of 2 for None"


def test_no_scope_gets_what_is_kept_for_another(site: Site) -> None:
    """The address is the same for the site's owner and for one team's key; what they may see is not."""
    site.lets.set()
    scopes = [
        Scope(),
        Scope(None, may_decide=False),
        Scope(("a",)),
        Scope(("a", "b")),
        Scope(("a",), may_decide=False),
    ]
    for scope in scopes:
        site.answering.ahead(site.wanted(scope))
    for scope in scopes:
        assert site.ask(site.wanted(scope))[1] == f"/money of 1 for {scope.teams}"
    assert len(site.made) == len(scopes)


def test_what_cannot_be_made_is_told(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that waits for ever for a ledger that is not there is worse than a sentence."""
    monkeypatch.setattr(module, "PATIENCE_SECONDS", PATIENCE_SECONDS)

    def fail() -> tuple[Hashable, str]:
        raise LedgerError("the ledger is empty")

    with pytest.raises(LedgerError, match="the ledger is empty"):
        site.ask(Wanted(Scope(), "/money", fail))


@pytest.fixture(scope="module")
def site_with_keys() -> Iterator[Guarded]:
    """Yield a server with keys."""
    with guarded() as made:
        yield made


@pytest.mark.parametrize("path", ["/money?week=2026-W46", "/placement?week=2026-W46"])
def test_a_team_s_key_gets_its_own_page_after_the_site_s_was_kept(site_with_keys: Guarded, path: str) -> None:
    """The pages of the whole site are made ahead, and asked for first; a team's key must find nothing of them."""

    def page(key: str) -> str:
        return site_with_keys.client.get(path, headers=bearer(site_with_keys.keys[key])).text

    for _ in range(2):  # the second time both are kept
        whole, own = page("read"), page("nlp")
        assert "team-vision" in whole or "vit-" in whole
        assert "team-vision" not in own
        assert "vit-" not in own
        assert whole != own


def test_a_pass_that_changed_nothing_makes_no_page_anew() -> None:
    """The page says when the newest pass was; that alone is no reason to read a week of a large fleet again."""
    config = ServerConfig(CollectorConfig(listen="127.0.0.1:0"), BERLIN, analyze_seconds=None)
    with Store.open(None) as store:
        with store.session() as session:
            example_week.fill(session)
        app = create_server(config, store, EXAMPLE)
        with served(app) as client:
            before = client.get("/money").text
            assert "Not analysed yet by this server." in before
            made = app.state.pages.made
            app.state.job.last = type(app.state.job.last)(passes=1, finished_at=example_week.W46.end, seconds=1.5)
            after = client.get("/money").text
            assert "Analysed Mon 16 Nov 00:00, in 1.5 s." in after
            assert app.state.pages.made == made
            assert after.replace("Analysed Mon 16 Nov 00:00, in 1.5 s.", "Not analysed yet by this server.") == before
