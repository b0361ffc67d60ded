"""Logging in: a key opens a session, the session is that key's, and no other site can use it."""

from collections.abc import Iterator

import httpx
import pytest

from collector.access.access import AT_ONCE
from collector.access.secret import COOKIE, IDLE_SECONDS, SECURE_COOKIE
from dashboards.pages.fleet import WARMED
from dashboards.server.login import inside
from tests.collector.access.conftest import TOKEN, add_key, bearer
from tests.dashboards.keys import Guarded, guarded, log_in, token_of


@pytest.fixture(scope="module")
def site() -> Iterator[Guarded]:
    """Yield a server with keys."""
    with guarded(tokens=(TOKEN,)) as one:
        yield one


@pytest.fixture
def browser(site: Guarded) -> Iterator[httpx.Client]:
    """Yield a browser of this test's own, from an address that has tried nothing."""
    site.access.attempts._spent_until.clear()
    with site.browser() as one:
        yield one


def test_a_page_asks_for_a_key_and_then_shows_itself(site: Guarded, browser: httpx.Client) -> None:
    """From a link in a chat to the page that was meant, with the state that its address has."""
    wanted = "/money?week=2026-W46&by=stage"
    refused = browser.get(wanted)
    assert refused.status_code == 303
    asked = browser.get(refused.headers["location"])
    assert 'value="/money?week=2026-W46&amp;by=stage"' in asked.text
    entered = log_in(browser, site.keys["read"], wanted)
    assert (entered.status_code, entered.headers["location"]) == (303, wanted)
    assert "By stage" in browser.get(wanted).text


def test_the_session_s_cookie_is_for_browsers_alone(site: Guarded, browser: httpx.Client) -> None:
    """No script reads it, no other site's form sends it, and it says nothing of the key."""
    cookies = log_in(browser, site.keys["read"]).headers.get_list("set-cookie")
    (session,) = [cookie for cookie in cookies if cookie.startswith(f"{COOKIE}=")]
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= {part.strip() for part in session.split(";")}
    assert "Secure" not in session
    assert site.keys["read"].split("_", 2)[2] not in session  # gl_read_SECRET, and a secret may hold a _ too


def test_behind_tls_the_cookie_never_goes_in_the_clear() -> None:
    """A proxy ends TLS before us: site_url says so, no header of a request does."""
    with guarded(site_url="https://gpuledger.example") as site, site.browser() as browser:
        asked = browser.get("/login")
        login = asked.headers["set-cookie"]
        assert "Secure" in login
        assert "SameSite=strict" in login
        name, _, value = login.partition(";")[0].partition("=")
        fields = {"key": site.keys["read"], "next": "/", "csrf": token_of(asked.text)}
        entered = browser.post("/login", data=fields, headers={"Cookie": f"{name}={value}"})
        (session,) = [one for one in entered.headers.get_list("set-cookie") if one.startswith(SECURE_COOKIE)]
        assert {"Secure", "HttpOnly", "Path=/"} <= {part.strip() for part in session.split(";")}


@pytest.mark.parametrize("shown", ["", "nonsense", "gl_read_aaaaaaaa_wrong", "gl_read", "x" * 5000])
def test_a_wrong_key_opens_nothing_and_says_so(site: Guarded, browser: httpx.Client, shown: str) -> None:
    """The sentence tells no stranger which keys there are."""
    answer = log_in(browser, shown)
    assert answer.status_code == 401
    assert "This key is not valid here" in answer.text
    assert shown not in answer.text or not shown
    assert browser.get("/money").status_code == 303


def test_a_right_id_with_a_wrong_secret_is_told_the_same(site: Guarded, browser: httpx.Client) -> None:
    """Who knows an id from a list must learn nothing from the answer."""
    answer = log_in(browser, site.keys["read"][:-2] + "zz")
    assert (answer.status_code, "This key is not valid here" in answer.text) == (401, True)


