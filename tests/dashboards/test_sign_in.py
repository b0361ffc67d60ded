"""People sign in by OpenID Connect, at a certified provider that runs beside the test; keys stay for machines."""

import logging
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, expect

from analyzer.errors import ConfigError
from collector.access.access import AT_ONCE
from collector.access.secret import COOKIE, PERSON_SECONDS
from collector.errors import AccessError
from dashboards.server.oidc import Oidc
from dashboards.server.sign_in import Grant, OidcSettings, Person, principal_of
from tests.browser import Visit
from tests.dashboards.keys import Guarded, guarded, token_of
from tests.dashboards.openid import CLIENT, SECRET, Claims, OpenIdProvider, openid_provider

OURS = ("agent", "analyzer", "collector", "dashboards", "uvicorn")
GROUPS = {
    "hpc-admins": "admin",
    "nlp-leads": "owner of team-nlp",
    "speech": "owner of team-speech",
    "controlling": "finance",
    "guests": "read of team-vision",
}
USERS: dict[str, Claims] = {
    "mira": {"name": "Mira M", "preferred_username": "mira", "email": "mira@x.example", "groups": ["nlp-leads", "all"]},
    "root": {"name": "Root", "preferred_username": "root", "groups": ["hpc-admins"]},
    "new": {"name": "New <b>One</b>", "preferred_username": "new", "groups": ["all", "canteen"]},
    "bare": {"name": "Bare", "preferred_username": "bare"},
    "guest": {"name": "G", "preferred_username": "guest", "groups": ["guests"]},
    "both": {"name": "Both", "preferred_username": "both", "groups": ["guests", "speech", "nlp-leads"]},
}


@pytest.fixture(scope="module")
def op() -> Iterator[OpenIdProvider]:
    """Yield a provider."""
    with openid_provider({name: dict(claims) for name, claims in USERS.items()}) as one:
        yield one


@pytest.fixture
def own_op() -> Iterator[OpenIdProvider]:
    """Yield a provider of this test's own, which it may change."""
    with openid_provider({"mira": USERS["mira"]}) as one:
        yield one


