"""What a task file leaves to the ledger is looked up with the key of who asks, and with no other."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analyzer.interfaces.mcp.planning import HISTORIES_MOST, NODES_MOST
from analyzer.settings.settings import Settings
from collector.store.database import Store
from tests.analyzer.capacity.planner_small_site import SIX, fill
from tests.analyzer.interfaces.mcp_serving import Served, from_store
from tests.analyzer.interfaces.mcp_sites import asked
from tests.analyzer.ledger.fleet import Fleet

TEAMS = """
[[rule]]
team = "holders"
name = "nightly"
from = 2020-01-01

[[rule]]
team = "workers"
name = "*"
from = 2020-01-01
"""
TASK = "  prep: {{cpus: 4, memory: 1 GB, gpu: 1, duration: {}}}\n"
NODES = "nodes: {g: {cpus: 8, memory: 64 GB, gpus: 1, sku: H100, hbm: 80 GB}}\n"
OF_HISTORY = f"{NODES}tasks:\n{TASK.format('{history: nightly}')}"
OF_INVENTORY = f"nodes: inventory\ntasks:\n{TASK.format('{history: nightly}')}"


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Settings]:
    """A store on which a job of one team recurs, and another team holds a node."""
    folder = tmp_path_factory.mktemp("planned")
    path, teams = folder / "store.duckdb", folder / "teams.toml"
    teams.write_text(TEAMS)
    settings = replace(Settings(), teams=teams)
    with Store.open(path) as store:
        fill(Fleet(store), settings)
    return path, settings


@pytest.fixture(scope="module")
def served_site(planned: tuple[Path, Settings]) -> Iterator[Served]:
    """An assistant on it, with keys of both teams and of the whole site."""
    with from_store(*planned) as one:
        yield one


def solved(one: Served, who: str, tasks: str) -> Any:
    """Return the solver's answer to the holder of a key."""
    result = one.call(who, "solve_plan", {"tasks": tasks})
    assert not result.get("isError"), result
    return result["structuredContent"]


def refused(one: Served, who: str, tasks: str) -> str:
    """Return why the holder of a key gets no plan."""
    result = one.call(who, "solve_plan", {"tasks": tasks})
    assert result["isError"], result
    return str(result["content"][0]["text"])


def test_a_key_of_the_site_plans_on_the_whole_inventory(served_site: Served) -> None:
    """Its plan stands on the job's own runs; what was left out of the inventory is told with the reason."""
    answer = solved(served_site, "read", OF_INVENTORY)
    (history,) = answer["looked_up"]["histories"]
    assert history["name"] == {"untrusted": "nightly"}
    assert (history["gpus"], history["runs"], history["unfinished"]) == (1, len(SIX), 1)
    assert answer["plan"]["makespan_seconds"] == history["p50_seconds"] == 1800
    assert [each["node"] for each in answer["plan"]["placements"]] == [{"untrusted": "g0"}]
    told = answer["looked_up"]
    assert (told["left_out_count"], told["left_out"][0]["node"]) == (1, {"untrusted": "g2"})
    assert told["left_out"][0]["why"] == {"untrusted": "held by open with no known end"}


def test_a_team_plans_by_the_runs_that_are_its_own(served_site: Served) -> None:
    """The same name asked by another team is a name that the ledger has never seen."""
    assert solved(served_site, "holders", OF_HISTORY)["looked_up"]["histories"][0]["runs"] == len(SIX)
    assert "the ledger has no completed run of this name" in refused(served_site, "workers", OF_HISTORY)


def test_no_team_is_told_what_others_hold(served_site: Served) -> None:
    """Not by a plan either: what is free, and until when, is what others do."""
    for team in ("holders", "workers"):
        why = refused(served_site, team, OF_INVENTORY.replace("{history: nightly}", "1 h"))
        assert "a team's key may not see" in why
        assert "list the nodes" in why
        assert "g0" not in why


def test_what_is_simulated_is_drawn_from_the_runs_themselves(served_site: Served) -> None:
    """And what is validated stands on the same durations."""
    result = served_site.call("holders", "simulate_plan", {"tasks": OF_HISTORY})["structuredContent"]
    assert result["tasks_without_spread"] == []
    assert {result[name] for name in ("p10_seconds", "p50_seconds", "p90_seconds")} <= {600 * tens for tens in SIX}
    proposal = '{"placements": [{"task": "prep", "node": "g", "start_seconds": 0}], "makespan_seconds": 1801}'
    checked = served_site.call("holders", "validate_plan", {"tasks": OF_HISTORY, "proposal": proposal})
    assert checked["structuredContent"]["corrected"] == [
        {"untrusted": "the plan is said to take 30 min 01 s (1801 s); it takes 30 min (1800 s)"}
    ]


def test_over_stdio_whoever_can_read_the_file_plans_with_all_of_it(planned: tuple[Path, Settings]) -> None:
    """As every reading command does."""
    result = asked(*planned, lambda client: client.call_tool("solve_plan", {"tasks": OF_INVENTORY}), anew=True)
    assert result.structured_content is not None
    assert result.structured_content["looked_up"]["histories"][0]["runs"] == len(SIX)


def test_questions_to_the_ledger_are_bounded(served_site: Served) -> None:
    """A file that asks for the history of every task is for the command, which one person waits for."""
    rows = "".join(
        f"  t{number}: {{cpus: 1, memory: 1 GB, gpu: 1, duration: {{history: job{number}}}}}\n"
        for number in range(HISTORIES_MOST + 1)
    )
    assert "use gpuledger capacity plan" in refused(served_site, "read", f"{NODES}tasks:\n{rows}")
    nodes = "".join(f"  n{number}: {{cpus: 1, memory: 1 GB}}\n" for number in range(NODES_MOST + 1))
    task = "  t: {cpus: 1, memory: 1 GB, gpu: none, duration: 1 h}\n"
    assert "name groups" in refused(served_site, "read", f"nodes:\n{nodes}tasks:\n{task}")