def test_attempts_are_bounded(site: Guarded, browser: httpx.Client) -> None:
    """After ten, also the right key waits: or the answer would tell that it is right."""
    statuses = [log_in(browser, "wrong").status_code for _ in range(AT_ONCE)]
    assert statuses == [401] * AT_ONCE
    held = log_in(browser, site.keys["read"])
    assert held.status_code == 429
    assert int(held.headers["retry-after"]) > 0
    site.access.attempts._spent_until.clear()
    assert log_in(browser, site.keys["read"]).status_code == 303


def test_an_agent_s_key_opens_no_page(site: Guarded, browser: httpx.Client) -> None:
    """Every GPU host has one."""
    answer = log_in(browser, site.keys["agent"])
    assert answer.status_code == 403
    assert "the role agent cannot open pages" in answer.text


def test_a_login_form_of_another_site_is_refused(site: Guarded, browser: httpx.Client) -> None:
    """Else it could log a victim in as somebody else, and see what they do there."""
    asked = browser.get("/login")
    fields = {"key": site.keys["read"], "next": "/", "csrf": token_of(asked.text)}
    assert browser.post("/login", data=fields, headers={"Origin": "https://evil.example"}).status_code == 403
    assert browser.post("/login", data=fields | {"csrf": "x"}).status_code == 403
    browser.cookies.clear()
    assert browser.post("/login", data=fields).status_code == 403


def test_a_change_needs_the_token_of_its_session(site: Guarded, browser: httpx.Client) -> None:
    """The cookie alone, which a browser adds by itself, changes nothing."""
    log_in(browser, site.keys["owner"])
    for data in ({}, {"csrf": "guessed"}, {"csrf": site.access.open_token}):
        answer = browser.post("/logout", data=data)
        assert answer.status_code == 403
        assert "did not come from a page of this session" in answer.text
    told = {"verdict": "right"}
    refused = browser.post("/v1/findings/f-7kq2/judgement", json=told, headers={"Accept": "*/*"})
    assert (refused.status_code, refused.json()["reason"]) == (403, "csrf")
    assert browser.get("/money").status_code == 200
    with site.browser() as other:
        log_in(other, site.keys["owner"])
        stolen = token_of(other.get("/login").text)
    assert browser.post("/logout", data={"csrf": stolen}).status_code == 403


def test_logging_out_ends_the_session_on_the_server(site: Guarded, browser: httpx.Client) -> None:
    """A copy of the cookie that somebody has kept opens nothing afterwards."""
    log_in(browser, site.keys["read"])
    kept = dict(browser.cookies)
    answer = browser.post("/logout", data={"csrf": token_of(browser.get("/login").text)})
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert browser.get("/money").status_code == 303
    with site.browser() as thief:
        thief.cookies.update(kept)
        assert thief.get("/money").status_code == 303


