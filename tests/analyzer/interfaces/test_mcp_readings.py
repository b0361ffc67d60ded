"""What the tools read is what the API says, marked and bounded, and reading leaves no trace."""

import asyncio
import hashlib
import json
import shutil
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client

from analyzer.interfaces.mcp.server import ANSWER_BYTES, INSTRUCTIONS, create_server
from analyzer.interfaces.mcp.site import OwnSite, get
from analyzer.settings.settings import Settings
from analyzer.text.words import plain
from collector.config import CollectorConfig
from collector.store.database import Store
from tests.analyzer.capacity.test_planner_task_reading import FOUR
from tests.analyzer.interfaces.api_sites import settings as priced_teams
from tests.analyzer.interfaces.mcp_sites import ORDER, asked, own_site, texts

SINCE = {"since": "2025-11-10"}
READINGS: dict[str, dict[str, Any]] = {
    "findings": SINCE | {"rows": 50},
    "runs": {"rows": 50},
    "costs": SINCE | {"by": "run", "rows": 50},
    "topology": {"rows": 50},
}


def told(site: tuple[Path, Settings], name: str, arguments: dict[str, Any]) -> Any:
    """Return what a tool that must succeed answers with."""
    result = asked(*site, lambda client: client.call_tool(name, arguments))
    assert not result.is_error, result.content
    assert json.loads(result.content[0].text) == result.structured_content  # type: ignore[union-attr]
    return result.structured_content


def document(site: tuple[Path, Settings], path: str, query: dict[str, Any]) -> Any:
    """Return what the API itself says."""
    return asyncio.run(own_site(*site).ask(path, query, None))


def test_every_tool_says_that_it_reads_only(site: tuple[Path, Settings]) -> None:
    """A client may let a model call what only reads without asking anybody; so it must be so, and be said of each."""
    tools = asked(*site, lambda client: client.list_tools()).tools
    reads = {"findings", "explain_finding", "runs", "costs", "topology"}
    assert {tool.name for tool in tools} == reads | {"solve_plan", "validate_plan", "simulate_plan"}
    for tool in tools:
        hints = tool.annotations
        assert hints is not None, tool.name
        assert (hints.read_only_hint, hints.destructive_hint, hints.open_world_hint) == (True, False, False), tool.name
        assert tool.output_schema, f"{tool.name} answers without a shape"
        assert not set(tool.name.split("_")) & {"apply", "accept", "mute", "judge", "reject", "write", "set"}


def test_the_server_offers_tools_and_nothing_else(site: tuple[Path, Settings]) -> None:
    """A resource or a prompt would be another way in, which no test here walks."""

    async def others(client: Client) -> int:
        return len((await client.list_resources()).resources) + len((await client.list_prompts()).prompts)

    assert asked(*site, others) == 0


def test_findings_are_those_of_the_api(site: tuple[Path, Settings]) -> None:
    """One figure everywhere: what a model quotes stands on the page, too."""
    api = {item["id"]: item for item in document(site, "/v1/findings", SINCE | {"limit": 50})["items"]}
    answer = told(site, "findings", READINGS["findings"])
    assert len(answer["items"]) == len(api) > 5
    for item in answer["items"]:
        own = api[item["id"]]
        assert (item["milliseconds"], item["at_stake_micros"]) == (own["milliseconds"], own["at_stake_micros"])
        assert item["display"] == own["display"]


def test_costs_sum_to_the_total_of_the_api(site: tuple[Path, Settings]) -> None:
    """Every bearer and every class, exactly."""
    api = document(site, "/v1/costs", SINCE | {"by": "run"})
    answer = told(site, "costs", READINGS["costs"])
    assert answer["total"] == api["total"]
    assert sum(item["cost_micros"] for item in answer["items"]) == api["total"]["cost_micros"]
    classes = ("useful", "avoidable", "overhead", "spare", "unknown")
    for item in answer["items"]:
        assert sum(item["classes"][name]["milliseconds"] for name in classes) == item["milliseconds"]


def test_a_finding_is_explained_with_what_would_prove_it_wrong(site: tuple[Path, Settings]) -> None:
    """A model that quotes a finding can quote its doubt."""
    first = told(site, "findings", SINCE | {"rows": 1})["items"][0]
    answer = told(site, "explain_finding", SINCE | {"finding_id": first["id"]})
    assert answer["finding"]["id"] == first["id"]
    assert answer["finding"]["wrong_if"]["untrusted"]
    assert answer["finding"]["evidence"][0]["seen"]["untrusted"]


def test_topology_counts_hosts_and_gpus(site: tuple[Path, Settings]) -> None:
    """The racks sum to the site."""
    answer = told(site, "topology", {"rows": 3})
    assert sum(rack["nodes"] for rack in answer["racks"]) == answer["nodes"] > 3
    assert sum(rack["gpus"] for rack in answer["racks"]) == answer["gpus"]
    assert (len(answer["items"]), answer["next_cursor"] is None) == (3, False)


@pytest.mark.parametrize("name", READINGS)
def test_pages_follow_one_another(site: tuple[Path, Settings], name: str) -> None:
    """What is left out is said, and can be had."""
    whole = told(site, name, READINGS[name])["items"]
    rows: list[Any] = []
    arguments = READINGS[name] | {"rows": 4}
    while True:
        page = told(site, name, arguments)
        rows += page["items"]
        if page["next_cursor"] is None:
            break
        arguments["cursor"] = page["next_cursor"]
    assert rows == whole


