"""Over HTTP the collector's keys stand before the tools, and each key sees what the API shows it."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from mcp.client import Client

from analyzer.errors import ConfigError, UnansweredError
from analyzer.interfaces.mcp.cli import (
    LOOPBACK,
    PATH,
    REQUEST_BYTES,
    _listening,
    assistant,
    forwarding_app,
    guarded_app,
)
from analyzer.interfaces.mcp.server import create_server
from analyzer.interfaces.mcp.site import OwnSite, ServedSite
from analyzer.settings.settings import Settings
from collector.access.open_access import access_of
from collector.config import CollectorConfig, settings_file
from tests.analyzer.interfaces.api_sites import TOKEN, collector
from tests.analyzer.interfaces.api_sites import Site as Running
from tests.analyzer.interfaces.api_sites import site as running
from tests.analyzer.interfaces.mcp_serving import Served, from_store
from tests.analyzer.interfaces.mcp_sites import store_at
from tests.collector.access.conftest import bearer
from tests.dashboards.serving import served
from tests.waiting import PATIENCE_SECONDS, until

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def own(site: tuple[Path, Settings]) -> Iterator[Served]:
    """An assistant that reads a store."""
    with from_store(*site) as one:
        yield one


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Running]]:
    """An assistant that reads a running server, and that server."""
    with running(tmp_path_factory.mktemp("server")) as one:
        source = ServedSite(str(one.client.base_url), None)
        with served(forwarding_app(create_server(source), LOOPBACK, source)) as client:
            yield Served(client, {**one.keys, "site": TOKEN}), one


def test_nobody_comes_in_without_a_key(own: Served, elsewhere: tuple[Served, Running]) -> None:
    """Not even to ask which tools there are."""
    for one in (own, elsewhere[0]):
        assert one.post("tools/list", {}).status_code == 401
        assert one.post("tools/list", {}, **bearer("gl_read_" + "x" * 40)).status_code == 401
        assert one.post("tools/list", {}, **bearer(one.keys["site"])).status_code == 200


@pytest.mark.parametrize("role", ["agent", "writer"])
def test_keys_that_may_not_read_come_no_further(own: Served, role: str) -> None:
    """Who writes telemetry cannot read money, by no way."""
    assert own.post("tools/list", {}, **bearer(own.keys[role])).status_code == 403


def test_a_team_reads_its_own_and_no_others(own: Served) -> None:
    """The same as over the API: what may not be seen is in no row and in no sum."""
    everything = own.items("read", "costs", {"since": "2025-11-10", "by": "team"})
    for team in ("holders", "workers"):
        costs = [item["team"] for item in own.items(team, "costs", {"since": "2025-11-10", "by": "team"})]
        assert costs == [{"untrusted": team}]
        teams = {item["team"]["untrusted"] for item in own.items(team, "runs")}
        assert teams == {team}
        assert {item["team"]["untrusted"] for item in own.items(team, "findings", {"since": "2025-11-10"})} == {team}
    assert len(everything) > 2


def test_a_team_cannot_ask_for_anothers_finding(own: Served) -> None:
    """By its id, by its team, or by a cursor of somebody else's listing."""
    since = {"since": "2025-11-10"}
    theirs = own.items("holders", "findings", since)[0]["id"]
    assert not own.call("holders", "explain_finding", since | {"finding_id": theirs}).get("isError")
    assert own.call("workers", "explain_finding", since | {"finding_id": theirs})["isError"]
    assert own.items("workers", "findings", since | {"team": "holders"}) == []
    cursor = own.call("read", "runs", {"rows": 1})["structuredContent"]["next_cursor"]
    assert own.call("workers", "runs", {"rows": 1, "cursor": cursor})["isError"]


def test_who_spent_it_is_told_to_owners_alone(own: Served) -> None:
    """As the API has it: names of people are for those who answer for them."""
    assert own.call("read", "costs", {"by": "user"})["isError"]
    assert not own.call("owner", "costs", {"by": "user", "since": "2025-11-10"}).get("isError")


def test_a_server_elsewhere_judges_by_its_own_keys(elsewhere: tuple[Served, Running]) -> None:
    """The key of whoever asks is passed on: what the server shows it is what the tools show."""
    assistant_, server = elsewhere
    for team in ("holders", "workers"):
        shown = [item["run_id"]["untrusted"] for item in assistant_.items(team, "runs")]
        assert shown == [item["run_id"] for item in server.items("/v1/runs", team)]
    assert assistant_.items("nobody's", "runs") == []