def test_an_expired_session_asks_again_and_says_why(
    site: Guarded, browser: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who comes back after the weekend learns what happened, and lands where they wanted to."""
    log_in(browser, site.keys["read"])
    assert browser.get("/money").status_code == 200
    now = site.access.sessions._now
    monkeypatch.setattr(site.access.sessions, "_now", lambda: now() + IDLE_SECONDS + 1)
    refused = browser.get("/money?by=stage")
    assert refused.status_code == 303
    asked = browser.get(refused.headers["location"])
    assert "Your session has ended." in asked.text
    assert "/money?by=stage" in asked.text


def test_a_session_is_not_more_than_its_key(site: Guarded, browser: httpx.Client) -> None:
    """Who revokes a key must not have to look for browsers."""
    key = add_key(site.access.registry, "read")
    log_in(browser, key)
    assert browser.get("/money").status_code == 200
    site.access.registry.keys.revoke([key.split("_")[2]], 1, "test")
    site.access.directory.refresh()
    assert browser.get("/money").status_code == 303
    assert browser.get("/login").status_code == 200


def test_a_key_of_a_team_sees_that_team_s_money_alone(site: Guarded, browser: httpx.Client) -> None:
    """The same door as the API's: what is not theirs is neither shown nor summed."""
    entered = log_in(browser, site.keys["nlp"])
    assert entered.headers["location"] == "/"
    page = browser.get("/money").text
    assert "33,488" in page
    for hidden in ("team-vision", "team-search", "team-speech", "67,738", "nobody", "Prices"):
        assert hidden not in page
    refused = browser.get("/health")
    assert refused.status_code == 403
    assert "this key is limited to team-nlp" in refused.text
    assert 'href="/health"' not in refused.text
    for sheet in ("costs", "days", "budgets", "burn", "units", "runs", "prices", "savings"):
        text = browser.get(f"/money/{sheet}.csv").text
        assert "team-vision" not in text
        assert "H100" not in text


@pytest.mark.parametrize(
    "path", ["/", "/findings", "/recommendations", "/runs", *(f"/parts/{name}" for name in WARMED)]
)
def test_a_team_s_overview_is_of_that_team_alone(site: Guarded, browser: httpx.Client, path: str) -> None:
    """What others cost, lost and are called is in none of its parts; nor what the fleet has free."""
    log_in(browser, site.keys["nlp"])
    answer = browser.get(path)
    assert answer.status_code == 200
    for hidden in ("team-vision", "team-search", "team-speech", "67,738", "32,256", "nobody"):
        assert hidden not in answer.text, hidden


def test_pages_of_one_key_are_not_kept_for_another(site: Guarded, browser: httpx.Client) -> None:
    """Rendered pages are kept: by who may see what, too."""
    log_in(browser, site.keys["nlp"])
    assert "team-vision" not in browser.get("/money").text
    with site.browser() as other:
        log_in(other, site.keys["read"])
        assert "team-vision" in other.get("/money").text
    assert "team-vision" not in browser.get("/money").text


def test_programs_are_answered_as_before(site: Guarded) -> None:
    """A key in a header needs no session and no token; without one a program gets 401, and no page."""
    assert site.client.get("/money", headers=bearer(site.keys["read"])).status_code == 200
    refused = site.client.get("/money")
    assert (refused.status_code, refused.json()["reason"]) == (401, "token")
    assert refused.headers["www-authenticate"].startswith("Basic")


def test_whoever_logs_in_is_in_the_audit(site: Guarded, browser: httpx.Client) -> None:
    """Who saw money, and from when on."""
    log_in(browser, site.keys["admin"])
    log_in(browser, "wrong")
    site.access.usage.flush()
    entries = {(entry.kind, entry.actor) for entry in site.access.registry.audit.since(0) if entry.subject == "/login"}
    assert ("read", site.keys["admin"].split("_")[2]) in entries
    assert ("refused", "") in entries


@pytest.mark.parametrize(
    "elsewhere",
    [
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "/\t/evil.example",
        "javascript:alert(1)",
        "",
        "/" + "a" * 3000,
        "/money\r\nX: y",
    ],
)
def test_the_login_leads_nowhere_else(elsewhere: str) -> None:
    """A link to our login page that ends on a page of somebody else's is how keys are phished."""
    assert inside(elsewhere) == "/"


def test_the_login_page_is_strict_and_is_kept_nowhere(site: Guarded, browser: httpx.Client) -> None:
    """Nothing inline, no frame around it, no form to elsewhere."""
    asked = browser.get("/login")
    policy = asked.headers["content-security-policy"]
    assert "unsafe" not in policy
    for part in ("default-src 'none'", "frame-ancestors 'none'", "form-action 'self'", "base-uri 'none'"):
        assert part in policy
    assert asked.headers["cache-control"] == "no-store"


def test_without_keys_a_server_on_loopback_asks_for_nothing(client: httpx.Client) -> None:
    """The demo opens at once, as it always did; its forms show a token all the same."""
    assert client.get("/money", headers={"Accept": "text/html"}).status_code == 200
    assert client.get("/login?next=/money").headers["location"] == "/money"
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    refused = client.post("/requests/q-aaaa/waivers", content="gate=useful&reason=x", headers=form)
    assert (refused.status_code, refused.json()["reason"]) == (403, "csrf")
