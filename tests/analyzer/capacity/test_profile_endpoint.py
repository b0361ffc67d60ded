"""GET /v1/capacity-profile: the site's collector signs; whoever asks writes the two files as they came."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from analyzer.capacity.profile.signature import TrustedKey, key_at, public_text, read_profile
from analyzer.interfaces.cli.capacity_profile import profile
from dashboards.server.app import ServerConfig, create_server
from tests.analyzer.capacity.profile_small_site import settings, small_site
from tests.analyzer.interfaces.api_sites import TOKEN, collector
from tests.collector.access.conftest import add_key, bearer
from tests.dashboards.serving import served


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the site's settings and key lie."""
    return tmp_path_factory.mktemp("site")


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[tuple[httpx.Client, str]]:
    """Yield a client of a server on the small site, and a key of one team."""
    fleet = small_site(folder)
    chosen = replace(settings(folder), profile_key=folder / "profile.key")
    app = create_server(ServerConfig(collector(), chosen, analyze_seconds=None), fleet.store)
    token = add_key(app.state.access.registry, "read", teams=("nlp",))
    with served(app) as client:
        yield client, token


def test_the_server_signs_with_the_sites_key(
    site: tuple[httpx.Client, str], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command writes what came, byte for byte: a signature holds for one spelling alone."""
    client, _ = site
    monkeypatch.setenv("GPULEDGER_TOKEN", TOKEN)
    out = tmp_path / "p.html"
    address = str(client.base_url).rstrip("/")
    assert profile(["--team", "nlp", "--runs", "1", "--server", address, "--out", str(out)]) == 0
    trusted = [TrustedKey("alpha", public_text(key_at(folder / "profile.key").public_key()), "collector")]
    for file in (out, out.with_suffix(".json")):
        read = read_profile(file, trusted)
        assert (read.state, [run.name for run in read.profile.runs]) == ("trusted", ["sft"])
    assert read_profile(out, trusted).page == "signed"


@pytest.mark.parametrize(
    ("query", "code", "said"),
    [
        ("", 404, "say of whom"),
        ("team=nobody&since=2025-11-10", 404, "its teams are nlp, vision"),
        ("run=77", 404, "has no run"),
        ("team=nlp&since=yesteryear", 422, ""),
        ("team=nlp&since=9999-12-31", 404, ""),
        ("team=nlp&since=2026-11-09&until=2020-01-01", 404, ""),
        ("team=nlp&until=2025-11-12", 200, ""),
        ("team=%00%F0%9F%98%80&since=2025-11-10", 404, ""),
    ],
)
def test_what_is_not_there_is_a_sentence(site: tuple[httpx.Client, str], query: str, code: int, said: str) -> None:
    """As everywhere in the API."""
    client, _ = site
    answer = client.get(f"/v1/capacity-profile?{query}", headers=bearer(TOKEN))
    assert answer.status_code == code, answer.text
    assert said in answer.text


def test_a_teams_key_does_not_learn_what_the_fleet_has_free(site: tuple[httpx.Client, str]) -> None:
    """A profile holds figures of the whole site: who may see one team's alone asks somebody who may see all."""
    client, token = site
    assert client.get("/v1/capacity-profile?team=nlp&run=1", headers=bearer(token)).status_code == 403
