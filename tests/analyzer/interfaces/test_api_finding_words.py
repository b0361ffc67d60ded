"""Owners say over HTTP whether a finding is right: kept, audited, counted, and only by who may."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.analyzer.interfaces.api_sites import Site, site
from tests.collector.access.conftest import add_key, bearer


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site of these tests' own, with keys of owners."""
    with site(tmp_path_factory.mktemp("judged")) as running:
        keys = dict(running.keys)
        keys["owner"] = add_key(running.registry, "owner")
        keys["owner of holders"] = add_key(running.registry, "owner", teams=("holders",))
        yield Site(running.client, running.fleet, keys, running.registry)


def say(to: Site, finding_id: str, key: str = "owner", what: str = "judgement", **body: Any) -> httpx.Response:
    """Say something of a finding."""
    usual = {"verdict": "right", "because": "seen it"} if what == "judgement" else {"because": "known"}
    return to.client.post(f"/v1/findings/{finding_id}/{what}", json=usual | body, headers=bearer(to.keys[key]))


def test_a_judgement_is_kept_counted_and_audited(own: Site) -> None:
    """What was said is on the finding, in the accuracy of its rule, in the audit; the ledger stays as measured."""
    before = own.json("/v1/ledger")["total"]
    high = [one for one in own.items("/v1/findings") if one["confidence"] == "high"]
    assert say(own, high[0]["id"], verdict="wrong", because="by design").status_code == 200
    assert say(own, high[1]["id"], verdict="planned").status_code == 200
    page = own.json("/v1/findings")
    assert page["record"]["high"] == {"judged": 2, "right": 1, "planned": 1, "permille": 500}
    told = next(one for one in page["items"] if one["id"] == high[0]["id"])
    assert (told["judgement"]["verdict"], told["judgement"]["because"]) == ("wrong", "by design")
    entry = next(one for one in own.registry.audit.since(0) if one.subject == high[0]["id"])
    assert (entry.kind, entry.action, entry.detail) == ("change", "judge", f"wrong, of {page['period']['label']}")
    assert entry.actor in own.keys["owner"]
    assert own.json("/v1/ledger")["total"] == before


def test_a_judgement_makes_answers_new(own: Site) -> None:
    """Who holds the answer of before must not be told that it is current."""
    path = "/v1/findings?limit=3"
    tag = own.get(path).headers["ETag"]
    assert own.get(path, **{"If-None-Match": tag}).status_code == 304
    assert say(own, own.items(path)[2]["id"]).status_code == 200
    assert own.get(path, **{"If-None-Match": tag}).status_code == 200


def test_a_team_judges_what_is_its_own(own: Site) -> None:
    """A key of a team neither sees nor judges what is another's, and sees no record of the whole site."""
    theirs = own.json("/v1/findings", "owner of holders")
    assert theirs["record"] is None
    other = next(one for one in own.items("/v1/findings") if one["team"] != "holders")
    assert say(own, theirs["items"][0]["id"], "owner of holders").status_code == 200
    assert say(own, other["id"], "owner of holders").status_code == 404


@pytest.mark.parametrize("key", ["holders", "workers"])
def test_who_reads_judges_nothing(own: Site, key: str) -> None:
    """A dashboard's key is everywhere; whoever finds it must not be able to mute a fleet."""
    finding = own.items("/v1/findings")[0]["id"]
    assert say(own, finding, key).status_code == 403
    assert say(own, finding, key, "mute", until="2099-01-01").status_code == 403


@pytest.mark.parametrize(
    ("what", "body", "status", "said"),
    [
        ("judgement", {"verdict": "maybe"}, 422, "verdict"),
        ("judgement", {"because": ""}, 422, "because"),
        ("judgement", {"because": " "}, 409, "say why"),
        ("judgement", {"because": "x" * 501}, 422, "because"),
        ("judgement", {"because": "x" * 9_000}, 413, "8,192 bytes"),
        ("judgement", {"who": "somebody else"}, 422, "who"),
        ("mute", {"until": "2020-01-01"}, 409, "has passed"),
        ("mute", {"until": "2099-01-01"}, 409, "no more than 90 days"),
        ("mute", {}, 422, "until"),
    ],
)
def test_what_is_wrong_is_refused_in_a_sentence(own: Site, what: str, body: Any, status: int, said: str) -> None:
    """A word that cannot be counted is not kept."""
    finding = own.items("/v1/findings")[0]["id"]
    with own.fleet.store.session() as session:
        before = session.row("SELECT (SELECT count(*) FROM finding_judgements), (SELECT count(*) FROM finding_mutes)")
    answer = say(own, finding, "owner", what, **body)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert said in answer.json()["detail"]
    with own.fleet.store.session() as session:
        after = session.row("SELECT (SELECT count(*) FROM finding_judgements), (SELECT count(*) FROM finding_mutes)")
    assert after == before
