"""No route is open by accident: the table of rights against the routes and the document of the whole server."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.routing import Route

from analyzer.settings.settings import Settings
from collector.access.gate import ENDPOINTS, UNKNOWN, endpoint_of
from collector.config import CollectorConfig
from collector.registry.roles import Right
from collector.store.database import Store
from dashboards.server.app import ServerConfig, create_server
from tests.collector.access.conftest import TOKEN, add_key, bearer
from tests.collector.serving import Client
from tests.dashboards.serving import served as running

TABLE = {(one.method, one.path): one for one in ENDPOINTS}
NO_BODY = ("HEAD", "OPTIONS")  # answered by the router for a GET that it has


@contextmanager
def served(folder: Path, *, collects: bool) -> Iterator[FastAPI]:
    """Yield the whole server over a store of its own."""
    collector = CollectorConfig(store=folder / "store.duckdb", lake="none", tokens=(TOKEN,))
    with Store.open(collector.store) as store:
        yield create_server(ServerConfig(collector, Settings(), None, collects=collects), store)


@pytest.fixture(scope="module", params=[True, False], ids=["serve", "only analyzer"])
def app(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    """The server as `gpuledger serve` makes it, and as `--only analyzer` does; these tests only ask."""
    with served(tmp_path_factory.mktemp("server"), collects=request.param) as app:
        yield app


@pytest.fixture(scope="module")
def client(app: FastAPI) -> Iterator[httpx.Client]:
    """Whoever can reach it."""
    with running(app) as one:
        yield one


def routes(app: FastAPI) -> list[tuple[str, str]]:
    """Return (method, path) of every route, those of included routers too."""
    assert not app.router._low_priority_routes, "front-end routes, which this walk does not see"
    found = []
    for one in iter_route_contexts(app.routes):
        route = one.original_route
        assert isinstance(route, Route), f"{route!r}: a mount or a socket has routes that this walk does not see"
        assert one.path is not None
        found += [(method, one.path) for method in route.methods or () if method not in NO_BODY]
    return sorted(found)


def test_every_route_is_in_the_table(app: FastAPI) -> None:
    """Whoever adds a route says there who may ask it."""
    assert [route for route in routes(app) if route not in TABLE] == []


def test_every_row_of_the_table_is_a_route(tmp_path: Path) -> None:
    """A right that is left over would open the next route of that name."""
    with served(tmp_path, collects=True) as app:
        assert sorted(TABLE.keys() - set(routes(app))) == []


def test_every_operation_of_the_document_is_in_the_table(app: FastAPI, client: httpx.Client) -> None:
    """What the OpenAPI document offers to programs."""
    document = client.get("/v1/openapi.json", headers=bearer(TOKEN)).json()
    offered = [(method.upper(), path) for path, item in document["paths"].items() for method in item]
    assert len(offered) > 10
    named = {(method, path.replace(":path}", "}")) for method, path in TABLE}
    assert [one for one in offered if one not in named] == []


def test_whoever_has_no_key_gets_nothing_anywhere(app: FastAPI, client: httpx.Client) -> None:
    """Every route is asked, with something for each of its parameters, by somebody without a key."""
    opened = []
    for method, path in routes(app):
        asked = path.replace("{run_id:path}", "slurm/a/1").replace("{", "").replace("}", "")
        status = client.request(method, asked).status_code
        if status != 401:
            opened.append((method, path))
    assert opened == [
        ("GET", "/healthz"),
        ("GET", "/login"),  # it asks for a key, and tells nothing
        ("GET", "/login/callback"),  # where the site's provider sends people back to
        ("GET", "/login/start"),  # and leads there
        ("GET", "/mail/stop/{token}"),  # its token is the key
        ("GET", "/readyz"),
        ("GET", "/static/{name}"),  # our own scripts and styles
        ("POST", "/login"),
        ("POST", "/mail/stop/{token}"),
        *([("POST", "/v1/enrol")] if ("POST", "/v1/enrol") in routes(app) else []),
    ]


@pytest.mark.parametrize(
    "path", ["/docs", "/redoc", "/openapi.json", "/docs/oauth2-redirect", "/v1", "/v1/", "/static/", "/.env"]
)
def test_what_frameworks_bring_is_closed(client: httpx.Client, path: str) -> None:
    """Their own pages load scripts from elsewhere and show every route."""
    assert endpoint_of("GET", path) is UNKNOWN
    assert client.get(path).status_code == 401
    assert client.get(path, headers=bearer(TOKEN)).status_code == 403


@pytest.mark.parametrize(
    "path",
    [
        "/healthz/../v1/ledger",
        "/healthz/..%2fv1/ledger",
        "/healthz%2f..%2f",
        "//v1/ledger",
        "/v1/ledger/",
        "/V1/ledger",
        "/healthz;/v1/ledger",
        "/v1/enrol/../ledger",
        "/%76%31/ledger",
        "/static/../v1/ledger",
    ],
)
def test_no_spelling_of_a_path_goes_round_the_gate(app: FastAPI, client: httpx.Client, path: str) -> None:
    """Gate and router read the same path, so what one lets pass as one thing the other cannot take as another."""
    plain = Client(client.base_url.port or 0)  # sends the path as it stands
    assert plain.get(path).status == 401
    assert plain.get(path, bearer(add_key(app.state.access.registry, "agent", node="n1"))).status == 403


def test_a_key_of_a_team_meets_no_page_of_the_whole_site(app: FastAPI, client: httpx.Client) -> None:
    """Pages and reports show every team; the API shows a team what is its own."""
    key = add_key(app.state.access.registry, "read", teams=("vision",))
    app.state.access.directory.refresh()
    for endpoint in ENDPOINTS:
        if endpoint.method == "GET" and endpoint.right is Right.READ:
            asked = endpoint.path.replace("{run_id:path}", "slurm/a/1").replace("{", "").replace("}", "")
            answer = client.get(asked, headers=bearer(key))
            if endpoint.by_team:
                assert answer.status_code in (200, 303, 404, 422), endpoint
            else:
                assert answer.status_code == 403, endpoint
                assert "this key is limited to vision; use the API below /v1" in answer.json()["detail"]