def settings_of(op: OpenIdProvider, folder: Path, **more: object) -> OidcSettings:
    """Return the settings of a site that this provider signs in to."""
    secret = folder / "oidc-secret"
    secret.write_text(f"{SECRET}\n")
    words = {"client_secret_file": secret, "scopes": ("profile", "email", "groups"), "groups": GROUPS, **more}
    return OidcSettings(issuer=op.issuer, client_id=CLIENT, **words)  # type: ignore[arg-type]


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture(scope="module")
def site(op: OpenIdProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Yield a server where people sign in."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    op.allow(f"{address}/login/callback")
    with guarded(address, settings_of(op, tmp_path_factory.mktemp("oidc")), port) as one:
        yield one


@pytest.fixture
def visitor(site: Guarded, op: OpenIdProvider) -> Iterator[httpx.Client]:
    """Yield a browser of this test's own, before a provider that does as it should."""
    site.access.attempts._spent_until.clear()
    op.user, op.change, op.is_away, op.metadata = "mira", None, False, {}
    with site.browser() as one:
        yield one


def start(visitor: httpx.Client, wanted: str = "/") -> str:
    """Begin to sign in, and return where the provider is asked."""
    begun = visitor.get("/login/start", params={"next": wanted})
    assert begun.status_code == 303, begun.text
    return begun.headers["location"]


def sent_back(address: str) -> str:
    """Sign in at the provider, and return where it sends the browser back to."""
    answer = httpx.get(address, verify=False)
    assert answer.status_code == 302, answer.text
    return str(answer.headers["location"])


def signed_in(visitor: httpx.Client, wanted: str = "/") -> httpx.Response:
    """Go all the way, and return what the callback answers."""
    return visitor.get(sent_back(start(visitor, wanted)))


def test_a_person_signs_in_and_sees_the_page_that_was_asked_for(visitor: httpx.Client) -> None:
    """From a link in a mail to the page that was meant, with the state that its address has."""
    wanted = "/money?week=2026-W46&by=stage"
    refused = visitor.get(wanted)
    asked = visitor.get(refused.headers["location"])
    (button,) = re.findall(r'href="(/login/start\?[^"]+)"', asked.text)
    begun = visitor.get(button.replace("&amp;", "&"))
    entered = visitor.get(sent_back(begun.headers["location"]))
    assert (entered.status_code, entered.headers["location"]) == (303, wanted)
    page = visitor.get(wanted)
    assert page.status_code == 200
    assert "By stage" in page.text
    assert "team-vision" not in page.text  # who leads one team sees that one


def test_who_asked_for_nothing_sees_their_own_runs(visitor: httpx.Client) -> None:
    """The first page of a person is what they came for."""
    entered = signed_in(visitor)
    assert entered.headers["location"] == "/mine"
    assert visitor.get("/mine").headers["location"] == "/runs?user=mira"


def test_my_runs_say_what_they_cost_what_was_lost_and_what_to_change(
    op: OpenIdProvider, site: Guarded, visitor: httpx.Client
) -> None:
    """In one page; of others' runs who only reads sees no name, and nobody sees what is of another team."""
    signed_in(visitor)
    page = visitor.get("/runs?user=mira&week=2026-W46").text
    assert "<h1>Runs of <bdi>mira</bdi></h1>" in page
    (answer,) = re.findall(r'<p class="answer[^"]*">(.*?)</p>', page)
    assert re.fullmatch(
        r"1 run, [0-9,.]+ GPU-hours, \$[0-9,.]+ [0-9.]+% of it was lost, .* most to input starvation.*", answer
    )
    change = r'What to change.*href="/recommendations\?week=2026-W46#r-[0-9a-z]+"><bdi class="name">llama-sft</bdi>: '
    assert re.search(change, page, re.DOTALL)
    assert "vision-job" not in page
    op.user = "guest"
    signed_in(visitor)
    assert visitor.get("/runs?user=guest&week=2026-W46").status_code == 200
    refused = visitor.get("/runs?user=mira&week=2026-W46")
    assert refused.status_code == 400
    assert "shown to that user" in refused.text
    assert visitor.get("/runs.csv?user=mira&week=2026-W46").status_code == 400


def test_what_is_asked_of_the_provider_is_as_the_standard_wants_it(site: Guarded, visitor: httpx.Client) -> None:
    """A code, a challenge, a nonce, a state, and the one address that the site's own says."""
    words = dict(parse_qsl(urlsplit(start(visitor)).query))
    assert (words["response_type"], words["code_challenge_method"]) == ("code", "S256")
    assert words["redirect_uri"] == f"{site.address}/login/callback"
    assert words["scope"].split() == ["openid", "profile", "email", "groups"]
    assert min(len(words[name]) for name in ("state", "nonce", "code_challenge")) >= 43
    other = dict(parse_qsl(urlsplit(start(visitor)).query))
    assert not {words[name] for name in ("state", "nonce", "code_challenge")} & set(other.values())


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1:1"])
def test_where_people_come_back_to_is_not_what_a_request_says(visitor: httpx.Client, host: str) -> None:
    """A Host header would send codes to whoever sets it."""
    begun = visitor.get("/login/start", headers={"Host": host, "X-Forwarded-Host": host})
    assert host not in begun.headers["location"]


def test_a_session_lasts_half_a_day_and_its_cookie_is_as_a_key_s(
    site: Guarded, visitor: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever leaves the site's groups has nothing here after twelve hours at most."""
    cookies = signed_in(visitor).headers.get_list("set-cookie")
    (session,) = [cookie for cookie in cookies if cookie.startswith(f"{COOKIE}=")]
    parts = {part.strip() for part in session.split(";")}
    assert {"HttpOnly", "SameSite=lax", "Path=/", f"Max-Age={int(PERSON_SECONDS)}"} <= parts
    assert visitor.get("/money").status_code == 200
    now = site.access.sessions._now
    monkeypatch.setattr(site.access.sessions, "_now", lambda: now() + PERSON_SECONDS)
    assert visitor.get("/money").status_code == 303


def test_a_group_that_nobody_named_opens_nothing_and_says_so(op: OpenIdProvider, visitor: httpx.Client) -> None:
    """The sentence has who they are and which groups they bring, for who has to add one; nothing of it is markup."""
    op.user = "new"
    refused = signed_in(visitor, "/money")
    assert refused.status_code == 403
    assert "none of your groups (all, canteen) has a role here" in refused.text
    assert "<b>One" not in refused.text
    assert visitor.get("/money").status_code == 303


def test_a_provider_that_tells_no_groups_is_told_apart(op: OpenIdProvider, visitor: httpx.Client) -> None:
    """Not told is not none: the way out is another one."""
    op.user = "bare"
    refused = signed_in(visitor)
    assert refused.status_code == 403
    assert "did not tell your groups" in refused.text


def test_the_role_is_that_of_the_first_group_and_no_more(op: OpenIdProvider, visitor: httpx.Client) -> None:
    """Who owns two teams and reads a third one decides of the two, and does not of the third."""
    op.user = "both"
    signed_in(visitor)
    account = visitor.get("/login").text
    assert "<dd>owner</dd>" in account
    assert "team-nlp, team-speech" in account
    assert "team-vision" not in account


@pytest.mark.parametrize(
    ("groups", "role", "teams"),
    [
        (("hpc-admins", "guests"), "admin", None),
        (("guests", "controlling"), "finance", None),
        (("guests",), "read", {"team-vision"}),
        (("speech", "nlp-leads", "guests"), "owner", {"team-speech", "team-nlp"}),
    ],
)
def test_groups_are_mapped_in_the_order_of_the_settings(
    groups: tuple[str, ...], role: str, teams: set[str] | None
) -> None:
    """Whatever order the provider tells them in."""
    grants = {group: Grant.parse(group, text) for group, text in GROUPS.items()}
    for told in (groups, groups[::-1]):
        found = principal_of(Person("person-1", "M", "m", told), grants, "id.example")
        assert (found.role, found.teams) == (role, None if teams is None else frozenset(teams))


def test_groups_are_found_where_userinfo_alone_tells_them(
    op: OpenIdProvider, site: Guarded, visitor: httpx.Client
) -> None:
    """Some providers put little into the ID token."""
    op.change = lambda claims: {name: value for name, value in claims.items() if name != "groups"}
    assert signed_in(visitor).headers["location"] == "/mine"
    assert "/userinfo" in op.asked


def replaced(**words: object) -> Callable[[Claims], Claims]:
    """Return what changes claims; None takes one away."""
    return lambda claims: {name: value for name, value in (claims | words).items() if value is not None}


@pytest.mark.parametrize(
    "change",
    [
        replaced(iss="https://evil.example"),
        replaced(aud=["another-client"]),
        replaced(aud=[CLIENT, "another-client"]),  # of several audiences the azp says who was meant
        replaced(azp="another-client"),
        replaced(nonce="another"),
        replaced(nonce=None),
        replaced(exp=1_000_000_000),
        replaced(exp=None),
        replaced(iat=4_000_000_000),
        replaced(nbf=4_000_000_000),
        replaced(sub=None),
        replaced(sub=""),
        replaced(at_hash="AAAAAAAAAAAAAAAAAAAAAA"),
    ],
    ids=lambda change: str(change.__closure__[0].cell_contents),
)
def test_a_token_that_is_not_ours_signs_nobody_in(
    op: OpenIdProvider, visitor: httpx.Client, change: Callable[[Claims], Claims]
) -> None:
    """Each is signed by the provider's own key."""
    op.change = change
    refused = signed_in(visitor)
    assert refused.status_code == 403
    assert visitor.get("/money").status_code == 303
    assert COOKIE not in visitor.cookies


@pytest.mark.parametrize(("seconds", "status"), [(-30, 303), (-90, 403), (30, 303), (90, 403)])
def test_clocks_may_differ_by_a_minute(op: OpenIdProvider, visitor: httpx.Client, seconds: int, status: int) -> None:
    """A host without NTP is off by seconds; by more it would lend expired tokens a longer life."""
    now = int(time.time())
    op.change = replaced(exp=now + seconds) if seconds < 0 else replaced(iat=now + seconds, exp=now + 600)
    assert signed_in(visitor).status_code == status


def test_new_keys_of_the_provider_are_believed_at_once(own_op: OpenIdProvider, tmp_path: Path) -> None:
    """Providers turn their keys without a word; and a key that they no longer show is believed no more."""
    clock = [time.time()]
    client = Oidc(settings_of(own_op, tmp_path), "http://127.0.0.1:9", now=lambda: clock[0])
    own_op.allow("http://127.0.0.1:9/login/callback")

    def person() -> Person:
        begun = client.begin()
        return client.finish(begun, dict(parse_qsl(urlsplit(sent_back(begun.url)).query)))

    first = person()
    own_op.turn_keys()
    clock[0] += 5
    with pytest.raises(AccessError, match="not valid here"):
        person()  # who shows rubbish cannot make us ask the provider again and again
    clock[0] += 40
    assert person() == first
    reads = own_op.asked.count("/jwks")
    person()
    assert own_op.asked.count("/jwks") == reads


def forged(header: Claims, claims: Claims, key: object) -> str:
    """Return a token of a header that a careful client refuses."""
    from joserfc import jwt
    from joserfc.jwk import OctKey

    return jwt.encode(header, claims, OctKey.import_key(key), algorithms=["HS256"])  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["none", "hmac", "hmac of the public key"])
def test_a_signature_that_is_no_key_pair_s_counts_for_nothing(op: OpenIdProvider, tmp_path: Path, kind: str) -> None:
    """The old mistakes: an unsigned token, one signed with the client's secret, one with the public key as a secret."""
    client = Oidc(settings_of(op, tmp_path), "http://127.0.0.1:9")
    begun = client.begin()
    now = int(time.time())
    claims = {"iss": op.issuer, "sub": "m", "aud": CLIENT, "exp": now + 600, "iat": now, "nonce": begun.nonce}
    (public, *_) = op.server.context.keyjar.export_jwks()["keys"]
    if kind == "none":
        import base64
        import json

        parts = [{"alg": "none"}, claims]
        token = ".".join(base64.urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in parts) + "."
    else:
        key = SECRET if kind == "hmac" else public["n"]
        token = forged({"alg": "HS256", "kid": public["kid"]}, claims, key)
    with pytest.raises(AccessError, match="not valid here"):
        client._claims({"id_token": token}, begun.nonce)


def test_an_answer_fits_the_browser_that_asked(op: OpenIdProvider, site: Guarded, visitor: httpx.Client) -> None:
    """A link with somebody else's code would sign a victim in as the attacker; an old one signs in nobody."""
    back = sent_back(start(visitor, "/money"))
    with site.browser() as victim:
        assert victim.get(back).status_code == 403
        start(victim)
        assert victim.get(back).status_code == 403  # the state is another sign-in's
    assert visitor.get(back).status_code == 303
    again = visitor.get(back)  # the cookie of the sign-in is gone, and the code is spent
    assert again.status_code == 403


def test_a_code_is_worth_nothing_without_its_verifier(op: OpenIdProvider, site: Guarded, visitor: httpx.Client) -> None:
    """Whoever reads an address on the way has no verifier, and ours does not fit another's code."""
    with site.browser() as other:
        stolen = parse_qs(urlsplit(sent_back(start(other))).query)["code"][0]
    own = dict(parse_qsl(urlsplit(sent_back(start(visitor))).query))
    refused = visitor.get("/login/callback", params=own | {"code": stolen})
    assert refused.status_code == 403
    assert COOKIE not in visitor.cookies


def test_an_answer_of_another_provider_is_refused(site: Guarded, visitor: httpx.Client) -> None:
    """RFC 9207: with several providers one could answer in the name of another."""
    own = dict(parse_qsl(urlsplit(sent_back(start(visitor))).query))
    assert "iss" in own
    assert visitor.get("/login/callback", params=own | {"iss": "https://evil.example"}).status_code == 403


@pytest.mark.parametrize("elsewhere", ["https://evil.example", "//evil.example", "/\\evil.example", "/\t/evil.example"])
def test_signing_in_leads_nowhere_else(visitor: httpx.Client, elsewhere: str) -> None:
    """A link to our sign-in that ends on a page of somebody else's is how passwords are phished."""
    assert signed_in(visitor, elsewhere).headers["location"] == "/mine"


def test_who_cancels_is_told_so_and_keeps_where_they_wanted_to(visitor: httpx.Client) -> None:
    """What the provider says in its own words is not shown: it could be anybody's."""
    state = dict(parse_qsl(urlsplit(start(visitor, "/money?by=stage")).query))["state"]
    words = {"state": state, "error": "access_denied", "error_description": "call 555-1234 now"}
    refused = visitor.get(f"/login/callback?{urlencode(words)}")
    assert refused.status_code == 403
    assert "cancelled" in refused.text
    assert "555" not in refused.text
    assert "next=%2Fmoney%3Fby%3Dstage" in refused.text


def test_signing_out_ends_the_session_and_names_the_provider_s_own(op: OpenIdProvider, visitor: httpx.Client) -> None:
    """Who leaves a shared machine has two sessions to end."""
    signed_in(visitor)
    kept = dict(visitor.cookies)
    answer = visitor.post("/logout", data={"csrf": token_of(visitor.get("/login").text)})
    assert answer.headers["location"] == "/login?out=true"
    assert f'href="{op.issuer}/signout?client_id={CLIENT}"' in visitor.get("/login?out=true").text
    visitor.cookies.update(kept)
    assert visitor.get("/money").status_code == 303


def test_no_token_code_or_secret_is_logged(
    op: OpenIdProvider, visitor: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    """Logs are shipped to where more people read than here."""
    with caplog.at_level(logging.DEBUG):
        back = sent_back(start(visitor))
        visitor.get(back)
        op.change = replaced(aud="another")
        signed_in(visitor)
    code = parse_qs(urlsplit(back).query)["code"][0]
    ours = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith(OURS))
    assert "signed in as Mira M: owner of team-nlp" in ours
    for secret in (code, SECRET, "eyJ", *visitor.cookies.values()):
        assert secret not in ours


def test_whoever_signs_in_is_in_the_audit_by_a_pseudonym(site: Guarded, visitor: httpx.Client) -> None:
    """Entries cannot be erased, so that no name of a reader is in one; the account page tells people theirs."""
    signed_in(visitor)
    visitor.get("/money")
    (own,) = re.findall(r"person-[0-9a-f]{16}", visitor.get("/login").text)
    site.access.usage.flush()
    entries = site.access.registry.audit.since(0)
    assert {"/login", "/money"} <= {entry.subject for entry in entries if entry.actor == own}
    assert not any("mira" in entry.actor.lower() for entry in entries)


def test_a_person_changes_only_with_the_token_of_their_session(visitor: httpx.Client) -> None:
    """As with a key: the cookie alone changes nothing."""
    signed_in(visitor)
    assert visitor.post("/logout", data={"csrf": "guessed"}).status_code == 403
    assert visitor.get("/money").status_code == 200


def test_keys_stay_for_machines(site: Guarded, visitor: httpx.Client) -> None:
    """An ID token is no key, and a key works as before."""
    assert site.client.get("/v1/runs", headers={"Authorization": f"Bearer {site.keys['read']}"}).status_code == 200
    assert site.client.get("/v1/runs", headers={"Authorization": "Bearer eyJhbGciOiJub25lIn0.e30."}).status_code == 401


def test_attempts_are_bounded(op: OpenIdProvider, visitor: httpx.Client) -> None:
    """Each makes us ask the provider: a loop must not."""
    for _ in range(AT_ONCE):
        state = dict(parse_qsl(urlsplit(start(visitor)).query))["state"]
        assert visitor.get("/login/callback", params={"state": state, "code": "x"}).status_code == 403
    asked = len(op.asked)
    assert visitor.get("/login/start").status_code == 429
    assert visitor.get("/login/callback", params={"state": state, "code": "x"}).status_code == 429
    assert len(op.asked) == asked


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_the_secret_goes_as_the_provider_wants_it(own_op: OpenIdProvider, tmp_path: Path, method: str) -> None:
    """Some take it as a password, some in the form; one with + and % in it arrives whole."""
    own_op.allow("http://127.0.0.1:9/login/callback", method)
    own_op.metadata = {"token_endpoint_auth_methods_supported": [method, "private_key_jwt"]}
    client = Oidc(settings_of(own_op, tmp_path), "http://127.0.0.1:9")
    begun = client.begin()
    assert client.finish(begun, dict(parse_qsl(urlsplit(sent_back(begun.url)).query))).user == "mira"


def test_a_claim_may_lie_deep_or_be_named_by_an_address(op: OpenIdProvider, tmp_path: Path) -> None:
    """Keycloak has realm_access.roles, others https://example.com/groups; one text is one group."""
    for claim, told, groups in (
        ("realm_access.roles", {"realm_access": {"roles": ["a", 5, "b"]}}, ("a", "b")),
        ("https://x.example/groups", {"https://x.example/groups": ["c"]}, ("c",)),
        ("department", {"department": "d"}, ("d",)),
        ("email", {"email": "m@x.example"}, ("m@x.example",)),
        ("email", {"email": "m@x.example", "email_verified": False}, ()),
        ("groups", {"groups": {"no": "list"}}, None),
    ):
        client = Oidc(settings_of(op, tmp_path, groups_claim=claim), "http://127.0.0.1:9")
        assert client._person({"sub": "m", **told}).groups == groups


@pytest.mark.parametrize(
    ("metadata", "sentence"),
    [
        ({"issuer": "https://evil.example"}, "it calls itself https://evil.example"),
        ({"jwks_uri": "http://evil.example/keys"}, "no jwks_uri of https"),
        ({"authorization_endpoint": "http://evil.example/"}, "no authorization_endpoint of https"),
        ({"authorization_endpoint": None}, "no authorization_endpoint of https"),
    ],
)
def test_a_provider_that_is_not_the_one_that_was_named_is_not_asked(
    op: OpenIdProvider, tmp_path: Path, metadata: Claims, sentence: str
) -> None:
    """What it says of itself is believed over https, and under its own name alone."""
    op.metadata = metadata
    try:
        with pytest.raises(AccessError, match=re.escape(sentence)):
            Oidc(settings_of(op, tmp_path), "http://127.0.0.1:9").begin()
    finally:
        op.metadata = {}


def test_while_the_provider_is_away_a_page_says_so_and_keys_go_on(op: OpenIdProvider, tmp_path: Path) -> None:
    """Nobody new signs in; who has a key or a session does not notice."""
    op.is_away = True
    port = free_port()
    with guarded(f"http://127.0.0.1:{port}", settings_of(op, tmp_path), port) as site, site.browser() as one:
        refused = one.get("/login/start")
        assert refused.status_code == 503
        assert "cannot be asked" in refused.text
        assert site.client.get("/v1/runs", headers={"Authorization": f"Bearer {site.keys['read']}"}).status_code == 200
    op.is_away = False


def test_below_a_path_people_come_back_below_it(own_op: OpenIdProvider, tmp_path: Path) -> None:
    """The provider's address of us, our redirects and the page that was asked for all have the path once."""
    port = free_port()
    address = f"http://127.0.0.1:{port}/gpuledger"
    own_op.allow(f"{address}/login/callback")
    with guarded(address, settings_of(own_op, tmp_path), port) as site, site.browser() as one:
        begun = one.get("/gpuledger/login/start", params={"next": "/money?by=stage"})
        entered = one.get(sent_back(begun.headers["location"]))
        assert entered.headers["location"] == "/gpuledger/money?by=stage"
        assert one.get("/gpuledger/money?by=stage").status_code == 200
        site.access.sessions._open.clear()
        headers = {"Referer": f"{address}/requests/q-1"}
        refused = one.post("/gpuledger/requests/q-1/waivers", data={"reason": "x"}, headers=headers)
        assert parse_qs(urlsplit(refused.headers["location"]).query)["next"] == ["/requests/q-1"]


def test_who_has_keys_alone_loads_nothing_of_it() -> None:
    """Two megabytes and their time are for sites that use them."""
    said = "import sys, dashboards.cli, dashboards.server.app; print(sorted({'authlib', 'joserfc'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"issuer": "http://id.example"}, "must begin with https://"),
        ({"issuer": "https://id.example/?x=1"}, "have no query"),
        ({"client_id": ""}, "client_id is missing"),
        ({"groups": {}}, "groups is missing"),
        ({"groups": {"x": "reader"}}, "write one of read, owner"),
        ({"groups": {"x": "agent"}}, "write one of read, owner"),
        ({"groups": {"x": "admin of nlp"}}, "the role admin belongs to no team"),
        ({"groups": {"x": "owner of"}}, "write one of read, owner"),
        ({"client_secret_file": Path("/nowhere/secret")}, "cannot read"),
    ],
)
def test_settings_that_would_let_in_nobody_or_anybody_are_refused(words: dict[str, object], sentence: str) -> None:
    """At the start, in a sentence that names the key."""
    whole: dict[str, object] = {"issuer": "https://id.example", "client_id": "x", "groups": {"a": "read"}}
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        OidcSettings(**(whole | words))  # type: ignore[arg-type]


