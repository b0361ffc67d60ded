"""An assistant that is served over HTTP, with keys of teams and roles."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from analyzer.interfaces.mcp.cli import LOOPBACK, PATH, guarded_app
from analyzer.interfaces.mcp.server import create_server
from analyzer.interfaces.mcp.site import OwnSite
from analyzer.settings.settings import Settings
from collector.access.open_access import access_of
from collector.config import CollectorConfig
from tests.analyzer.interfaces.api_sites import TOKEN, collector
from tests.collector.access.conftest import add_key, bearer
from tests.dashboards.serving import served

ASKED = {"Accept": "application/json, text/event-stream"}


@dataclass(frozen=True)
class Served:
    """A served assistant and the keys of its site."""

    client: httpx.Client
    keys: dict[str, str]

    def post(self, method: str, parameters: dict[str, Any], **headers: str) -> httpx.Response:
        """Send one message."""
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
        return self.client.post(PATH, json=message, headers=ASKED | headers)

    def call(self, who: str, tool: str, arguments: dict[str, Any]) -> Any:
        """Return the result of a tool for the holder of a key."""
        answer = self.post("tools/call", {"name": tool, "arguments": arguments}, **bearer(self.keys[who]))
        assert answer.status_code == 200, answer.text
        return answer.json()["result"]

    def items(self, who: str, tool: str, arguments: dict[str, Any] | None = None) -> Any:
        """Return the rows that a tool which must succeed gives to the holder of a key."""
        result = self.call(who, tool, {"rows": 50} | (arguments or {}))
        assert not result.get("isError"), result
        return result["structuredContent"]["items"]


@contextmanager
def from_store(path: Path, settings: Settings) -> Iterator[Served]:
    """Serve a store, with keys of two teams and of some roles beside it."""
    access = access_of(collector(), path)
    registry = access.registry
    keys = {team: add_key(registry, "read", teams=(team,)) for team in ("holders", "workers")}
    keys |= {role: add_key(registry, role) for role in ("read", "writer", "owner")}
    keys |= {"agent": add_key(registry, "agent", node="r0"), "site": TOKEN}
    access.directory.refresh()
    site = OwnSite(CollectorConfig(store=path), settings, access)
    with served(guarded_app(create_server(site), LOOPBACK, access)) as client:
        yield Served(client, keys)
