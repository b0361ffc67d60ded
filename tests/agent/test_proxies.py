"""Nothing is handed to a proxy that no setting names: each of our clients is let loose beside one that listens."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from agent.cli.top import page
from agent.config import AgentConfig
from agent.connection import Connection, ask
from agent.delivery.link import Link, link_of
from agent.doctor import collector_line
from agent.errors import AgentError
from agent.sources.services import declared_services, fetch
from analyzer.capacity.planner.from_text import Message, ModelSettings, complete
from analyzer.capacity.planner.problem import ModelError
from analyzer.interfaces.alarms.hook import post
from analyzer.server_client import ask_server
from bench.house import product
from collector.config import CollectorConfig
from collector.errors import CollectorError
from collector.http.probe import trouble
from collector.prometheus.client import Client
from collector.prometheus.client import Server as Prometheus
from collector.schedulers.kubernetes.api import Api
from collector.schedulers.kubernetes.api import Server as Kubernetes
from collector.store.database import Store
from collector.store.lake import S3, LakeSettings
from dashboards.server.oidc import Oidc
from dashboards.server.sign_in import OidcSettings
from simulator.send import _Lines
from tests.agent.listener import Listener, listening
from tests.test_architecture import imports, name_of
from tests.waiting import PATIENCE_SECONDS

KEY = "not-for-a-proxy"
VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "ftp_proxy")


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    """Return a proxy that every variable names, for every address."""
    with listening() as listener:
        for name in VARIABLES:
            monkeypatch.setenv(name, listener.url)
            monkeypatch.setenv(name.upper(), listener.url)
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.setenv(name, "")
        yield listener


def joining(listener: Listener, folder: Path) -> None:
    """Show a join token."""
    (folder / "token").write_text(KEY)
    config = AgentConfig(collector=listener.url, join_token_file=folder / "token", key_file=folder / "key", node="n")
    link_of(config).post(b"")


def of_lake(listener: Listener, folder: Path) -> None:
    """Have DuckDB ask an object store."""
    lake = LakeSettings(f"sqlite:{folder / 'c.sqlite'}", "s3://bucket/data", S3(listener.url, "r", "id", KEY))
    with Store.open(folder / "s.duckdb", lake=lake) as store, store.session() as session:
        session.rows("SELECT * FROM read_text('s3://bucket/x')")


def of_command(listener: Listener, _: Path) -> None:
    """Ask a server as `gpuledger report --server` does."""
    ask_server(listener.url, "/v1/read")


def of_model(listener: Listener, _: Path) -> None:
    """Ask a language model."""
    complete(ModelSettings(url=f"{listener.url}/v1", model="m", key=KEY), [Message("user", "hello")])


def of_prometheus(listener: Listener, folder: Path) -> None:
    """Ask a Prometheus."""
    (folder / "key").write_text(KEY)
    with Client(Prometheus(listener.url, token=folder / "key", attempts=1)) as client:
        client.json("/api/v1/status/buildinfo")


def of_kubernetes(listener: Listener, folder: Path) -> None:
    """Ask an API server."""
    (folder / "key").write_text(KEY)
    api = Api(Kubernetes(listener.url, token=folder / "key"))
    try:
        api.get("/api/v1/pods")
    finally:
        api.close()


def of_link(listener: Listener, _: Path) -> None:
    """Deliver a batch."""
    link = Link(listener.url, KEY)
    link.post(b"batch")
    link.close()


def of_simulated(listener: Listener, _: Path) -> None:
    """Deliver a batch of the demo."""
    lines = _Lines(listener.url)
    lines.post(b"batch")
    lines.close()


def of_sign_in(at: Listener, _: Path) -> object:
    """Ask a provider of sign-in where people are sent to."""
    return Oidc(OidcSettings(at.url, "gpuledger", groups={"all": "read"}), "https://gpuledger.example").begin()


# By the module that opens the connection; DuckDB opens the lake's.
CLIENTS: dict[str, tuple[Callable[[Listener, Path], object], ...]] = {
    "agent/delivery/link.py": (of_link, joining),
    "agent/doctor.py": (lambda at, _: collector_line(AgentConfig(collector=at.url)),),
    "agent/sources/services.py": (lambda at, _: fetch(declared_services([at.url], "n")[0]),),
    "simulator/send.py": (of_simulated,),
    "agent/cli/top.py": (lambda at, _: page(AgentConfig(listen=at.place, scrape_token=KEY)),),
    "analyzer/interfaces/alarms/hook.py": (
        lambda at, _: post(f"{at.url}/api/v2/alerts", b"[]", {}),
        lambda at, _: post(f"{at.url}/hook", b"{}", {"X-Signature": KEY}),
    ),
    "analyzer/server_client.py": (of_command,),
    "analyzer/capacity/planner/from_text.py": (of_model,),
    "collector/http/probe.py": (lambda at, _: trouble(CollectorConfig(listen=at.place)),),
    "collector/prometheus/client.py": (of_prometheus,),
    "collector/schedulers/kubernetes/api.py": (of_kubernetes,),
    "collector/store/lake.py": (of_lake,),
    "dashboards/server/oidc.py": (of_sign_in,),
}


@pytest.mark.parametrize(
    "client",
    [pytest.param(each, id=f"{name}-{index}") for name, all_ in CLIENTS.items() for index, each in enumerate(all_)],
)
def test_a_client_speaks_to_whom_it_was_told_and_not_to_a_proxy(
    client: Callable[[Listener, Path], object], proxy: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable that a shell inherited took the Authorization header of `report --server` to a proxy."""
    monkeypatch.setenv("GPULEDGER_TOKEN", KEY)
    with listening() as target:
        with suppress(AgentError, CollectorError, ModelError):  # an empty object is no answer to most questions
            client(target, tmp_path)
        assert proxy.heads == []
        assert target.heads != []


