"""Cursors, ETags and refusals: what every reading of the API does alike."""

import base64
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.interfaces.api.parameters import CursorPosition, GoneError, cursor_position, cursor_text
from analyzer.period import Period
from tests.analyzer.interfaces.api_sites import LATER, Site, settings, site
from tests.analyzer.ledger.fleet import DAY, HOUR, MONDAY
from tests.collector.access.conftest import bearer

LISTINGS = (
    "/v1/runs",
    "/v1/ledger",
    "/v1/costs?by=run",
    "/v1/findings",
    "/v1/recommendations",
    "/v1/hours?since=2025-11-10",
)
KEYS = st.tuples(
    st.none() | st.text(max_size=20), st.none() | st.integers(-(2**63) + 1, 2**63 - 1), st.none() | st.booleans()
)


def test_a_cursor_outlives_new_rows(tmp_path: Path) -> None:
    """A run that begins while somebody turns pages moves nothing that they see, and nothing is shown twice."""
    with site(tmp_path) as small:
        first = small.json("/v1/runs?limit=5")
        before = [run["run_id"] for run in small.items("/v1/runs")]
        small.fleet.own("new", ["newg0"])
        small.fleet.hold("slurm/alpha/new", "new", ["newg0"], MONDAY + HOUR, MONDAY + 2 * HOUR)
        small.fleet.sample("new", "newg0", MONDAY + HOUR, MONDAY + 2 * HOUR)
        small.fleet.analyze(now=LATER, settings=settings(tmp_path))
        rest = small.json(f"/v1/runs?limit=100&cursor={first['next_cursor']}")
        assert rest["generation"] != first["generation"]
        assert [run["run_id"] for run in first["items"] + rest["items"]] == before
        assert small.json("/v1/runs?limit=1")["items"][0]["run_id"] == "slurm/alpha/new"


def test_a_cursor_keeps_the_period(tmp_path: Path) -> None:
    """`7d` ends with the ledger; a page later the ledger may have grown."""
    with site(tmp_path) as small:
        first = small.json("/v1/ledger?by=gpu&since=7d&limit=2")
        small.fleet.sample("z0", "z0g0", MONDAY + 2 * HOUR, MONDAY + DAY + HOUR)
        small.fleet.analyze(now=LATER + DAY, settings=settings(tmp_path))
        second = small.json(f"/v1/ledger?by=gpu&since=7d&limit=2&cursor={first['next_cursor']}")
        assert second["period"] == first["period"]
        assert small.json("/v1/ledger?by=gpu&since=7d&limit=2")["period"] != first["period"]


@pytest.mark.parametrize("path", LISTINGS)
def test_a_cursor_of_another_listing_is_refused(small: Site, path: str) -> None:
    """It would begin anywhere, and nobody would notice."""
    sign = "&" if "?" in path else "?"
    cursor = small.json(f"{path}{sign}limit=1")["next_cursor"]
    assert cursor is not None
    assert small.get(f"{path}{sign}limit=2&cursor={cursor}").status_code == 200
    for other in LISTINGS:
        if other != path:
            refused = small.get(f"{other}{'&' if '?' in other else '?'}cursor={cursor}")
            assert refused.status_code == 404
            assert "another listing" in refused.json()["detail"]
    assert small.get(f"{path}{sign}team=holders&cursor={cursor}").status_code in (404, 422)


@given(KEYS)
def test_a_cursor_says_what_was_put_into_it(key: tuple[str | None, int | None, bool | None]) -> None:
    """Any text, any number, and the absence of either."""
    place = CursorPosition(key, Period(0, HOUR, "7d", "UTC"))
    text = cursor_text("q", place)
    assert cursor_position(text, "q", (str, int, bool)) == place
    with pytest.raises(GoneError):
        cursor_position(text, "another", (str, int, bool))


@given(
    st.text(alphabet="ABCabc012_-", max_size=60)
    | st.binary(max_size=60).map(lambda b: base64.urlsafe_b64encode(b).decode())
)
def test_nonsense_is_no_cursor(text: str) -> None:
    """Whatever somebody writes there, it is refused with a sentence."""
    with pytest.raises(GoneError):
        cursor_position(text, "q", (str,))


