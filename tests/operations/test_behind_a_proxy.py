"""The blocks of docs/operations.md, each run: people log in, links lead on, batches pass, and nobody else comes in."""

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import yaml

from agent.connection import trusting
from agent.wire.envelope import CONTENT_TYPE
from analyzer.settings.settings import Settings
from collector.config import CollectorConfig
from collector.store.database import Store
from dashboards.server.app import ServerConfig, create_server
from tests.collector.access.authority import Authority, Signed
from tests.collector.access.conftest import bearer
from tests.dashboards.keys import HTML, guarded, token_of
from tests.dashboards.serving import served
from tests.fleet.ports import free_ports
from tests.waiting import PATIENCE_SECONDS, until

ROOT = Path(__file__).parents[2]
_ADDRESS = re.compile(r'\s(?:href|src|action|data-(?:part|live|plotly|address))="([^"#]+)')


def block(kind: str) -> str:
    """Return a block of the document."""
    found = re.findall(rf"```{kind}\n(.*?)```", (ROOT / "docs" / "operations.md").read_text(), re.DOTALL)
    return str(found[-1])


def _nginx(folder: Path, port: int, server: str, signed: Signed, prefix: str) -> list[str]:
    text = block("nginx").replace("443", f"127.0.0.1:{port}").replace("127.0.0.1:8470", server)
    text = text.replace("/etc/ssl/gpuledger.pem", str(signed.certificate)).replace(
        "/etc/ssl/gpuledger.key", str(signed.key)
    )
    text = text.replace("location / {", f"location {prefix}/ {{")
    places = "".join(
        f"{name}_temp_path {folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    head = f"user root;\npid {folder}/pid;\ndaemon off;\nevents {{}}\n"
    (folder / "nginx.conf").write_text(f"{head}http {{\naccess_log off;\ngzip on;\n{places}{text}}}\n")
    return ["nginx", "-p", str(folder), "-e", "stderr", "-c", str(folder / "nginx.conf")]


def _caddy(folder: Path, port: int, server: str, signed: Signed, prefix: str) -> list[str]:
    text = block("caddy").replace("gpuledger.example", f"https://127.0.0.1:{port}").replace("127.0.0.1:8470", server)
    text = text.replace("/etc/ssl/gpuledger.pem", str(signed.certificate)).replace(
        "/etc/ssl/gpuledger.key", str(signed.key)
    )
    if prefix:  # taken away here, where nginx and HAProxy hand it on
        text = re.sub(r"(reverse_proxy .*)", rf"handle_path {prefix}/* {{\n\1\n}}", text)
    (folder / "Caddyfile").write_text(f"{{\nadmin off\nauto_https off\n}}\n{text}")
    return ["caddy", "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]


def _haproxy(folder: Path, port: int, server: str, signed: Signed, prefix: str) -> list[str]:
    both = folder / "both.pem"
    both.write_bytes(signed.certificate.read_bytes() + signed.key.read_bytes())
    text = block("haproxy").replace("bind :443", f"bind 127.0.0.1:{port}").replace("127.0.0.1:8470", server)
    text = text.replace("/etc/ssl/gpuledger-and-key.pem", str(both))
    (folder / "haproxy.cfg").write_text(text)
    assert prefix.startswith("/") or not prefix
    return ["haproxy", "-db", "-f", str(folder / "haproxy.cfg")]


TYPE = {"Content-Type": CONTENT_TYPE}
PROXIES: dict[str, Callable[[Path, int, str, Signed, str], list[str]]] = {
    "nginx": _nginx,
    "caddy": _caddy,
    "haproxy": _haproxy,
}


@contextmanager
def before(proxy: str, folder: Path, port: int, server: str, signed: Signed, prefix: str = "") -> Iterator[None]:
    """Run a proxy before a server."""
    if shutil.which(proxy) is None and not Path(f"/usr/sbin/{proxy}").exists():
        pytest.skip(f"{proxy} is not installed; make services installs it")
    words = PROXIES[proxy](folder, port, server, signed, prefix)
    environment = {"PATH": "/usr/sbin:/usr/bin:/bin", "HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, env=environment)
    try:
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The site's authority."""
    return Authority(tmp_path_factory.mktemp("authority"))


@dataclass(frozen=True)
class Published:
    """A server, and where a proxy is to stand before it: one after another at the same port."""

    port: int
    prefix: str
    server: httpx.Client
    keys: dict[str, str]


@pytest.fixture(scope="module", params=["", "/gpu/ledger"])
def keyed(request: pytest.FixtureRequest) -> Iterator[Published]:
    """A server with keys."""
    (port,) = free_ports(1)
    with guarded(site_url=f"https://127.0.0.1:{port}{request.param}") as site:
        # What decodes batches begins with the first of them, and is the server's, not a test's.
        site.client.post("/v1/batches", content=bytes(3_000_000), headers=bearer(site.keys["agent"]) | TYPE)
        yield Published(port, request.param, site.client, site.keys)


@pytest.fixture(scope="module")
def open_to_loopback() -> Iterator[Published]:
    """A server without keys."""
    (port,) = free_ports(1)
    with _without_keys(f"https://127.0.0.1:{port}") as server:
        yield Published(port, "", server, {})


@contextmanager
def behind(proxy: str, folder: Path, authority: Authority, site: Published) -> Iterator[httpx.Client]:
    """Yield a browser before a proxy before a server."""
    trust = trusting(authority.certificate)
    place, url = f"127.0.0.1:{site.server.base_url.port}", f"https://127.0.0.1:{site.port}{site.prefix}"
    with (
        before(proxy, folder, site.port, place, authority.server(), site.prefix),
        httpx.Client(base_url=url, verify=trust, timeout=PATIENCE_SECONDS) as browser,
    ):

        def answers() -> bool:
            try:
                return browser.get("/healthz").status_code == 200
            except httpx.TransportError:
                return False

        until(answers, f"{proxy} answers", more=(folder / "log").read_text)
        yield browser


@contextmanager
def _without_keys(site_url: str) -> Iterator[httpx.Client]:
    with Store.open(None) as store:
        config = ServerConfig(CollectorConfig(listen="127.0.0.1:0"), Settings(site_url=site_url), analyze_seconds=None)
        with served(create_server(config, store)) as client:
            yield client


@pytest.mark.parametrize("proxy", PROXIES)
def test_people_and_agents_come_through_a_proxy(
    keyed: Published, proxy: str, tmp_path: Path, authority: Authority
) -> None:
    """With its default Host a login was another site's; below a path no link led anywhere."""
    prefix, keys = keyed.prefix, keyed.keys
    with behind(proxy, tmp_path, authority, keyed) as browser:
        origin = f"https://{browser.base_url.host}:{browser.base_url.port}"
        sent = browser.get("/money", headers=HTML)
        assert (sent.status_code, sent.headers["location"].partition("?")[0]) == (303, f"{prefix}/login")
        asked = browser.get(f"{origin}{sent.headers['location']}", headers=HTML)
        form = re.search(r'action="([^"]+)"', asked.text)
        assert form is not None
        fields = {"key": keys["owner"], "next": "/money", "csrf": token_of(asked.text)}
        refused = browser.post(f"{origin}{form[1]}", data=fields, headers={"Origin": "https://evil.example"})
        assert refused.status_code == 403
        asked = browser.get("/login", headers=HTML)
        fields["csrf"] = token_of(asked.text)
        entered = browser.post(f"{origin}{form[1]}", data=fields, headers={"Origin": origin})
        assert (entered.status_code, entered.headers["location"]) == (303, f"{prefix}/money")
        _follow_all(browser, origin, f"{prefix}/money", prefix)
        page = browser.get("/money", headers=HTML)
        again = browser.get("/money", headers=HTML | {"If-None-Match": page.headers["etag"]})
        assert (page.status_code, again.status_code) == (200, 304)
        assert browser.head("/v1/schema").status_code == 200
        large = browser.post("/v1/batches", content=bytes(3_000_000), headers=bearer(keys["agent"]) | TYPE)
        kind = large.headers["content-type"]
        assert kind == "application/problem+json", (large.status_code, large.text)  # ours: no limit of the proxy
        assert browser.get("/v1/runs", headers=bearer(keys["read"])).status_code == 200


def _made(browser: httpx.Client, address: str) -> httpx.Response:
    """Return a page once it is made: 202 has a browser ask again."""

    def page() -> httpx.Response | None:
        answer = browser.get(address, headers=HTML | {"Sec-Fetch-Dest": "document"})
        if answer.status_code != 202:
            return answer
        again = answer.headers["refresh"].partition("url=")[2]
        assert address.endswith(again), again
        return None

    return until(page, f"{address} is made")


def _follow_all(browser: httpx.Client, origin: str, path: str, prefix: str) -> None:
    """Follow every address on a page and on its parts."""
    seen, waiting = {path}, [path]
    while waiting and len(seen) < 40:
        answer = _made(browser, f"{origin}{waiting.pop()}")
        assert answer.status_code in (200, 303, 304), (answer.url, answer.text[:500])
        for address in _ADDRESS.findall(answer.text) if "html" in answer.headers.get("content-type", "") else []:
            if not address.startswith("/"):
                assert address.startswith(("?", "https://", "http://")), address
                continue
            assert address.startswith(f"{prefix}/"), address
            plain = address.replace("&amp;", "&")
            if plain not in seen and "logout" not in plain:
                seen.add(plain)
                waiting.append(plain)
    assert len(seen) > 20


@pytest.mark.parametrize("proxy", PROXIES)
def test_without_keys_nobody_comes_through_a_proxy(
    open_to_loopback: Published, proxy: str, tmp_path: Path, authority: Authority
) -> None:
    """Through a proxy on the same host anybody would come from loopback."""
    with behind(proxy, tmp_path, authority, open_to_loopback) as browser:
        for path in ("/", "/v1/runs", "/metrics", "/money"):
            refused = browser.get(path)
            assert (refused.status_code, "gpuledger admin access add" in refused.text) == (403, True)


@pytest.mark.parametrize(
    "header", ["X-Forwarded-For", "X-Forwarded-Proto", "Forwarded", "Via", "X-Real-IP", "CF-Connecting-IP"]
)
def test_any_header_of_a_proxy_says_that_somebody_came_from_elsewhere(header: str) -> None:
    """One with the name of this machine as Host is told by them alone."""
    with _without_keys("") as client:
        assert client.get("/v1/runs").status_code != 403
        assert client.get("/v1/runs", headers={header: "203.0.113.9"}).status_code == 403


def test_the_ingress_leads_to_the_service_of_the_manifests() -> None:
    """Its names are those of kubernetes/base, and it lets whole batches through."""
    ingress = yaml.safe_load(block("yaml"))
    parts = [
        part
        for file in sorted((ROOT / "kubernetes" / "base").glob("*.yaml"))
        for part in yaml.safe_load_all(file.read_text())
    ]
    services = {part["metadata"]["name"]: part for part in parts if part and part["kind"] == "Service"}
    (path,) = ingress["spec"]["rules"][0]["http"]["paths"]
    backend = path["backend"]["service"]
    ports = {port["name"] for port in services[backend["name"]]["spec"]["ports"]}
    assert backend["port"]["name"] in ports
    limit = ingress["metadata"]["annotations"]["nginx.ingress.kubernetes.io/proxy-body-size"]
    assert int(limit.removesuffix("m")) * 2**20 >= CollectorConfig().body_bytes