def importing(*packages: str) -> list[Path]:
    """Return the files of the product that import of these packages: to parse the others takes seconds."""
    line = re.compile(rf"^ *(import|from) ({'|'.join(packages)})\b", re.MULTILINE)
    return [path for path in product() if line.search(path.read_text("utf-8"))]


def test_these_are_all_clients() -> None:
    """Who speaks to others over HTTP does so through agent/connection.py, and is tried above."""
    ours = {f"agent.connection.{name}" for name in ("ask", "Connection")}
    found = {name_of(path) for path in importing("agent.connection") if ours & set(imports(path))}
    assert found == CLIENTS.keys() - {"collector/store/lake.py"}
    assert sum(map(len, CLIENTS.values())) == 15


def test_nobody_else_speaks_http() -> None:
    """Each library has its own opinion of proxies, redirects and certificates."""
    libraries = ("urllib.request", "http.client", "httpx", "requests", "urllib3", "aiohttp", "pycurl", "websockets")
    wrong = {
        name_of(path)
        for path in importing(*(each.partition(".")[0] for each in libraries))
        for name in imports(path)
        if any(name == each or name.startswith(f"{each}.") for each in libraries)
    }
    assert wrong == {"agent/connection.py"}


def test_a_named_proxy_is_asked_for_a_tunnel_and_told_nothing_else(tmp_path: Path) -> None:
    """What goes through it is sealed: it hears the name of the server, and no key."""
    with listening() as named:
        with pytest.raises(OSError, match=r"."):
            ask(
                "https://hooks.example/secret-path", b"{}", {"Authorization": KEY}, timeout_seconds=PATIENCE_SECONDS,
                most_bytes=10, proxy=named.url,
            )  # fmt: skip
        (head,) = named.heads
    assert head.startswith("CONNECT hooks.example:443 ")
    assert KEY not in head
    assert "secret-path" not in head


def test_what_is_not_sealed_takes_no_proxy() -> None:
    """It would read all of it."""
    with pytest.raises(ValueError, match="a proxy requires https://"):
        Connection("http://hooks.example", 1, proxy="http://127.0.0.1:1")


def test_a_redirect_is_an_answer_like_any_other() -> None:
    """Nobody is asked but whom we were told."""
    with listening() as elsewhere, listening(f"302 Found\r\nLocation: {elsewhere.url}") as told:
        reply = ask(told.url, None, {"Authorization": KEY}, timeout_seconds=PATIENCE_SECONDS, most_bytes=10)
        assert (reply.status, len(told.heads), elsewhere.heads) == (302, 1, [])
