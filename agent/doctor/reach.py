"""Whether what is measured can be kept and delivered: the spool's directory, and the collector."""

import http.client
import os
from urllib.parse import urlsplit

from agent.config import AgentConfig
from agent.connection import connection, trusting
from agent.doctor.finding import Line

TIMEOUT_SECONDS = 5.0
HEALTH = "/healthz"


def spool_line(config: AgentConfig) -> list[Line]:
    """Return whether this user can keep batches where the settings say; nothing where it can."""
    if not config.collector:
        return []
    place = config.spool if config.spool.exists() else config.spool.parent
    if os.access(place, os.W_OK | os.X_OK):
        return []
    return [Line("bad", f"{place} cannot be written by this user", "give it to the agent's user, or set spool")]


def collector_line(config: AgentConfig) -> list[Line]:
    """Return whether the collector answers. Nothing is sent to it but the question, without the token."""
    if not config.collector:
        return [Line("some", "no collector is set: only /metrics is served", 'set collector = "https://host:8470"')]
    try:
        status = _ask(config)
    except (OSError, http.client.HTTPException, ValueError) as error:
        host = urlsplit(config.collector).hostname
        what = f"the collector at {config.collector} does not answer ({error})"
        return [Line("bad", what, f"see whether {host} can be reached from here, and its certificate")]
    if status != http.client.OK:
        return [Line("bad", f"{config.collector}{HEALTH} answers {status}", "see the collector's log")]
    untried = "; whether it takes the token, the agent's log says" if config.token else ""
    return [Line("yes", f"the collector answers at {config.collector}{untried}")]


def _ask(config: AgentConfig) -> int:
    parts = urlsplit(config.collector)
    tls = trusting(config.ca_file) if parts.scheme == "https" else None
    asked = connection(parts.hostname or "", parts.port, TIMEOUT_SECONDS, tls)
    try:
        asked.request("GET", parts.path.rstrip("/") + HEALTH)
        return asked.getresponse().status
    finally:
        asked.close()
