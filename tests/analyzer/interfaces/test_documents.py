"""One thing is one document: a finding and a notice have the same fields wherever they are printed."""

import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from analyzer.findings.finding import EvidenceLine, FindingDocument
from analyzer.findings.health.notice import Notice
from analyzer.interfaces.questions.registry import answer
from analyzer.reports.reader import Reader
from analyzer.reports.request import Request
from analyzer.settings.settings import Settings
from analyzer.text.as_json import plain_data
from collector.store.database import Store
from tests.analyzer.interfaces.api_sites import Site
from tests.analyzer.interfaces.mcp_sites import asked

OPENAPI = Path(__file__).parents[3] / "docs" / "openapi.json"


@pytest.fixture(scope="module")
def reader(site: tuple[Path, Settings]) -> Iterator[Reader]:
    """Yield what the commands read the assistant's store with."""
    path, settings = site
    with Store.open(path, read_only=True) as store, store.session() as session:
        yield Reader(session, settings)


def paths(schema: Any, whole: Any, at: str = "") -> Iterator[str]:
    """Yield the path of every field of a JSON schema; text that is marked as untrusted is a text."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        yield from paths((whole.get("$defs") or whole["components"]["schemas"])[name], whole, at)
        return
    if list(schema.get("properties", ())) == ["untrusted"]:
        return
    for each in schema.get("anyOf", ()):
        yield from paths(each, whole, at)
    if "items" in schema:
        yield from paths(schema["items"], whole, at)
    for name, part in schema.get("properties", {}).items():
        yield f"{at}/{name}"
        yield from paths(part, whole, f"{at}/{name}")


def json_paths(value: Any, at: str = "") -> Iterator[str]:
    """Yield the path of every field of a document."""
    if isinstance(value, list):
        for each in value:
            yield from json_paths(each, at)
    elif isinstance(value, dict):
        for name, part in value.items():
            yield f"{at}/{name}"
            yield from json_paths(part, f"{at}/{name}")


def said(reader: Reader, request: Request) -> Any:
    """Return what a command's `--json` says."""
    return json.loads(answer(reader, request))


def test_a_finding_has_one_schema_in_the_api_and_for_an_assistant(site: tuple[Path, Settings]) -> None:
    """Who learned what a finding is reads it anywhere."""
    whole = json.loads(OPENAPI.read_text("utf-8"))
    api = set(paths({"$ref": "#/components/schemas/FindingDocument"}, whole))
    assert {each.name for each in fields(FindingDocument)} == {path[1:] for path in api if path.count("/") == 1}
    tools = {tool.name: tool.output_schema for tool in asked(*site, lambda client: client.list_tools()).tools}
    for name, field in (("findings", "items"), ("explain_finding", "finding")):
        schema = tools[name]
        assert schema is not None
        assert set(paths(schema["properties"][field], schema)) == api, name


def test_a_finding_is_the_same_document_in_every_command(reader: Reader, small: Site) -> None:
    """`--json` of four commands and three addresses of the API: no field of a finding is one's alone."""
    whole = json.loads(OPENAPI.read_text("utf-8"))
    known = set(paths({"$ref": "#/components/schemas/FindingDocument"}, whole))
    own = {path for path in known if path.count("/") == 1}
    day = "2025-11-10"
    listed = said(reader, Request("findings", since=day, format="json"))
    first = listed["findings"][0]
    alone = said(reader, Request("explain", first["id"], since=day, format="json"))
    run = said(reader, Request("run", first["run_ids"][0], format="json"))
    week = said(reader, Request("week", since=day, format="json"))
    pages = small.json(f"/v1/findings?since={day}"), small.json(f"/v1/profiles?since={day}")
    documents = [
        *listed["findings"],
        *listed["suspicions"],
        alone["finding"],
        *run["findings"],
        *week["findings"],
        *pages[0]["items"],
        *pages[1]["evidence"],
    ]
    assert len(documents) > 20
    for document in documents:
        assert {f"/{name}" for name in document} == own
        assert set(json_paths(document)) <= known
    assert {**alone["finding"], "display": None} == {**first, "display": None}


def test_a_notice_is_the_same_document_in_every_command() -> None:
    """It has no other words and figures where a program asks."""
    names = {each.name for each in fields(Notice)}
    components = json.loads(OPENAPI.read_text("utf-8"))["components"]["schemas"]
    assert set(components["Notice"]["properties"]) == names
    notice = Notice("n-aaaaa", "fleet/drivers", "n1", "an older driver", "platform", evidence=(EvidenceLine("a", "b"),))
    assert set(plain_data(notice)) == names


@pytest.mark.parametrize(
    "request_",
    [Request("findings"), Request("findings", unjudged=True), Request("explain", "first"), Request("week")],
    ids=["findings", "unjudged", "explain", "week"],
)
def test_an_answer_in_json_is_an_object_with_its_currency_and_period(reader: Reader, request_: Request) -> None:
    """A bare list says neither what it is of nor in which money."""
    since = "2025-11-10"
    listed = said(reader, Request("findings", since=since, format="json"))
    subject = listed["findings"][0]["id"] if request_.subject else None
    asked_for = Request(request_.what, subject, since=since, format="json", unjudged=request_.unjudged)
    document = json.loads(answer(reader, asked_for))
    assert document["schema"] == f"gpuledger/{request_.what}"
    assert document["currency"] == "USD"
    assert document["period"]["label"] == since