@pytest.mark.parametrize("site_url", ["", "http://gpuledger.example"])
def test_a_site_without_an_address_of_its_own_signs_nobody_in(site_url: str) -> None:
    """The address that people come back to is never taken from a request."""
    settings = OidcSettings(issuer="https://id.example", client_id="x", groups={"a": "read"})
    with pytest.raises(ConfigError, match="site_url"):
        Oidc(settings, site_url)


def test_the_table_is_read_like_the_others(tmp_path: Path) -> None:
    """A file, with variables over it; a secret in the file itself is no key that there is."""
    file = tmp_path / "gpuledger.toml"
    file.write_text(
        '[oidc]\nissuer = "https://id.example/"\nclient_id = "x"\n[oidc.groups]\n"/hpc/nlp" = "owner of nlp"\n'
    )
    found = OidcSettings.read(file, ("oidc",), {"GPULEDGER_OIDC_CLIENT_ID": "y"})
    assert (found.issuer, found.client_id) == ("https://id.example/", "y")  # the slash is a part of the issuer's name
    assert found.grants == {"/hpc/nlp": Grant("owner", frozenset({"nlp"}))}
    file.write_text('[oidc]\nclient_secret = "x"\n')
    with pytest.raises(ConfigError, match="client_secret_file"):
        OidcSettings.read(file, ("oidc",), {})


