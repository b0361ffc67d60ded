"""Deciding on a recommendation from the page: by who may, once it is shown that our page sent it."""

from collections.abc import Iterator
from datetime import date, timedelta
from html import unescape

import httpx
import pytest

from tests.dashboards.keys import Guarded, guarded, log_in, token_of

PAGE = "/recommendations"


@pytest.fixture(scope="module")
def site() -> Iterator[Guarded]:
    """Yield a server with keys."""
    with guarded() as one:
        yield one


@pytest.fixture
def owner(site: Guarded) -> Iterator[httpx.Client]:
    """Yield the browser of somebody who may decide."""
    with site.browser() as one:
        log_in(one, site.keys["owner"])
        yield one


def ids(browser: httpx.Client) -> list[str]:
    """Return what is recommended."""
    return [one["id"] for one in browser.get("/v1/recommendations").json()["items"]]


def decide(browser: httpx.Client, advice_id: str, **fields: str) -> httpx.Response:
    """Send a form of the page."""
    known = {"csrf": token_of(browser.get(PAGE).text)} | fields
    return browser.post(f"/recommendations/{advice_id}", data=known)


def test_a_rejection_is_kept_with_its_reason_and_can_be_taken_back(site: Guarded, owner: httpx.Client) -> None:
    """As by the command: the last word counts, the reason is escaped, and the audit says whose key it was."""
    one = ids(owner)[0]
    answer = decide(owner, one, decision="reject", because="not <b>now</b>", week="2026-W46")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/recommendations?week=2026-W46#{one}")
    page = owner.get(PAGE).text
    assert "not &lt;b&gt;now&lt;/b&gt;." in page
    assert "Rejected" in page
    assert decide(owner, one, decision="accept").status_code == 303
    assert "Accepted" in owner.get(PAGE).text
    assert decide(owner, one, decision="accept", applied_at="2026-11-12").status_code == 303
    assert "Made Thu 12 Nov." in owner.get(PAGE).text
    entries = [each for each in site.access.registry.audit.since(0) if each.subject == one]
    assert sorted(each.action for each in entries) == ["accept", "accept", "reject"]
    assert all(each.actor in site.keys["owner"] for each in entries)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"decision": "reject", "because": " "}, "say why"),
        ({"decision": "reject"}, "say why"),
        ({"decision": "accept", "applied_at": "2999-01-01"}, "is in the future"),
        ({"decision": "perhaps"}, "accept or reject"),
        ({}, "accept or reject"),
    ],
)
def test_what_cannot_be_kept_is_said(owner: httpx.Client, fields: dict[str, str], said: str) -> None:
    """A form that was filled in wrongly answers with a sentence, and keeps nothing."""
    one = ids(owner)[1]
    answer = decide(owner, one, **fields)
    assert answer.status_code == 400
    assert said in unescape(answer.text)
    assert decide(owner, "r-zzzz", decision="accept").status_code == 404
    assert one not in [item["id"] for item in owner.get("/v1/savings").json()["items"]]


def test_a_form_of_another_page_changes_nothing(site: Guarded, owner: httpx.Client) -> None:
    """Without the token of this very session, or from another origin, nothing is kept."""
    address = f"/recommendations/{ids(owner)[1]}"
    assert owner.post(address, data={"decision": "accept"}).status_code == 403
    with site.browser() as other:
        log_in(other, site.keys["owner"])
        token = token_of(other.get(PAGE).text)
    assert token != token_of(owner.get(PAGE).text)  # though the page itself is kept for both
    assert owner.post(address, data={"decision": "accept", "csrf": token}).status_code == 403
    elsewhere = {"Origin": "https://elsewhere.example"}
    own = {"decision": "accept", "csrf": token_of(owner.get(PAGE).text)}
    assert owner.post(address, data=own, headers=elsewhere).status_code == 403


def test_who_only_reads_sees_no_form_and_is_refused(site: Guarded, owner: httpx.Client) -> None:
    """Also once an owner has had the page made, which is kept."""
    assert "Reject it" in owner.get(PAGE).text
    with site.browser() as reader:
        log_in(reader, site.keys["read"])
        page = reader.get(PAGE).text
        assert ids(owner)[1] in page
        assert "Reject" not in page.replace("Rejected", "")
        token = token_of(reader.get("/login").text)
        answer = reader.post(f"/recommendations/{ids(owner)[1]}", data={"csrf": token, "decision": "accept"})
        assert answer.status_code == 403


def test_a_finding_is_judged_and_muted_from_its_page(site: Guarded, owner: httpx.Client) -> None:
    """Where the link of a mail or a chat leads to: the reason is escaped, and lists have it no more."""
    page = owner.get("/findings/f-7kq2?week=2026-W46")
    token = token_of(page.text)
    until = (date.today() + timedelta(days=7)).isoformat()
    fields = {"csrf": token, "week": "2026-W46", "because": "it is <b>known</b>"}
    said = owner.post("/findings/f-7kq2", data=fields | {"verdict": "right"})
    assert (said.status_code, said.headers["location"]) == (303, "/findings/f-7kq2?week=2026-W46#say")
    muted = owner.post("/findings/f-7kq2", data=fields | {"verdict": "mute", "until": until})
    assert muted.status_code == 303
    shown = owner.get("/findings/f-7kq2?week=2026-W46").text
    assert "it is &lt;b&gt;known&lt;/b&gt;" in shown
    assert "Muted until" in shown
    assert "f-7kq2 " not in owner.get("/v1/read?what=findings&since=2026-W46").text
    entries = [each.action for each in site.access.registry.audit.since(0) if each.subject == "f-7kq2"]
    assert sorted(entries) == ["judge", "mute"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"verdict": "mute", "until": "2001-01-01", "because": "x"}, "has passed"),
        ({"verdict": "mute", "until": "", "because": "x"}, "until"),
        ({"verdict": "perhaps", "because": "x"}, "verdict"),
        ({"verdict": "right", "because": ""}, "because"),
    ],
)
def test_what_cannot_be_said_of_a_finding_is_refused(owner: httpx.Client, fields: dict[str, str], said: str) -> None:
    """In a sentence that names it, and nothing is kept."""
    token = token_of(owner.get("/findings/f-m3p8?week=2026-W46").text)
    answer = owner.post("/findings/f-m3p8", data={"csrf": token, "week": "2026-W46"} | fields)
    assert answer.status_code == 400
    assert said in answer.text


def test_who_may_not_judge_has_no_form_and_is_refused(site: Guarded) -> None:
    """A reader sees the finding and its argument, and changes nothing."""
    with site.browser() as reader:
        log_in(reader, site.keys["read"])
        assert "Say what it is" not in reader.get("/findings/f-7kq2?week=2026-W46").text
        token = token_of(reader.get("/login").text)
        fields = {"csrf": token, "verdict": "right", "because": "x"}
        assert reader.post("/findings/f-7kq2", data=fields).status_code == 403
