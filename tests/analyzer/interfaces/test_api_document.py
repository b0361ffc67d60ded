"""docs/api.md shows what a small demo answers, byte for byte, and names every address."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.small_demo import shown, small_demo

DOCUMENT = Path(__file__).parents[3] / "docs" / "api.md"
OPENAPI = DOCUMENT.with_name("openapi.json")
EXAMPLE = re.compile(r"<!-- (/v1/\S+) -->\n```json\n(.*?)```\n", re.DOTALL)
READINGS = {"ledger", "runs", "findings", "reports"}  # as the document tags them


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Yield a client of a small demo."""
    with shown(small_demo(tmp_path_factory)) as client:
        yield client


def said(client: httpx.Client, path: str) -> str:
    """Return an answer as the document shows it: short lists on one line, and nothing that changes."""
    document = client.get(path).json()
    if "generation" in document:
        document["generation"] = "GENERATION"
    if "hours" in document:
        document["hours"]["status"] = "closed"  # the example's week is final once its month is over
    if document.get("next_cursor") is not None:
        document["next_cursor"] = "CURSOR"
    text = json.dumps(document, indent=2, ensure_ascii=False)
    flat = re.compile(r"([\[{])\n\s+([^\[\]{}]*?)\n\s+([\]}])")
    return flat.sub(lambda found: found[1] + re.sub(r"\n\s+", " ", found[2]) + found[3], text) + "\n"


def test_the_examples_are_what_the_demo_answers(site: httpx.Client, request: pytest.FixtureRequest) -> None:
    """An example that was typed is wrong within a year."""
    text = DOCUMENT.read_text("utf-8")
    shown = EXAMPLE.sub(lambda found: f"<!-- {found[1]} -->\n```json\n{said(site, found[1])}```\n", text)
    if request.config.getoption("--update-golden"):
        DOCUMENT.write_text(shown, "utf-8")
    assert shown == DOCUMENT.read_text("utf-8"), "run pytest --update-golden, and read the difference"
    assert len(EXAMPLE.findall(text)) == 6


def test_every_reading_is_named() -> None:
    """Who reads the document knows what there is."""
    text = DOCUMENT.read_text("utf-8")
    paths = json.loads(OPENAPI.read_text("utf-8"))["paths"]
    readings = [path for path, item in paths.items() if READINGS & set(item.get("get", {}).get("tags", ()))]
    assert len(readings) >= 14
    assert [path for path in readings if f"`{re.sub('{.*}', '{id}', path)}`" not in text] == []
