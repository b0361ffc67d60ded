"""Requests by roles: one table of what each may do, asked of a collector that answers."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from collector.access.access import Access
from collector.access.gate import ENDPOINTS, UNKNOWN, endpoint_of
from collector.config import CollectorConfig, is_loopback
from collector.registry import open_registry
from collector.registry.roles import KEY_ROLES, ROLES, Principal, Right
from tests.collector.access.conftest import TOKEN, add_key, bearer
from tests.collector.access.serving import Site
from tests.collector.access.serving import site as serve
from tests.collector.batches import body

OK, ASKED, FORBIDDEN, MISSING = 200, 401, 403, 404
WHO = ("nobody", "agent", "writer", "read", "team", "owner", "approver", "finance", "admin", "site")
LOGIN = ("/login", "/login/start", "/login/callback")
# What each of WHO is answered. A page that is not there is 404 for who may change everything, and 403 for the others.
TABLE = {
    ("GET", "/healthz"): (OK, OK, OK, OK, OK, OK, OK, OK, OK, OK),
    ("GET", "/readyz"): (OK, OK, OK, OK, OK, OK, OK, OK, OK, OK),
    ("GET", "/v1/schema"): (ASKED, OK, OK, OK, OK, OK, OK, OK, OK, OK),
    ("POST", "/v1/batches"): (ASKED, OK, OK, *[FORBIDDEN] * 6, OK),
    ("GET", "/metrics"): (ASKED, FORBIDDEN, FORBIDDEN, OK, FORBIDDEN, OK, OK, OK, OK, OK),
    ("GET", "/nowhere"): (ASKED, *[FORBIDDEN] * 7, MISSING, FORBIDDEN),
    ("DELETE", "/v1/batches"): (ASKED, *[FORBIDDEN] * 7, 405, FORBIDDEN),
    ("HEAD", "/metrics"): (ASKED, FORBIDDEN, FORBIDDEN, OK, FORBIDDEN, OK, OK, OK, OK, OK),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, dict[str, str]]]:
    """A collector with a token in its settings, and what each role shows."""
    path = tmp_path_factory.mktemp("site") / "store.duckdb"
    with serve(CollectorConfig(store=path, lake="none", gather_seconds=0, tokens=(TOKEN,))) as serving:
        registry = serving.registry
        keys = {role: add_key(registry, role) for role in ("writer", "read", "owner", "approver", "finance", "admin")}
        keys |= {"agent": add_key(registry, "agent", node="n14"), "team": add_key(registry, "read", teams=("vision",))}
        yield serving, {who: keys.get(who, TOKEN if who == "site" else "") for who in WHO}


@pytest.mark.parametrize(("method", "path"), TABLE)
@pytest.mark.parametrize("who", WHO)
def test_a_role_may_what_the_table_says(site: tuple[Site, dict[str, str]], who: str, method: str, path: str) -> None:
    """Who reads the table knows who can do what; whoever changes a role or route reads it again here."""
    serving, shown = site
    headers = bearer(shown[who]) if shown[who] else {}
    if path == "/v1/batches":
        answer = serving.client.request(
            method, path, body(), headers | {"Content-Type": "application/vnd.gpuledger.batch"}
        )
    else:
        answer = serving.client.request(method, path, None, headers)
    assert answer.status == TABLE[method, path][WHO.index(who)], answer.text


def test_every_role_of_a_key_is_tried() -> None:
    """A role that is added is added to the table above."""
    assert set(KEY_ROLES) <= set(WHO)
    assert set(ROLES) == {*KEY_ROLES, "site", "local"}


@pytest.mark.parametrize("role", KEY_ROLES)
def test_no_key_may_everything(role: str) -> None:
    """Who writes telemetry cannot read money, and who reads it cannot invent it."""
    assert len(ROLES[role] & {Right.BATCHES, Right.READ}) == 1  # type: ignore[index]


def test_what_is_in_no_table_needs_the_most() -> None:
    """A route that somebody adds and forgets is closed, and not open."""
    for method, path in (("GET", "/v2/ledger"), ("PATCH", "/healthz"), ("GET", "//healthz"), ("GET", "/healthz/")):
        assert endpoint_of(method, path) is UNKNOWN
    assert [role for role in KEY_ROLES if Principal("k", role).may(UNKNOWN.right)] == ["admin"]
    # Whoever holds the link of a mail may stop that mail: its token is the key. The login page asks for one.
    is_open = {one.path for one in ENDPOINTS if one.right is Right.OPEN}
    assert is_open == {"/healthz", "/readyz", "/v1/enrol", "/mail/stop/{token}", "/static/{name}", *LOGIN}


def test_loopback_alone_is_open_and_only_to_its_own_name(collector: Site) -> None:
    """A first try asks for nothing; but a page that gave its own name our address gets nothing either."""
    port = collector.port
    for host in (f"127.0.0.1:{port}", "localhost", "LOCALHOST:1", "[::1]:8470", ""):
        assert collector.client.get("/metrics", {"Host": host}).status == OK, host
    for host in ("gpuledger.example", "evil.example:8470", "127.0.0.1.evil.example", "localhost.evil.example"):
        answer = collector.client.get("/metrics", {"Host": host})
        assert (answer.status, answer.json["reason"]) == (FORBIDDEN, "host")
        assert "gpuledger admin access add" in answer.json["detail"]


def test_the_first_key_closes_the_door(collector: Site) -> None:
    """A proxy on the same machine comes from loopback too: once a site has keys, everybody needs one, for good."""
    assert collector.client.get("/metrics").status == OK
    key = add_key(collector.registry, "read")
    collector.follow()
    assert collector.client.get("/metrics").status == ASKED
    assert collector.client.get("/metrics", bearer(key)).status == OK
    collector.registry.keys.revoke([key.split("_")[2]], 1, "test")
    collector.follow()
    assert collector.client.get("/metrics").status == ASKED


@pytest.mark.parametrize("listen", ["0.0.0.0:8470", "[::]:8470", "collector.example:8470", "10.0.0.7:1"])
def test_beyond_loopback_nobody_comes_in_without_a_key(listen: str) -> None:
    """Also where nobody has made one yet: otherwise everyone on the network could write to the ledger, and read it."""
    host, _ = CollectorConfig(listen=listen).address
    with open_registry(None) as registry:
        assert Access(registry, is_loopback=is_loopback(host)).asks


@pytest.mark.parametrize("name", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "X-Remote-User", "X-Forwarded-Host"])
def test_no_header_of_a_proxy_opens_anything(guarded: Site, name: str) -> None:
    """Anybody can send one."""
    for value in ("127.0.0.1", "for=127.0.0.1;host=localhost", "admin"):
        assert guarded.client.get("/metrics", {name: value}).status == ASKED


def test_a_page_of_another_site_changes_nothing(guarded: Site, collector: Site) -> None:
    """A browser adds the password by itself to what another site's page sends, and tells where it came from."""
    batch = {"Content-Type": "application/vnd.gpuledger.batch"}
    for serving, shown in ((guarded, bearer(TOKEN)), (collector, {})):
        headers = batch | shown
        answer = serving.client.post(body(), headers | {"Origin": "https://evil.example"})
        assert (answer.status, answer.json["reason"]) == (FORBIDDEN, "origin")
        assert serving.batches() == 0
        own = f"http://127.0.0.1:{serving.port}"
        assert serving.client.post(body(), headers | {"Origin": own}).status == OK


def test_two_tokens_of_the_settings_are_compared_whole(config: CollectorConfig) -> None:
    """No prefix of a token opens, and no token with something behind it."""
    with serve(replace(config, tokens=(TOKEN,))) as serving:
        for wrong in (TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "gl_read_", "gl_read_x_y", f"gl_join_{TOKEN}_x"):
            assert serving.client.get("/metrics", bearer(wrong)).status == ASKED
