"""An admin changes the prices of a running server: whole, only what was read, and written down."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from analyzer.settings.settings import Settings
from tests.analyzer.interfaces.api_sites import LATER, Site, site
from tests.collector.access.conftest import bearer

DEAR = b"""currency = "USD"
[[price]]
sku = "H100-80GB"
purchase_option = "any"
usd_per_gpu_hour = 5.20
from = 2020-01-01
as_of = 2025-01-01
source = "contract 4712"
"""


@pytest.fixture(scope="module")
def steady(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Path]]:
    """A server and its price file, for tests that change nothing."""
    folder = tmp_path_factory.mktemp("steady")
    with site(folder) as served:
        yield served, folder / "prices.toml"


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Site]:
    """A server whose price file lies in `tmp_path`."""
    with site(tmp_path) as served:
        yield served


def _put(to: Site, content: bytes = DEAR, key: str = "admin", **headers: str) -> httpx.Response:
    usual = bearer(to.keys[key]) | {
        "Content-Type": "application/toml",
        "If-Match": to.get("/v1/prices").headers["ETag"],
    }
    return to.client.put("/v1/prices", content=content, headers=usual | headers)


def _cost(of: Site) -> int:
    return int(of.json("/v1/ledger")["total"]["cost_micros"])


def test_the_next_analysis_prices_with_what_an_admin_put(running: Site, tmp_path: Path) -> None:
    """Twice the price is twice the bill, without a login on the server and without a restart."""
    before = _cost(running)
    answer = _put(running)
    assert (answer.status_code, answer.content) == (200, DEAR)
    assert (tmp_path / "prices.toml").read_bytes() == DEAR
    assert running.get("/v1/prices").headers["ETag"] == answer.headers["ETag"]
    there = Settings(prices=tmp_path / "prices.toml", teams=tmp_path / "teams.toml", timezone="Europe/Berlin")
    running.fleet.analyze(now=LATER, settings=there)
    assert _cost(running) == 2 * before


def test_the_audit_says_who_changed_which_prices(running: Site) -> None:
    """Finance asks a year later why a bill went up."""
    before = running.get("/v1/prices").headers["X-Price-Version"]
    after = _put(running).headers["X-Price-Version"]
    (entry,) = [one for one in running.registry.audit.since(0) if one.action == "prices"]
    assert (entry.kind, entry.subject) == ("change", "prices.toml")
    assert entry.actor in running.keys["admin"]
    assert entry.detail == f"from version {before} to {after}"


@pytest.mark.parametrize("key", ["holders", "workers"])
def test_who_reads_changes_nothing(steady: tuple[Site, Path], key: str) -> None:
    """A team's key sees its own money, and neither sees nor sets what everybody pays."""
    served, file = steady
    there = file.read_bytes()
    assert _put(served, key=key).status_code == 403
    assert served.get("/v1/prices", key).status_code == 403
    assert file.read_bytes() == there


@pytest.mark.parametrize(
    ("content", "headers", "status", "said"),
    [
        (b"currency = [", {}, 400, "prices.toml is not valid TOML"),
        (DEAR.replace(b"5.20", b"-1"), {}, 400, "usd_per_gpu_hour"),
        (DEAR.replace(b"USD", b"EUR").replace(b"usd_", b"eur_"), {}, 400, "is in EUR, the ledger in USD"),
        (DEAR + DEAR.partition(b"\n")[2], {}, 400, "two prices of H100-80GB"),
        (DEAR, {"If-Match": '"of another"'}, 412, "changed since it was read"),
        (DEAR, {"If-Match": ""}, 428, "If-Match"),
        (DEAR, {"Content-Type": "text/plain"}, 415, "application/toml"),
        (b"#" * 1_000_001, {}, 413, "1,000,000 bytes"),
        (b"a = " + b"[" * 100_000, {}, 400, "prices.toml"),
        (b"a" + b".a" * 100_000 + b" = 1", {}, 400, "nested too deeply"),
    ],
    ids=["torn", "negative", "currency", "overlap", "stale", "blind", "type", "large", "deep", "dots"],
)
def test_what_is_wrong_changes_nothing(
    steady: tuple[Site, Path], content: bytes, headers: dict[str, str], status: int, said: str
) -> None:
    """A file that is half right would price half of the fleet."""
    served, file = steady
    there = file.read_bytes()
    answer = _put(served, content, **headers)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert said in answer.json()["detail"]
    assert file.read_bytes() == there
    assert [entry for entry in served.registry.audit.since(0) if entry.action == "prices"] == []


def test_a_file_that_the_server_may_not_write_is_said(running: Site, tmp_path: Path) -> None:
    """Below a read-only /etc the file stays the operator's; the answer says where it may lie."""
    (tmp_path / ".prices.toml.new").mkdir()  # as root no permission stops us, a folder in the way does
    answer = _put(running)
    assert answer.status_code == 409
    assert "cannot write" in answer.json()["detail"]
