"""The pages of capacity requests: gates and verdicts as the API has them, and an approver's waiver."""

from collections.abc import Iterator
from html import unescape

import httpx
import pytest

from analyzer.capacity.gate.request_store import kept_request
from analyzer.capacity.gate.text import decided_text
from analyzer.text.layout import TextLayout
from tests.analyzer.interfaces.api_sites import Site
from tests.analyzer.interfaces.test_api_capacity import asked, own
from tests.dashboards.keys import HTML, log_in, token_of
from tests.dashboards.page_figures import read_page
from tests.dashboards.told_figures import Told, figures
from tests.waiting import PATIENCE_SECONDS

__all__ = ["own"]  # the fixture: a site whose policy believes alpha


@pytest.fixture
def browser(own: Site) -> Iterator[httpx.Client]:
    """Yield somebody's browser."""
    with httpx.Client(base_url=own.client.base_url, headers=HTML, timeout=PATIENCE_SECONDS, verify=False) as one:
        yield one


def test_a_request_is_shown_with_every_gate(own: Site, browser: httpx.Client) -> None:
    """What the command prints: verdict, gates with value and bar, what would pass, the other offer."""
    one = asked(own, why="to be shown <b>")
    log_in(browser, own.keys["read"])
    listed = browser.get("/requests").text
    assert f'href="/requests/{one["id"]}"' in listed
    page = browser.get(f"/requests/{one['id']}").text
    assert "to be shown &lt;b&gt;" in page
    page = unescape(page)
    assert "FAIL" in page
    for gate in one["decided"]["gates"]:
        assert gate["label"] in page
    for heading in ("What would pass", "The other offer", "What can be decided", "History"):
        assert heading in page


def test_every_figure_of_a_request_is_told_by_the_api_and_the_command(own: Site, browser: httpx.Client) -> None:
    """What is approved on the page is what a program reads, and what the list says of it."""
    one = asked(own, why="to be held to the API")
    shown = decided_text(kept_request(own.registry, one["id"], lambda _: True).decided, TextLayout(200), kept=True)
    log_in(browser, own.keys["read"])
    for path in (f"/{one['id']}", ""):
        told = Told()
        told.add_text(shown)
        told.add_json(own.get(f"/v1/capacity-requests{path}", "read").text)
        page = read_page(browser.get(f"/requests{path}").text)
        cells = (cell for table in page.tables for row in table.rows for cell in row)
        found = [figure for words in (*page.words, *cells) for figure in figures(words)]
        assert found
        assert [figure for figure in found if not told.tells(figure)] == [], path


def test_who_may_not_waive_sees_no_form_and_is_refused(own: Site, browser: httpx.Client) -> None:
    """Whoever asks needs somebody else's word."""
    one = asked(own, why="waived by nobody")
    log_in(browser, own.keys["owner"])
    page = browser.get(f"/requests/{one['id']}").text
    assert "Override a policy check" not in page
    token = token_of(browser.get("/login").text)
    answer = browser.post(
        f"/requests/{one['id']}/waivers", data={"csrf": token, "gate": "useful", "reason": "because I want to"}
    )
    assert answer.status_code == 403
    assert own.json(f"/v1/capacity-requests/{one['id']}", "read")["request"]["decided"]["waivers"] == []


def test_an_approver_waives_from_the_page(own: Site, browser: httpx.Client) -> None:
    """By key, with a reason, in the history and the audit, as by the command."""
    one = asked(own, why="waived on the page")
    log_in(browser, own.keys["approver"])
    address = f"/requests/{one['id']}"
    token = token_of(browser.get(address).text)
    fields = {"gate": "useful", "reason": "the release is in March"}
    assert browser.post(f"{address}/waivers", data=fields).status_code == 403
    answer = browser.post(f"{address}/waivers", data=fields | {"csrf": token})
    assert (answer.status_code, answer.headers["location"]) == (303, address)
    page = browser.get(address).text
    assert "the release is in March" in page
    assert "overridden: useful" in page
    (waiver,) = own.json(f"/v1/capacity-requests/{one['id']}", "read")["request"]["decided"]["waivers"]
    assert waiver["who"] == own.keys["approver"].split("_")[2]


@pytest.mark.parametrize("fields", [{"gate": "no-such", "reason": "x"}, {"gate": "useful", "reason": " "}, {}])
def test_what_cannot_be_waived_is_said(own: Site, browser: httpx.Client, fields: dict[str, str]) -> None:
    """A form that was filled in wrongly answers with a sentence, and keeps nothing."""
    one = asked(own, why="not waived")
    log_in(browser, own.keys["approver"])
    token = token_of(browser.get(f"/requests/{one['id']}").text)
    answer = browser.post(f"/requests/{one['id']}/waivers", data=fields | {"csrf": token})
    assert answer.status_code == 400
    assert own.json(f"/v1/capacity-requests/{one['id']}", "read")["request"]["decided"]["waivers"] == []


def test_a_team_s_key_sees_its_own_requests(own: Site, browser: httpx.Client) -> None:
    """What another team asks for is not its to know."""
    one = asked(own, why="of nlp alone")
    log_in(browser, own.keys["vision"], "/requests")
    assert one["id"] not in browser.get("/requests").text
    assert browser.get(f"/requests/{one['id']}").status_code == 404


def test_a_team_s_key_is_told_nothing_of_what_the_fleet_has_free(own: Site, browser: httpx.Client) -> None:
    """As by the API: who holds fewer GPUs could be read off it."""
    address = f"/requests/{asked(own, why='seen by its own team')['id']}"
    log_in(browser, own.keys["nlp"], address)
    page = browser.get(address).text
    assert "The other offer" in page
    assert "free on the lowest day" not in page
    assert "stand free in the fleet: keys of all teams see it" in page
    with httpx.Client(base_url=own.client.base_url, headers=HTML, timeout=PATIENCE_SECONDS, verify=False) as other:
        log_in(other, own.keys["read"], address)
        assert "free on the lowest day" in other.get(address).text


def test_nobody_has_asked_is_an_answer(client: httpx.Client) -> None:
    """A new site's page says how one asks."""
    assert "No capacity requests yet" in client.get("/requests").text
    assert client.get("/requests/q-aaaa").status_code == 404