def test_our_own_token_is_not_lent(elsewhere: tuple[Served, Running], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever shows nothing is nobody, also where this process could show something."""
    monkeypatch.setenv("GPULEDGER_TOKEN", TOKEN)
    assert elsewhere[0].post("tools/list", {}).status_code == 401


def test_over_stdio_it_is_our_own_key_that_asks(elsewhere: tuple[Served, Running]) -> None:
    """The client started this process, with its own environment."""
    _, server = elsewhere
    url = str(server.client.base_url)
    shown = asyncio.run(ServedSite(url, server.keys["holders"]).ask("/v1/runs", {}, None))
    assert shown["items"] == server.items("/v1/runs", "holders")
    with pytest.raises(UnansweredError) as refused:
        asyncio.run(ServedSite(url, None).ask("/v1/runs", {}, None))
    assert refused.value.status == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example:80"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://localhost:3000"}, 403),
        ({"Content-Type": "text/plain"}, 400),
    ],
)
def test_pages_in_browsers_are_turned_away(own: Served, headers: dict[str, str], status: int) -> None:
    """A page that gave its own name our address, or sends a form, is no client of ours."""
    assert own.post("tools/list", {}, **bearer(own.keys["read"]), **headers).status_code == status


def test_a_message_is_bounded(own: Served) -> None:
    """Whoever has a key cannot fill the memory."""
    answer = own.post("tools/list", {"x": "x" * REQUEST_BYTES}, **bearer(own.keys["read"]))
    assert answer.status_code == 413


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_no_session_can_be_taken_over(own: Served, method: str) -> None:
    """None is kept: each message shows its own key, and there is no stream to listen to."""
    answer = own.client.request(method, PATH, headers=bearer(own.keys["read"]))
    assert answer.status_code == 405
    started = own.post("tools/list", {}, **bearer(own.keys["read"]))
    assert "mcp-session-id" not in started.headers


def test_what_is_not_the_tools_is_not_there(own: Served) -> None:
    """The API that answers within is not on the network."""
    assert own.client.get("/v1/runs", headers=bearer(own.keys["read"])).status_code == 404
    assert own.client.get("/openapi.json", headers=bearer(own.keys["read"])).status_code == 403


def test_reading_over_http_is_in_the_audit(site: tuple[Path, Settings], tmp_path: Path) -> None:
    """As any reading of the API is: who, and which address."""
    config = replace(collector(), store=tmp_path / "none.duckdb")
    access = access_of(config, config.store)
    app = guarded_app(create_server(OwnSite(CollectorConfig(store=site[0]), site[1], access)), LOOPBACK, access)
    with served(app) as client:
        Served(client, {"site": TOKEN}).items("site", "runs")
        access.usage.flush(last=True)
        said = [str(entry) for entry in access.registry.audit.since(0)]
    assert any("/v1/runs" in entry for entry in said)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--http", "8475", "--store", "absent.duckdb"], "no store"),
        (["--http", "0.0.0.0:8475", "--server", "http://127.0.0.1:1"], "127.0.0.1"),
        (["--http", "none", "--server", "http://127.0.0.1:1"], "none"),
        (["--http", "70000", "--server", "http://127.0.0.1:1"], "70000"),
    ],
)
def test_what_cannot_be_served_is_said(arguments: list[str], word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence, before anything listens."""
    monkeypatch.chdir(Path(__file__).parent)
    with pytest.raises(Exception, match=word) as refused:
        assistant(arguments)
    assert type(refused.value).__name__ in ("ConfigError", "StoreError")


def test_listening_everywhere_needs_a_name(site: tuple[Path, Settings]) -> None:
    """Else any name that leads here would do, and the check of Host would be none."""
    with pytest.raises(ConfigError, match="site_url"):
        assistant(["--http", "0.0.0.0:0", "--store", str(site[0])])


def test_a_client_reaches_the_command_over_http(tmp_path: Path) -> None:
    """The whole way: the process as it is started, and a client of the protocol; a site without keys asks for none."""
    path, _ = store_at(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "gpuledger", "assistant", "--store", str(path), "--http", str(port)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: _answers(f"http://127.0.0.1:{port}/healthz"), "the assistant answers", process=process)

        async def within() -> int:
            async with Client(f"http://127.0.0.1:{port}{PATH}") as client:
                answer = await client.call_tool("topology", {})
                assert answer.structured_content is not None
                return int(answer.structured_content["gpus"])

        assert asyncio.run(within()) > 10
    finally:
        process.terminate()
        assert process.wait(PATIENCE_SECONDS) == 0


def test_tokens_of_the_settings_beside_a_store_are_asked_for(tmp_path: Path) -> None:
    """A second door must not be open where the first is locked."""
    (tmp_path / "gpuledger.toml").write_text(f'[collector]\ntokens = ["{TOKEN}"]\n')
    _, config = _listening("8475", settings_file(tmp_path / "store.duckdb", None))
    assert (config.tokens, config.listen) == ((TOKEN,), "127.0.0.1:8475")


def _answers(url: str) -> bool:
    try:
        # To read who is to be believed takes each client 30 ms, and it is asked many times before it answers.
        return httpx.get(url, timeout=PATIENCE_SECONDS, verify=False).status_code == 200
    except httpx.HTTPError:
        return False
