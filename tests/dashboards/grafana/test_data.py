"""Each query of each dashboard, asked of a real Prometheus that scrapes a real demo fleet: an empty panel is a lie."""

import re

import pytest

from tests.dashboards.grafana.boards import NAMES, Asking, board, queries
from tests.dashboards.grafana.conftest import RULES, Asked

METRIC = re.compile(r"\b(?:gpuledger|DCGM_FI)_\w+")
# What takes the place of utilization where dcgm-exporter tells none; test_dcgm_exporter.py asks for it.
INSTEAD = {"DCGM_FI_PROF_GR_ENGINE_ACTIVE"}
ANYTHING = {"cluster": ".*", "team": ".*", "node": ".*", "__rate_interval": "15s", "__range": "1m"}


def filled(expression: str, run: str = "") -> str:
    """Return a query with its variables as Grafana fills them in."""
    for name, value in (ANYTHING | {"run": run}).items():
        expression = expression.replace(f"${name}", value)
    assert "$" not in expression, expression
    return expression


def has_data(asked: Asked, asking: Asking) -> bool:
    """Say whether a query has an answer that is a number; of a run, for any run that there is."""
    runs = asked.values("run_id") if "$run" in asking.expr else [""]
    return any(series["value"][1] != "NaN" for run in runs for series in asked.query(filled(asking.expr, run)))


@pytest.mark.parametrize("name", NAMES)
def test_every_query_has_an_answer(asked: Asked, name: str) -> None:
    """A panel whose metric was renamed, or whose join finds nothing, stays empty for ever, and nobody asks why."""
    assert [f"{each.where}: {each.expr}" for each in queries(name) if not has_data(asked, each)] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_metric_that_is_asked_for_is_there(asked: Asked, name: str) -> None:
    """A sum with a part that nobody serves can still have an answer."""
    asked_for = {metric for each in queries(name) for metric in METRIC.findall(each.expr)}
    assert asked_for
    assert asked_for - set(asked.values("__name__")) - INSTEAD == set()


@pytest.mark.parametrize("name", NAMES)
def test_every_variable_has_values(asked: Asked, name: str) -> None:
    """Who cannot choose a node sees none."""
    for variable in board(name)["templating"]["list"]:
        if variable["type"] == "query":
            (metric, label) = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"]).groups()  # type: ignore[union-attr]
            assert {series["metric"].get(label) for series in asked.query(filled(metric))} - {None}, variable["name"]


def test_every_recording_is_made_of_what_is_there(asked: Asked) -> None:
    """But for the sum of a day: its points are ten minutes apart, and a test does not last as long."""
    text = (RULES / "recording.yml").read_text("utf-8")
    recorded = set(re.findall(r"- record: (\S+)", text)) - {"team:gpuledger_held_idle_cost_usd:sum1d"}
    assert len(recorded) == 12
    assert recorded - set(asked.values("__name__")) == set()


def test_alerts_are_of_what_is_wrong(asked: Asked) -> None:
    """A budget that is spent, a ledger of last year, an agent that is silent; the demo's hosts are well. They wait."""
    told = {(each["metric"]["alertname"], each["metric"].get("cluster")) for each in asked.query("ALERTS")}
    assert {("BudgetSpent", "alpha"), ("LedgerBehind", "alpha"), ("AgentSilent", "older")} <= told
    assert not told & {("GpuLost", "alpha"), ("GpusMissing", "alpha"), ("GpuXid", "alpha"), ("GpuThrottled", "alpha")}
