"""A provider of OpenID Connect that tests run: idpyoidc's, certified as one, behind Python's HTTP server.

It wants PKCE, knows its clients' exact addresses, tells its issuer with each answer, and changes its keys when told to.
Whoever comes is signed in as `user`, without a page that asks for a password.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from cryptojwt.jws.jws import JWS
from cryptojwt.key_jar import build_keyjar
from cryptojwt.utils import b64d
from idpyoidc.server import Server
from idpyoidc.server.configure import OPConfiguration

CLIENT, SECRET = "gpuledger", "a secret+with%signs/that are=encoded"
_KEYS = [{"type": "RSA", "use": ["sig"]}, {"type": "EC", "crv": "P-256", "use": ["sig"]}]
_HERE = "idpyoidc.server."
Claims = dict[str, Any]


@dataclass
class OpenIdProvider:
    """The provider, and what it says: `metadata` of discovery beside its own, `change` of an ID token's claims."""

    issuer: str
    users: dict[str, Claims]
    server: Any
    user: str = "mira"
    metadata: Claims = field(default_factory=dict)
    change: Callable[[Claims], Claims] | None = None  # of the claims of an ID token, which is then signed anew
    asked: list[str] = field(default_factory=list)
    is_away: bool = False

    def allow(self, redirect_uri: str, method: str = "client_secret_basic") -> None:
        """Register gpuledger as the client that comes back to this address, and no other."""
        client = {
            "redirect_uris": [(redirect_uri, "")],
            "token_endpoint_auth_method": method,
            "response_types_supported": ["code"],
            "allowed_scopes": ["openid", "profile", "email", "groups"],
        }
        self.server.context.cdb[CLIENT] = client | {"client_secret": SECRET}
        self.server.context.keyjar.add_symmetric(CLIENT, SECRET)

    def turn_keys(self) -> None:
        """Sign with new keys from now on, and show no others."""
        keyjar, fresh = self.server.context.keyjar, build_keyjar(_KEYS).export_jwks(private=True)
        for name in ("", self.issuer):
            keyjar.return_issuer(name).set([])
            keyjar.import_jwks(fresh, name)

    def signed(self, claims: Claims) -> str:
        """Return claims as an ID token of this provider."""
        keys = self.server.context.keyjar.get_signing_key("RSA")
        return str(JWS(json.dumps(claims), alg="RS256").sign_compact(keys))


def _conf(issuer: str, users: dict[str, Claims]) -> dict[str, Any]:
    def endpoint(path: str, name: str, **kwargs: Any) -> dict[str, Any]:
        return {"path": path, "class": f"{_HERE}oidc.{name}", "kwargs": kwargs}

    return {
        "issuer": issuer,
        "httpc_params": {"verify": False, "timeout": 2},
        "key_conf": {"key_defs": _KEYS, "uri_path": "jwks"},
        "preference": {"subject_types_supported": ["public"], "grant_types_supported": ["authorization_code"]},
        "cookie_handler": {
            "class": f"{_HERE}cookie_handler.CookieHandler",
            "kwargs": {"sign_key": "a" * 32, "name": {"session": "op"}},
        },
        "endpoint": {
            "provider_config": endpoint(
                ".well-known/openid-configuration", "provider_config.ProviderConfiguration", client_authn_method=None
            ),
            "authorization": endpoint(
                "authorize", "authorization.Authorization", client_authn_method=None, response_types_supported=["code"]
            ),
            "token": endpoint(
                "token", "token.Token", client_authn_method=["client_secret_basic", "client_secret_post", "none"]
            ),
            "userinfo": endpoint("userinfo", "userinfo.UserInfo"),
            "end_session": endpoint("signout", "session.Session"),
        },
        "token_handler_args": {
            "key_conf": {"key_defs": [{"type": "oct", "bytes": 24, "use": ["enc"], "kid": "code"}]},
            "code": {"kwargs": {"lifetime": 600}},
            "token": {"class": f"{_HERE}token.jwt_token.JWTToken", "kwargs": {"lifetime": 600}},
            "id_token": {
                "class": f"{_HERE}token.id_token.IDToken",
                "kwargs": {"lifetime": 600, "add_claims_by_scope": True},
            },
        },
        "userinfo": {"class": f"{_HERE}user_info.UserInfo", "kwargs": {"db": users}},
        "authentication": {
            "user": {"acr": "password", "class": f"{_HERE}user_authn.user.NoAuthn", "kwargs": {"user": "mira"}}
        },
        "scopes_to_claims": {
            "openid": ["sub"],
            "profile": ["name", "preferred_username"],
            "email": ["email", "email_verified"],
            "groups": ["groups", "realm_access"],
        },
        "add_ons": {
            "pkce": {
                "function": f"{_HERE}oauth2.add_on.pkce.add_support",
                "kwargs": {"essential": True, "code_challenge_methods": {"S256": None}},
            }
        },
        "session_params": {"password": "x" * 24, "salt": "y" * 16},
    }


