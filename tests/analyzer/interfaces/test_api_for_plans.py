"""What a plan takes of the ledger, over the API."""

from dataclasses import fields

import pytest
from pydantic import BaseModel

from analyzer.capacity.planner.ledger import History, NodeHolder, StockNode, StoreLedger
from analyzer.interfaces.api.fleet import HistoryDocument, HolderTold, StockTold
from analyzer.reports.document import Document
from tests.analyzer.interfaces.api_sites import Site


def test_hosts_are_those_that_a_plan_would_have(small: Site) -> None:
    """The same figures as for who opens the store."""
    told = small.json("/v1/plan/nodes")["nodes"]
    with small.fleet.store.session() as session:
        nodes = StoreLedger(session).nodes()
    assert [each["node"] for each in told] == [node.node for node in nodes]
    assert [each["gpus_free"] for each in told] == [node.gpus_free for node in nodes]
    assert [len(each["holders"]) for each in told] == [len(node.holders) for node in nodes]


def test_what_is_free_is_told_to_no_team(small: Site) -> None:
    """It tells what the others hold."""
    assert small.get("/v1/plan/nodes", "holders").status_code == 403


def test_too_few_runs_are_a_sentence(small: Site) -> None:
    """With what there is of the name: a team is told of its own alone."""
    for team in (None, "holders", "nobody's"):
        answer = small.get("/v1/plan/history?name=never-seen&gpus=1", team)
        assert answer.status_code == 404
        assert "no completed run of this name" in answer.json()["detail"]
    assert small.get("/v1/plan/history?gpus=1").status_code == 422
    assert small.get("/v1/plan/history?name=x&gpus=-1").status_code == 422


@pytest.mark.parametrize(
    ("kind", "model"), [(History, HistoryDocument), (StockNode, StockTold), (NodeHolder, HolderTold)]
)
def test_what_a_plan_takes_has_the_same_fields_in_the_api_and_in_json(kind: type, model: type[BaseModel]) -> None:
    """Who reads both reads one thing: the API adds what all of its documents have, and instants as people read them."""
    own = {field.name for field in fields(kind)}
    more = set(model.model_fields) - own - set(Document.model_fields)
    assert own <= set(model.model_fields)
    assert all(name.endswith("_iso") for name in more)
