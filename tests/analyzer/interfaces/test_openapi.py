"""The OpenAPI document: whole, ours alone, and true of what the server does."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.routing import Route

from analyzer.interfaces.api.routes import document
from analyzer.settings.settings import Settings
from collector.store.database import Store
from dashboards.server.app import ServerConfig, create_server
from tests.analyzer.interfaces.api_sites import TOKEN, collector, site
from tests.dashboards.serving import served
from tests.small_demo import small_demo
from tests.waiting import PATIENCE_SECONDS

DOCUMENT = Path(__file__).parents[3] / "docs" / "openapi.json"
EXAMPLES = 2  # for each operation; `make bench-fuzz` tries more
# Each parameter is tried at each of its edges: of one address for each kind of parameters; `make bench-fuzz` tries all.
# Of /v1/findings are a page's limit and cursor, times, a word, lists of words and of names, and what is true or false.
EDGES = ("/v1/enrol", "/v1/findings", "/v1/recommendations/{advice_id}", "/v1/schema")
EDGES_ALONE = f"[[operations]]\nexclude-path = {json.dumps(EDGES)}\nphases.coverage.enabled = false\n"
FUZZ_SECONDS = 900  # a bound, never waited out


@pytest.fixture(scope="module")
def demo_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    """Yield the server on a small demo: agents' batches, ledger and findings are the product's own."""
    path = small_demo(tmp_path_factory)
    config = collector(store=path, lake="", tokens=())
    with Store.open(path) as store:
        yield create_server(ServerConfig(config, Settings.beside(path), analyze_seconds=None), store)


@pytest.fixture(scope="module")
def address(demo_app: FastAPI) -> Iterator[str]:
    """Yield where that server listens."""
    with served(demo_app) as client:
        yield str(client.base_url).rstrip("/")


@pytest.fixture(scope="module")
def made(demo_app: FastAPI) -> dict[str, Any]:
    """Return the document of that server."""
    return document(demo_app)


def test_the_document_is_the_one_in_docs(made: dict[str, Any], request: pytest.FixtureRequest) -> None:
    """Who writes a client against docs/openapi.json writes it against the server."""
    text = json.dumps(made, indent=1, ensure_ascii=False) + "\n"
    if request.config.getoption("--update-golden"):
        DOCUMENT.write_text(text, "utf-8")
    assert text == DOCUMENT.read_text("utf-8"), "run pytest --update-golden, and read the difference"


def test_every_address_is_in_the_document(demo_app: FastAPI, made: dict[str, Any]) -> None:
    """Pages are for people; what a program may ask is written down, telemetry's own forms too."""
    raw = {route.path for route in demo_app.routes if type(route) is Route}
    assert raw <= set(made["paths"]) | set(made["x-binary-paths"])
    assert not {path for path in made["paths"] if not path.startswith(("/v1/", "/metrics", "/healthz", "/readyz"))}


def test_the_document_is_ours_alone(made: dict[str, Any]) -> None:
    """It refers to nothing elsewhere, and no page shows it with somebody else's scripts."""
    assert made["openapi"].startswith("3.1")
    assert [found for found in _references(made) if not found.startswith("#/components/schemas/")] == []
    assert {found.rsplit("/", 1)[-1] for found in _references(made)} <= set(made["components"]["schemas"])
    for path, item in made["paths"].items():
        for operation in item.values():
            assert operation["responses"].keys() & {"200", "201", "202"}, path


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for value in part.values():
            yield from _references(value)
    elif isinstance(part, list):
        for value in part:
            yield from _references(value)


def test_schemathesis_finds_no_fault(address: str, tmp_path: Path) -> None:
    """With data that is right and data that is wrong: statuses, types, schemas and headers are as written."""
    # This server asks for no key, so that the fuzz reaches whatever any role may; the test below has one that asks.
    open_to_all = httpx.get(f"{address}/v1/openapi.json", timeout=PATIENCE_SECONDS).json()
    del open_to_all["security"]
    (tmp_path / "openapi.json").write_text(json.dumps(open_to_all))
    (tmp_path / "schemathesis.toml").write_text(EDGES_ALONE)
    words = [sys.executable, "-m", "schemathesis.cli", "run", str(tmp_path / "openapi.json"), f"--url={address}"]
    # How long an answer takes is a question for benches: by itself it calls ten seconds a fault.
    words += [
        "--phases=examples,coverage,fuzzing,stateful",
        f"--max-examples={EXAMPLES}",
        "--no-color",
        "--generation-database=none",
        "--seed=1",
        f"--request-timeout={PATIENCE_SECONDS:g}",
    ]
    # What writes to the disk; and TOML, which schemathesis cannot write (tests/collector/access/test_prices.py does).
    words += ["--exclude-path=/v1/backup", "--exclude-method=PUT"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, timeout=FUZZ_SECONDS)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert re.search(r"(\d+) generated, \1 passed", done.stdout), done.stdout[-2000:]


def test_a_client_that_is_made_from_the_document_sends_its_key(tmp_path: Path) -> None:
    """It sends what the document's schemes say; without them each call of a generated client was a 401."""
    with site(tmp_path) as guarded:
        made = guarded.json("/v1/openapi.json")
        shown = credentials(made, TOKEN)
        for path, item in made["paths"].items():
            for method, operation in item.items():
                asked = re.sub(r"{\w+}", "x", path)
                bare = guarded.client.request(method, asked).status_code
                needs = operation.get("security", made["security"])
                assert (bare == 401) == bool(needs) or path == "/v1/enrol", (method, path, bare)
                if needs:
                    assert guarded.client.request(method, asked, headers=shown).status_code != 401, (method, path)
        assert made["paths"]["/v1/enrol"]["post"]["security"] == []  # its token is in the body


def credentials(made: dict[str, Any], key: str) -> dict[str, str]:
    """Return the headers by which a generated client shows its key: of the first alternative that the document has."""
    (name,) = made["security"][0]
    scheme = made["components"]["securitySchemes"][name]
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
    return {"Authorization": f"Bearer {key}"}