def test_a_session_that_ends_in_a_form_keeps_the_text_and_comes_back_to_it(
    browser: Browser, site: Guarded, op: OpenIdProvider
) -> None:
    """A reason is a minute's thought: it is there again after the way over the provider, and only then."""
    op.user, op.change, op.is_away, op.metadata = "mira", None, False, {}
    site.access.attempts._spent_until.clear()
    visit = Visit(browser, f"{site.address}/recommendations?week=2026-W46")
    page = visit.page
    page.click('text="Sign in with 127.0.0.1"')
    expect(page.locator("h1")).to_have_text("Recommendations")
    (field, *_) = page.locator('input[name="because"]').evaluate_all("all => all.map((each) => each.id)")
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    page.locator(f"#{field}").fill("the réservation ends <in> March")
    site.access.sessions._open.clear()
    page.get_by_role("button", name="Reject it").first.click()
    expect(page.locator("h1")).to_have_text("Log in")
    expect(page.get_by_role("alert")).to_contain_text("Your session has ended")
    page.click('text="Sign in with 127.0.0.1"')
    expect(page.locator("h1")).to_have_text("Recommendations")
    page.wait_for_url("**/recommendations?week=2026-W46")
    expect(page.locator(f"#{field}")).to_have_value("the réservation ends <in> March")
    expect(page.locator(f"#{field}")).to_be_visible()
    expect(page.get_by_role("status").first).to_contain_text("was not sent")
    page.locator(f"#{field}").press("Enter")
    expect(page.locator("main")).to_contain_text("the réservation ends <in> March")
    expect(page.locator(f"#{field}")).to_have_count(0)  # it was rejected, and there is no form for it any more
    page.reload()
    assert page.evaluate("sessionStorage.length") == 0
    assert (visit.complaints, visit.elsewhere) == ([], [])
    page.context.close()


@pytest.mark.parametrize(
    ("referer", "wanted"),
    [
        ("{site}/requests/q-1?x=1", "/requests/q-1?x=1"),
        ("https://evil.example/requests", "/"),
        ("", "/"),
        ("{site}//evil.example", "/"),
        ("not an address", "/"),
    ],
)
def test_who_sent_a_form_without_a_session_is_led_back_to_its_page(site: Guarded, referer: str, wanted: str) -> None:
    """And nowhere that is not ours."""
    with site.browser() as one:
        headers = {"Referer": referer.format(site=site.address)} if referer else {}
        refused = one.post("/requests/q-1/waivers", data={"reason": "x"}, headers=headers)
    assert refused.status_code == 303
    assert parse_qs(urlsplit(refused.headers["location"]).query)["next"] == [wanted]
