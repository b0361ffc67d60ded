"""Ask the agent of this host for its page of metrics."""

import base64
import ssl
from http import HTTPStatus
from pathlib import Path

from agent.connection import ask, trusting
from agent.errors import ConfigError, SourceError
from agent.settings.config import AgentConfig

_PAGE_BYTES_MAX = 8 * 2**20
_SECONDS = 5.0
# Who listens on all addresses is asked on loopback.
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  nothing is bound here
_AGENT_AWAY = "is it running? gpuledger agent --once reads this host without one"


def page(config: AgentConfig) -> str:
    """Return the agent's page, asked for at the address where its settings let it listen.

    Raises:
        ConfigError: it listens nowhere that can be known.
        SourceError: it does not answer, or refuses; the sentence says what to do.
    """
    if config.address is None or config.address[1] == 0:
        raise ConfigError(f"agent.listen is {config.listen}: the agent has no page of metrics that could be read here")
    host, port = _ANYWHERE.get(config.address[0], config.address[0]), config.address[1]
    where = f"the agent at {host}:{port}"
    name = f"[{host}]" if ":" in host else host
    url = f"{'https' if config.tls_certificate else 'http'}://{name}:{port}/metrics"
    headers = {"Accept": "text/plain", **_authorization(config)}
    try:
        tls = _tls(config.tls_certificate)
        reply = ask(url, headers=headers, timeout_seconds=_SECONDS, most_bytes=_PAGE_BYTES_MAX, tls=tls)
    except OSError as error:
        raise SourceError(f"{where} cannot be reached ({error or type(error).__name__}): {_AGENT_AWAY}") from error
    if reply.status != HTTPStatus.OK:
        raise SourceError(f"{where} answers {reply.status}; --config names the settings with its secret")
    if not reply.is_whole:
        raise SourceError(f"the page of {where} is larger than {_PAGE_BYTES_MAX} bytes")
    return reply.body.decode("utf-8", "replace")


def _tls(certificate: Path | None) -> ssl.SSLContext | None:
    """Return a context that trusts the agent's own certificate, whatever name it bears: we ask on loopback."""
    if certificate is None:
        return None
    context = trusting(certificate)
    context.check_hostname = False
    return context


def _authorization(config: AgentConfig) -> dict[str, str]:
    if config.scrape_token:
        return {"Authorization": f"Bearer {config.scrape_token}"}
    if config.scrape_user:
        pair = base64.b64encode(f"{config.scrape_user}:{config.scrape_password}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}
    return {}