def test_orders_in_names_come_out_as_data_alone(site: tuple[Path, Settings]) -> None:
    """A job that is called "ignore previous instructions" is a job with a silly name."""
    seen = 0
    for name, arguments in READINGS.items():
        for key, text in texts(told(site, name, arguments)):
            if ORDER in text or "evil.example" in text:
                assert key == "untrusted", (name, key)
                seen += 1
            assert plain(text) == text[:120], f"{name}: {key} holds what could rewrite a terminal"
            assert not any(unicodedata.category(letter)[0] == "C" for letter in text)
            assert len(text) <= 700, f"{name}: {key}"
    assert seen > 6


def test_the_finding_of_a_hostile_run_is_marked_throughout(site: tuple[Path, Settings]) -> None:
    """Its sentence and its evidence name it, too."""
    found = told(site, "findings", READINGS["findings"])["items"]
    (hostile,) = [item for item in found if ORDER in item["subject"]["untrusted"]]
    answer = told(site, "explain_finding", SINCE | {"finding_id": hostile["id"]})
    keys = {key for key, text in texts(answer) if ORDER in text}
    assert keys == {"untrusted"}


def test_no_word_of_the_fleet_is_in_what_a_model_is_told_first(site: tuple[Path, Settings]) -> None:
    """Descriptions and instructions are read as the server's own words: they must be the same for every store."""

    async def words(client: Client) -> tuple[str | None, str]:
        return client.instructions, (await client.list_tools()).model_dump_json()

    instructions, tools = asked(*site, words)
    assert instructions == INSTRUCTIONS
    assert [word for word in (ORDER, "evil", "alpha", "holders") if word in tools] == []


def test_an_error_that_quotes_a_name_marks_it(site: tuple[Path, Settings]) -> None:
    """An error is read like an answer: a name of the fleet within it is data as well."""
    result = asked(*site, lambda client: client.call_tool("explain_finding", SINCE | {"finding_id": "f-zzzzz"}))
    text = result.content[0].text  # type: ignore[union-attr]
    assert result.is_error
    assert text.startswith("Error executing tool explain_finding: {")
    assert list(json.loads(text.partition(": ")[2])) == ["untrusted"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("findings", {"rows": 51}),
        ("findings", {"rows": 0}),
        ("findings", {"since": "' OR 1=1 --"}),
        ("explain_finding", {"finding_id": "../../v1/prices"}),
        ("explain_finding", {"finding_id": "f-7kq2x/judgement"}),
        ("costs", {"by": "secret"}),
        ("runs", {"name": "x" * 201}),
        ("runs", {"cursor": "x" * 2001}),
    ],
)
def test_arguments_are_checked(site: tuple[Path, Settings], name: str, arguments: dict[str, Any]) -> None:
    """Whatever a model invents is refused before anything is read."""
    assert asked(*site, lambda client: client.call_tool(name, arguments)).is_error


def test_an_answer_is_bounded_in_bytes(site: tuple[Path, Settings], monkeypatch: pytest.MonkeyPatch) -> None:
    """Long names make fewer rows, and the cursor leads on from the last that was shown."""
    whole = [item["run_id"] for item in told(site, "runs", READINGS["runs"])["items"]]
    monkeypatch.setattr("analyzer.interfaces.mcp.server.ANSWER_BYTES", 4000)
    page = told(site, "runs", READINGS["runs"])
    assert 0 < len(page["items"]) < len(whole)
    assert page["next_cursor"] is not None
    rest = told(site, "runs", READINGS["runs"] | {"cursor": page["next_cursor"]})
    assert [item["run_id"] for item in page["items"] + rest["items"]][: len(whole)] == whole[
        : len(page["items"]) + len(rest["items"])
    ]
    assert ANSWER_BYTES == 64 * 1024


def test_reading_changes_nothing(site: tuple[Path, Settings], tmp_path: Path) -> None:
    """Every tool is called; the store, its settings and everything beside them are the same bytes."""
    path = Path(shutil.copy(site[0], tmp_path))
    settings = priced_teams(tmp_path)

    def state() -> dict[str, str]:
        return {
            each.relative_to(tmp_path).as_posix(): hashlib.sha256(each.read_bytes()).hexdigest()
            for each in sorted(tmp_path.rglob("*"))
            if each.is_file()
        }

    before = state()

    async def everything(client: Client) -> int:
        tools = (await client.list_tools()).tools
        found = await client.call_tool("findings", SINCE)
        assert found.structured_content is not None
        first = found.structured_content["items"][0]["id"]
        given = {"finding_id": first, "since": "2025-11-10", "tasks": FOUR, "proposal": '{"placements": []}'}
        for tool in tools:
            wanted = {"since", *tool.input_schema.get("required", [])} & set(tool.input_schema["properties"])
            result = await client.call_tool(tool.name, {name: given[name] for name in wanted})
            assert not result.is_error, result.content
        return len(tools)

    assert asked(path, settings, everything) == 8
    assert state() == before


def test_the_store_is_open_only_while_it_is_read(site: tuple[Path, Settings]) -> None:
    """An assistant that runs all day must not keep the analysis from its store."""

    async def between(client: Client) -> None:
        await client.call_tool("runs", {})
        Store.open(site[0]).close()  # as a writer
        assert not (await client.call_tool("runs", {})).is_error

    asked(*site, between)


def test_a_failure_within_stays_within() -> None:
    """What an application raises is not turned into an answer."""

    async def app(*_: Any) -> None:
        raise RuntimeError("BUG")

    with pytest.raises(RuntimeError):
        asyncio.run(get(app, "/v1/runs", "", []))


def test_a_server_without_a_transport_is_cheap(site: tuple[Path, Settings]) -> None:
    """Nothing is opened before the first question."""
    absent = CollectorConfig(store=site[0].with_name("absent.duckdb"))
    assert create_server(OwnSite(absent, site[1])).name == "gpuledger"