@contextmanager
def openid_provider(users: dict[str, Claims]) -> Iterator[OpenIdProvider]:
    """Run a provider of these users on a port of its own."""
    http = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    issuer = f"http://127.0.0.1:{http.server_port}"
    provider = OpenIdProvider(issuer, users, Server(OPConfiguration(_conf(issuer, users), base_path="/nowhere")))
    http.provider = provider  # type: ignore[attr-defined]
    thread = threading.Thread(target=http.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield provider
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


class _Handler(BaseHTTPRequestHandler):
    @property
    def _provider(self) -> OpenIdProvider:
        return self.server.provider  # type: ignore[attr-defined, no-any-return]

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Say nothing."""

    def do_GET(self) -> None:
        """Answer what browsers and clients ask."""
        provider, parts = self._provider, urlsplit(self.path)
        provider.asked.append(parts.path)
        context = provider.server.context
        if provider.is_away:
            self._send(503, b"")
        elif parts.path == "/jwks":
            self._said(context.keyjar.export_jwks(issuer_id=provider.issuer) or context.keyjar.export_jwks())
        elif parts.path == "/.well-known/openid-configuration":
            self._said(dict(context.provider_info) | provider.metadata)
        elif parts.path == "/authorize":
            self._endpoint("authorization", dict(parse_qsl(parts.query)))
        elif parts.path == "/userinfo":
            self._endpoint("userinfo", {})
        else:
            self._send(404, b"")

    def do_POST(self) -> None:
        """Answer the token endpoint."""
        self._provider.asked.append(self.path)
        content = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self._endpoint("token", dict(parse_qsl(content)))

    def _endpoint(self, name: str, asked: dict[str, str]) -> None:
        provider = self._provider
        endpoint = provider.server.get_endpoint(name)
        provider.server.context.authn_broker.db["user"]["method"].user = provider.user
        told = {"headers": {key.lower(): value for key, value in self.headers.items()}, "cookie": []}
        try:
            request = endpoint.parse_request(asked, http_info=told)
            if "error" in request:
                self._said(request.to_dict(), 400)
                return
            made = endpoint.process_request(request, http_info=told)
            if "error" in made:
                self._said({"error": made["error"]}, 400)
                return
            answer = endpoint.do_response(request=request, **made)
        except Exception as error:  # noqa: BLE001 - what the library refuses by raising
            self._said({"error": "invalid_client", "error_description": str(error)}, 401)
            return
        if name == "authorization":
            self.send_response(302)
            self.send_header("Location", answer["response"])
            self.end_headers()
            return
        said = json.loads(answer["response"])
        if name == "token" and provider.change is not None:
            claims = _payload(said["id_token"])
            said["id_token"] = provider.signed(provider.change(claims))
        self._said(said)

    def _said(self, said: object, status: int = 200) -> None:
        self._send(status, json.dumps(said).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _payload(token: str) -> Claims:
    said: Claims = json.loads(b64d(token.split(".")[1].encode()))
    return said