@pytest.mark.parametrize(
    ("period", "key"),
    [
        (None, "abc"),
        (None, ["x", "y"]),
        (None, [1]),
        (None, [["x"]]),
        (None, ["\ud800"]),
        ([1, 2, 3], ["x"]),
        ([1, 2, "7d", 4], ["x"]),
        ([2, 1, "7d", "UTC"], ["x"]),
        ([0, 10**30, "7d", "UTC"], ["x"]),
        ([-(10**30), 0, "7d", "UTC"], ["x"]),
        ([True, 2, "7d", "UTC"], ["x"]),
    ],
)
def test_a_forged_cursor_is_refused(period: object, key: object) -> None:
    """It is no secret how one is made; what is in it is looked at all the same."""
    made = json.loads(base64.urlsafe_b64decode(cursor_text("q", CursorPosition(("x",))) + "=="))
    for content in ([made[0], period, key], made[:2], {"a": 1}, None, [7, period, key]):
        text = base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")
        with pytest.raises(GoneError):
            cursor_position(text, "q", (str,))


@pytest.mark.parametrize(
    "path", [*LISTINGS, "/v1/runs/last", "/v1/runs/last/profile", "/v1/profiles", "/v1/adjustments"]
)
def test_what_has_not_changed_is_not_sent_again(small: Site, path: str) -> None:
    """A dashboard asks every minute; the ledger changes every five."""
    first = small.get(path)
    tag = first.headers["etag"]
    again = small.get(path, **{"If-None-Match": f'"other", {tag}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert small.get(path, **{"If-None-Match": '"other"'}).content == first.content
    assert first.headers["cache-control"] == "private, no-cache"


def test_a_pass_that_changes_nothing_changes_no_etag(tmp_path: Path) -> None:
    """And one that does, does; so does what is asked."""
    with site(tmp_path) as small:
        tag = small.get("/v1/ledger").headers["etag"]
        small.fleet.analyze(now=LATER, settings=settings(tmp_path))
        assert small.get("/v1/ledger").headers["etag"] == tag
        assert small.get("/v1/ledger?by=team").headers["etag"] != tag
        small.fleet.sample("z0", "z0g0", MONDAY + 2 * HOUR, MONDAY + 3 * HOUR)
        small.fleet.analyze(now=LATER, settings=settings(tmp_path))
        assert small.get("/v1/ledger").headers["etag"] != tag


def test_series_bear_no_etag(small: Site) -> None:
    """Samples come without the ledger changing."""
    assert "etag" not in small.get("/v1/runs/last/series").headers


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/nothing", 404),
        ("/nothing", 404),
        ("/v1/ledger?by=colour", 422),
        ("/v1/ledger?colour=red", 422),
        ("/v1/ledger?limit=0", 422),
        ("/v1/ledger?limit=1001", 422),
        ("/v1/ledger?since=whenever", 422),
        ("/v1/ledger?since=2026-02-30", 404),
        ("/v1/ledger?since=2025-W53", 404),
        ("/v1/ledger?since=2025-11-10&until=2025-11-09", 404),
        ("/v1/ledger?since=9999-12-31", 404),
        ("/v1/ledger?since=0001-01-01", 404),
        ("/v1/ledger?cursor=abc", 404),
        ("/v1/findings/f-NONE", 422),
        ("/v1/findings/f-nnnn", 404),
        ("/v1/read?what=nothing", 422),
        ("/v1/read?what=show&subject=r-none", 404),
    ],
)
def test_a_refusal_is_a_problem_with_a_sentence(small: Site, path: str, status: int) -> None:
    """RFC 9457, whoever refuses: the API, the reports or the framework."""
    answer = small.get(path, "admin")
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    problem = answer.json()
    assert (problem["type"], problem["status"]) == ("about:blank", status)
    assert len(problem["detail"]) > 10
    assert "Traceback" not in answer.text


def test_a_method_that_is_not_taken_is_told_which_are(small: Site) -> None:
    """405 names them all."""
    answer = small.client.post("/v1/ledger", headers=bearer(small.keys["admin"]))
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
    assert answer.headers["content-type"] == "application/problem+json"


def test_who_shows_nothing_is_told_nothing(small: Site) -> None:
    """Nor whether the ledger has changed."""
    assert small.client.get("/v1/ledger").status_code == 401
    assert small.client.get("/v1/ledger").json()["reason"] == "token"
