"""Whether what is measured can be kept and delivered: the spool's directory, and the collector."""

import os
from http import HTTPStatus
from urllib.parse import urlsplit

from agent.connection import ask
from agent.doctor.finding import HostCheckLine
from agent.settings.config import AgentConfig

_TIMEOUT_SECONDS = 5.0
_HEALTH = "/healthz"
_ANSWER_BYTES = 64 * 2**10


def spool_line(config: AgentConfig) -> list[HostCheckLine]:
    """Return whether this user can keep batches where the settings say; nothing where it can."""
    if not config.collector:
        return []
    place = config.spool if config.spool.exists() else config.spool.parent
    if os.access(place, os.W_OK | os.X_OK):
        return []
    return [
        HostCheckLine("bad", f"{place} cannot be written by this user", "give it to the agent's user, or set spool")
    ]


def collector_line(config: AgentConfig) -> list[HostCheckLine]:
    """Return whether the collector answers. Nothing is sent to it but the question, without the token."""
    if not config.collector:
        return [
            HostCheckLine("some", "no collector is set: only /metrics is served", 'set collector = "https://host:8470"')
        ]
    try:
        url = config.collector.rstrip("/") + _HEALTH
        status = ask(url, timeout_seconds=_TIMEOUT_SECONDS, most_bytes=_ANSWER_BYTES, authority=config.ca_file).status
    except (OSError, ValueError) as error:
        host = urlsplit(config.collector).hostname
        what = f"the collector at {config.collector} does not answer ({error})"
        return [HostCheckLine("bad", what, f"see whether {host} can be reached from here, and its certificate")]
    if status != HTTPStatus.OK:
        return [HostCheckLine("bad", f"{config.collector}{_HEALTH} answers {status}", "see the collector's log")]
    untried = "; whether it takes the token, the agent's log says" if config.token else ""
    return [HostCheckLine("yes", f"the collector answers at {config.collector}{untried}")]
