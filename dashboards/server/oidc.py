"""Speak to the site's provider of OpenID Connect: the authorization code flow with PKCE, and what an ID token says.

Authlib makes the requests and holds the claims to what they must be, joserfc checks signatures; both are loaded where
[oidc] is set alone. What is sent goes by agent/connection.py: to the provider, without redirects, bounded in bytes and
time. No token is kept or logged: of an answer there remains who somebody is and in which groups.

Source: OpenID Connect Core 1.0, section 3.1; RFC 7636 (PKCE), RFC 9207 (issuer of an answer), RFC 9700 (best practice).
"""

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

from authlib.oauth2.auth import ClientAuth
from authlib.oauth2.client import DEFAULT_HEADERS
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri, prepare_token_request
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from agent.connection import Reply, ask, why
from agent.wire.bounded import json_said
from analyzer.errors import ConfigError
from collector.errors import AccessError
from collector.registry.roles import PERSON
from dashboards.server.sign_in import Begun, OidcSettings, Person, is_sealed

# Signatures of a key pair alone: with HMAC or none, whoever knows the client's secret, or nobody's, could sign.
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
_METHODS = ("client_secret_basic", "client_secret_post")
_WAIT_SECONDS = 10.0
_MOST_BYTES = 2**20
_FRESH_SECONDS = 3600.0  # how long the provider's addresses and keys are believed without asking
_HURRIED_SECONDS = 30.0  # how often a key that is not known may make us ask
_SKEW_SECONDS = 60  # by which its clock may differ from ours
_GROUPS_MOST = 1000
_WORD_MOST = 300  # characters of a name or a group
_ERRORS = {"access_denied": "the sign-in was cancelled, or is not allowed for you there"}


