"""A server that asks for keys, with one for each kind of reader."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import httpx

from collector.access.access import Access
from collector.config import CollectorConfig
from collector.store.database import Store
from dashboards.server.app import ServerConfig, create_server
from dashboards.server.oidc import Oidc
from dashboards.server.sign_in import OidcSettings
from tests.analyzer.reports import example_week
from tests.analyzer.reports.test_reading import BERLIN, EXAMPLE
from tests.collector.access.conftest import add_key
from tests.dashboards.serving import served
from tests.waiting import PATIENCE_SECONDS

HTML = {"Accept": "text/html"}


@dataclass(frozen=True)
class Guarded:
    """The server, what stands before it, and the keys by whose they are."""

    client: httpx.Client
    access: Access
    keys: dict[str, str]

    @property
    def address(self) -> str:
        """Where it answers."""
        return str(self.client.base_url).rstrip("/")

    def browser(self) -> httpx.Client:
        """Return somebody's browser: it keeps cookies, and says that it wants pages."""
        return httpx.Client(base_url=self.client.base_url, headers=HTML, timeout=PATIENCE_SECONDS, verify=False)


@contextmanager
def guarded(
    site_url: str = "", oidc: OidcSettings | None = None, port: int = 0, **settings: object
) -> Iterator[Guarded]:
    """Serve the example week with keys; `oidc` is who signs in without one, at a port that the site's address names."""
    provider = Oidc(oidc, site_url) if oidc is not None else None
    config = CollectorConfig(listen="127.0.0.1:0", **settings)  # type: ignore[arg-type]
    with Store.open(None) as store:
        with store.session() as session:
            example_week.fill(session)
            session.execute("UPDATE runs SET owner = 'mira' WHERE name = 'llama-sft'")
        site = replace(BERLIN, site_url=site_url)
        server = ServerConfig(config, site, None, oidc=oidc or OidcSettings(), provider=provider)
        app = create_server(server, store, EXAMPLE)
        access = app.state.access
        keys = {role: add_key(access.registry, role) for role in ("read", "owner", "approver", "admin")}
        keys["agent"] = add_key(access.registry, "agent", node="n1")
        keys["nlp"] = add_key(access.registry, "read", teams=("team-nlp",))
        access.directory.refresh()
        with served(app, port=port) as client:
            yield Guarded(client, access, keys)


def token_of(page: str) -> str:
    """Return the token that a page's form would send."""
    found = re.search(r'name="csrf" value="([^"]+)"', page)
    assert found is not None
    return found[1]


def log_in(browser: httpx.Client, key: str, next_page: str = "/") -> httpx.Response:
    """Send the login form as a browser would."""
    asked = browser.get("/login", params={"next": next_page})
    fields = {"key": key, "next": next_page, "csrf": token_of(asked.text)}
    return browser.post("/login", data=fields, headers={"Origin": str(browser.base_url).rstrip("/")})
