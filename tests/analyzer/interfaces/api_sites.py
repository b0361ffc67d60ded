"""Sites for the API's tests: small ledgers of the real analysis, and the real server before them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from analyzer.settings.settings import Settings
from collector.config import CollectorConfig
from collector.registry import Registry
from dashboards.server.app import ServerConfig, create_server
from tests.analyzer.ledger.copies import made_once
from tests.analyzer.ledger.fleet import DAY, MONDAY, Fleet, priced
from tests.analyzer.small_site import small_site
from tests.collector.access.conftest import add_key, bearer
from tests.dashboards.serving import served

TOKEN = "a token for the whole site"
# Who loses by holding is one team, everybody else another; the crossing run is nobody's.
TEAMS = """
[[rule]]
team = "holders"
name = "[anrtf][eboar]*"
from = 2020-01-01

[[rule]]
team = "workers"
name = "slurm/alpha/[!c]*"
from = 2020-01-01
"""
LATER = MONDAY + DAY
AGES = 100_000  # days


@dataclass(frozen=True)
class Site:
    """A running server on a small ledger, and keys to it."""

    client: httpx.Client
    fleet: Fleet
    keys: Mapping[str, str]  # by team, and one that may do everything
    registry: Registry

    def get(self, path: str, team: str | None = None, **headers: str) -> httpx.Response:
        """Ask as one who sees everything, or one team."""
        token = TOKEN if team is None else self.keys[team]
        return self.client.get(path, headers=bearer(token) | headers)

    def json(self, path: str, team: str | None = None) -> Any:
        """Return what a reading that must succeed says."""
        answer = self.get(path, team)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def items(self, path: str, team: str | None = None) -> list[Any]:
        """Return the items of all pages of a listing."""
        found: list[Any] = []
        sign = "&" if "?" in path else "?"
        page = self.json(path, team)
        found += page["items"]
        while page["next_cursor"] is not None:
            page = self.json(f"{path}{sign}cursor={page['next_cursor']}", team)
            found += page["items"]
        return found


def settings(directory: Path) -> Settings:
    """Return settings with a price and two teams."""
    teams = directory / "teams.toml"
    teams.write_text(TEAMS)
    return replace(priced(directory, H100_80GB=2.6), teams=teams, timezone="Europe/Berlin")


def collector(**more: Any) -> CollectorConfig:
    """Return settings of a server whose store keeps what is years old: these ledgers are of 2025."""
    kept = {"raw_days": AGES, "minute_days": AGES, "hour_days": AGES, "receipt_days": AGES}
    return CollectorConfig(**{"listen": "127.0.0.1:0", "lake": "none", "tokens": (TOKEN,)} | kept | more)


@made_once
def analysed(now: int) -> Fleet:
    """Return the small site after a pass with these prices and teams."""
    with TemporaryDirectory() as folder:
        fleet = small_site()
        fleet.analyze(now=now, settings=settings(Path(folder)))
    return fleet


@contextmanager
def site(directory: Path, fleet: Fleet | None = None, now: int = LATER) -> Iterator[Site]:
    """Yield a server on the small site, or on another, analysed."""
    chosen = settings(directory)
    if fleet is None:
        fleet = analysed(now)
    else:
        fleet.analyze(now=now, settings=chosen)
    app = create_server(ServerConfig(collector(), chosen, analyze_seconds=None), fleet.store)
    registry = app.state.access.registry
    keys = {team: add_key(registry, "read", teams=(team,)) for team in ("holders", "workers", "nobody's")}
    keys["admin"] = add_key(registry, "admin")
    with served(app) as client:
        yield Site(client, fleet, keys, registry)
