"""Owners decide over HTTP on what is recommended: kept, audited, and only by who may."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.analyzer.interfaces.api_sites import Site, site
from tests.collector.access.conftest import add_key, bearer


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site of these tests' own, with keys of owners."""
    with site(tmp_path_factory.mktemp("decided")) as running:
        keys = dict(running.keys)
        keys["owner"] = add_key(running.registry, "owner")
        keys["owner of holders"] = add_key(running.registry, "owner", teams=("holders",))
        yield Site(running.client, running.fleet, keys, running.registry)


def say(to: Site, advice_id: str, key: str = "owner", what: str = "acceptance", **body: Any) -> httpx.Response:
    """Decide on a recommendation."""
    path = f"/v1/recommendations/{advice_id}/{what}"
    return to.client.post(path, json=body, headers=bearer(to.keys[key]))


def ids(of: Site, team: str | None = None) -> list[str]:
    """Return what is recommended, to a team or to all."""
    return [one["id"] for one in of.items("/v1/recommendations", team)]


def test_a_decision_is_kept_audited_and_makes_answers_new(own: Site) -> None:
    """The last word counts, and the answer of before is not current any more."""
    one = ids(own)[0]
    tag = own.get("/v1/savings").headers["ETag"]
    assert own.get("/v1/savings", **{"If-None-Match": tag}).status_code == 304
    assert say(own, one, what="rejection", because="not now").status_code == 200
    kept = say(own, one, applied_at="2025-11-10T00:00+00:00").json()["decision"]
    assert (kept["word"], kept["applied_at_iso"]) == ("accepted", "2025-11-10T00:00:00Z")
    assert own.get("/v1/savings", **{"If-None-Match": tag}).status_code == 200
    (item,) = [each for each in own.json("/v1/savings")["items"] if each["id"] == one]
    assert (item["stage"], item["by"]) == ("applied", "said")
    assert item["outcome"]["standing"] in ("not_yet", "not_provable")
    entries = [each for each in own.registry.audit.since(0) if each.subject == one]
    assert sorted(each.action for each in entries) == ["accept", "reject"]
    assert all(each.actor in own.keys["owner"] for each in entries)


def test_a_team_decides_on_what_is_its_own(own: Site) -> None:
    """A key of a team neither sees nor decides on what is another's, in the book either."""
    theirs = ids(own, "owner of holders")
    other = next(one for one in ids(own) if one not in theirs)
    assert say(own, other).status_code == 200
    assert say(own, theirs[0], "owner of holders").status_code == 200
    assert say(own, other, "owner of holders").status_code == 404
    seen = own.json("/v1/savings", "owner of holders")["items"]
    assert {one["prediction"]["team"] for one in seen} == {"holders"}


@pytest.mark.parametrize("key", ["holders", "workers"])
def test_who_reads_decides_nothing(own: Site, key: str) -> None:
    """A rejection keeps a recommendation away from everybody."""
    one = ids(own)[0]
    assert say(own, one, key).status_code == 403
    assert say(own, one, key, "rejection", because="no").status_code == 403


@pytest.mark.parametrize(
    ("what", "body", "status", "said"),
    [
        ("rejection", {}, 422, "because"),
        ("rejection", {"because": " "}, 409, "say why"),
        ("acceptance", {"applied_at": "2999-01-01"}, 409, "is in the future"),
        ("acceptance", {"applied_at": "someday"}, 409, "is not a valid time"),
        ("acceptance", {"who": "somebody else"}, 422, "who"),
        ("acceptance", {"because": "x" * 501}, 422, "because"),
        ("acceptance", {"because": "x" * 9_000}, 413, "8,192 bytes"),
    ],
)
def test_what_cannot_be_is_refused(own: Site, what: str, body: dict[str, Any], status: int, said: str) -> None:
    """In one sentence, with nothing kept."""
    answer = say(own, ids(own)[3], what=what, **body)
    assert answer.status_code == status
    assert said in answer.text
    assert ids(own)[3] not in [one["id"] for one in own.json("/v1/savings")["items"]]


def test_what_is_not_recommended_is_not_found(own: Site) -> None:
    """It says where to look."""
    answer = say(own, "r-zzzzz")
    assert answer.status_code == 404
    assert "gpuledger recommendations lists them" in answer.json()["detail"]