class Oidc:
    """The provider as the settings name it; any thread may ask. `now` is seconds UTC."""

    def __init__(self, settings: OidcSettings, site_url: str, now: Callable[[], float] = time.time) -> None:
        """See that a provider can send people back to us.

        Raises:
            ConfigError: it could not, or not safely.
        """
        if not site_url:
            raise ConfigError("[oidc] needs site_url of [analyzer]: the provider sends people back to that address")
        if not is_sealed(site_url):
            raise ConfigError(
                f"[oidc] needs a site_url that begins with https://, not {site_url}: who signs in is said"
            )
        self._settings = settings
        self._redirect_uri = f"{site_url}/login/callback"
        self._now = now
        self._lock = threading.Lock()
        self._metadata: dict[str, Any] = {}
        self._keys = KeySet([])
        self._read_at = -_FRESH_SECONDS
        self._method = ""

    @property
    def name(self) -> str:
        """What people call it: its host."""
        return urlsplit(self._settings.issuer).hostname or self._settings.issuer

    def begin(self) -> Begun:
        """Return where somebody signs in, and what their browser keeps until they come back.

        Raises:
            AccessError: 503, the provider does not say where.
        """
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        url = prepare_grant_uri(
            self._endpoint("authorization_endpoint"),
            self._settings.client_id,
            "code",
            redirect_uri=self._redirect_uri,
            scope=list(dict.fromkeys(("openid", *self._settings.scopes))),
            state=state,
            nonce=nonce,
            code_challenge=create_s256_code_challenge(verifier),
            code_challenge_method="S256",
        )
        return Begun(url, state, nonce, verifier)

    def finish(self, begun: Begun, answer: Mapping[str, str]) -> Person:
        """Return who has signed in, of the query with which the provider sent them back.

        Raises:
            AccessError: 403, they have not, or what came is not the answer to what began; 503, the provider is away.
        """
        if not hmac.compare_digest(answer.get("state", "").encode(), begun.state.encode()):
            raise _refused("this answer belongs to another sign-in: sign in again")
        if "error" in answer:
            raise _refused(_ERRORS.get(answer["error"], f"{self.name} refused the sign-in ({_short(answer['error'])})"))
        if answer.get("iss", self._settings.issuer) != self._settings.issuer:
            raise _refused("the answer is from another provider")
        if not answer.get("code"):
            raise _refused(f"{self.name} sent no code")
        token = self._token(answer["code"], begun.verifier)
        claims = self._claims(token, begun.nonce)
        settings = self._settings
        if _claim(claims, settings.groups_claim) is None and self._metadata.get("userinfo_endpoint"):
            claims = self._userinfo(token, claims["sub"]) | claims
        return self._person(claims)

    @property
    def sign_out_url(self) -> str | None:
        """Where somebody signs out of the provider too; None where it says nothing of it, or has not been asked yet."""
        address = self._metadata.get("end_session_endpoint")
        if not isinstance(address, str) or not is_sealed(address):
            return None
        return f"{address}{'&' if '?' in address else '?'}{urlencode({'client_id': self._settings.client_id})}"

    def _endpoint(self, name: str) -> str:
        with self._lock:
            if not 0 <= self._now() - self._read_at < _FRESH_SECONDS:
                self._read()
            address = self._metadata.get(name)
        if not isinstance(address, str) or not is_sealed(address):
            raise _away(f"{self.name} names no {name} of https")
        return address

    def _read(self) -> None:
        """Read the provider's addresses and keys."""
        issuer = self._settings.issuer
        metadata = self._json(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if metadata.get("issuer") != issuer:
            raise _away(f"it calls itself {_short(metadata.get('issuer'))}, and [oidc] issuer is {issuer}")
        keys = metadata.get("jwks_uri")
        if not isinstance(keys, str) or not is_sealed(keys):
            raise _away("it names no jwks_uri of https")
        try:
            self._keys = KeySet.import_key_set(self._json(keys))  # type: ignore[arg-type]  # it checks what came
        except (JoseError, ValueError, KeyError, TypeError) as error:
            raise _away("its keys cannot be read") from error
        self._metadata, self._read_at = metadata, self._now()

    def _token(self, code: str, verifier: str) -> dict[str, Any]:
        """Return what the provider gives for a code. Raises as finish()."""
        url = self._endpoint("token_endpoint")
        said = self._metadata.get("token_endpoint_auth_methods_supported")
        known = [one for one in _METHODS if isinstance(said, list) and one in said] or [_METHODS[0]]
        methods = sorted(known, key=lambda one: one != self._method) if self._settings.has_secret else ["none"]
        for method in methods:
            reply = self._exchanged(url, code, verifier, method)
            if reply.status != 401:
                self._method = method
                break
        token = self._said(reply)
        if not reply.is_success or not isinstance(token.get("id_token"), str):
            raise _refused(f"{self.name} gave no ID token ({_short(token.get('error', reply.status))})")
        return token

    def _exchanged(self, url: str, code: str, verifier: str, method: str) -> Reply:
        body = prepare_token_request(
            "authorization_code", "", redirect_uri=self._redirect_uri, code=code, code_verifier=verifier
        )
        client, secret = self._settings.client_id, self._settings.secret()
        if method == "client_secret_basic":  # RFC 6749, 2.3.1: both are encoded as in a form before they are joined
            client, secret = quote_plus(client), quote_plus(secret)
        _, headers, body = ClientAuth(client, secret, method).prepare("POST", url, dict(DEFAULT_HEADERS), body)
        return self._asked(url, body.encode(), headers)

    def _claims(self, token: Mapping[str, Any], nonce: str) -> dict[str, Any]:
        """Return what the ID token says, once all of it holds. Raises as finish()."""
        settings = self._settings
        only = {"essential": True, "value": settings.issuer}
        wanted = {"iss": only, "aud": {"essential": True, "value": settings.client_id}}
        params = {"nonce": nonce, "client_id": settings.client_id, "access_token": token.get("access_token")}
        try:
            signed = self._signed(token["id_token"])
            claims = CodeIDToken(signed.claims, signed.header, wanted, params)
            claims.validate(now=int(self._now()), leeway=_SKEW_SECONDS)
        except (JoseError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise _refused(f"the ID token of {self.name} is not valid here ({_fault(error)})") from error
        if not isinstance(claims["sub"], str) or not claims["sub"]:
            raise _refused(f"the ID token of {self.name} names nobody")
        return dict(claims)

    def _signed(self, token: str) -> jwt.Token:
        """Return a token whose signature is right; where our keys do not fit it, with those of now."""
        try:
            return jwt.decode(token, self._keys, algorithms=_ALGORITHMS)
        except (JoseError, ValueError):
            with self._lock:
                if 0 <= self._now() - self._read_at < _HURRIED_SECONDS:
                    raise
                self._read()
            return jwt.decode(token, self._keys, algorithms=_ALGORITHMS)

    def _userinfo(self, token: Mapping[str, Any], subject: str) -> dict[str, Any]:
        """Return what the provider says of somebody beside the ID token: some tell groups there alone."""
        headers = {"Authorization": f"Bearer {token.get('access_token', '')}", "Accept": "application/json"}
        reply = self._asked(self._endpoint("userinfo_endpoint"), None, headers)
        said = self._said(reply) if reply.is_success else {}
        return said if said.get("sub") == subject else {}  # OpenID Connect Core 1.0, 5.3.2: another's is not used

    def _person(self, claims: Mapping[str, Any]) -> Person:
        settings = self._settings
        told = _claim(claims, settings.groups_claim)
        if settings.groups_claim == "email" and claims.get("email_verified") is False:
            told = []
        several = [told] if isinstance(told, str) else told if isinstance(told, list) else None
        groups = None if several is None else tuple(one for one in several[:_GROUPS_MOST] if isinstance(one, str))
        user = _claim(claims, settings.user_claim)
        name = claims.get("name") or user or claims["sub"]
        whole = f"{settings.issuer}\0{claims['sub']}".encode()
        return Person(
            PERSON + hashlib.sha256(whole).hexdigest()[:16],
            _short(name),
            user if isinstance(user, str) and len(user) <= _WORD_MOST and user.isprintable() else "",
            groups,
        )

    def _json(self, url: str) -> dict[str, Any]:
        reply = self._asked(url, None, {"Accept": "application/json"})
        if not reply.is_success:
            raise _away(f"{urlsplit(url).path} answers {reply.status}")
        return self._said(reply)

    def _said(self, reply: Reply) -> dict[str, Any]:
        try:
            said = json_said(reply.body, most_bytes=_MOST_BYTES) if reply.is_whole else None
        except ValueError as error:
            raise _away("its answer is not JSON") from error
        if not isinstance(said, dict):
            raise _away("its answer is not a JSON object")
        return said

    def _asked(self, url: str, body: bytes | None, headers: Mapping[str, str]) -> Reply:
        settings = self._settings
        try:
            return ask(
                url, body, headers, timeout_seconds=_WAIT_SECONDS, most_bytes=_MOST_BYTES, authority=settings.ca,
                proxy=settings.proxy if url.startswith("https://") else "",
            )  # fmt: skip
        except (OSError, ValueError) as error:
            raise _away(why(error) if isinstance(error, OSError) else str(error)) from error


def _claim(claims: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 - whatever a provider says
    """Return a claim by its name, or by a path with dots, such as realm_access.roles; None where there is none."""
    found: Any = claims.get(name)
    if found is None and "." in name:
        found = claims
        for part in name.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _short(word: object) -> str:
    """Return a foreign word as it may be shown: bounded, in one line."""
    return "".join(each for each in str(word) if each.isprintable())[:_WORD_MOST]


def _fault(error: Exception) -> str:
    """Return which check failed, without what was checked: an error's own words may hold a part of the token."""
    return _short(getattr(error, "claim", None) or getattr(error, "error", None) or type(error).__name__)


def _refused(message: str) -> AccessError:
    return AccessError(403, "sign_in", message)


def _away(message: str) -> AccessError:
    return AccessError(503, "provider", f"the provider of sign-in cannot be asked: {message}")
