"""What leaves this host, said from the contract and the settings."""

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from agent.settings.config import AgentConfig
from agent.wire.contract import Table
from agent.wire.tables import TABLES

_NEVER = "command lines, environment, file names, file contents, stdout"


@dataclass(frozen=True, slots=True)
class Leaving:
    """The connection, and under each heading what goes over it; `bytes_per_hour` is None where nothing goes."""

    connection: str
    rows_seconds: float
    bytes_per_hour: float | None
    identity: tuple[str, ...]
    identity_mode: str
    listens_on: str
    never: str = _NEVER


def leaving(config: AgentConfig, bytes_per_hour: float) -> Leaving:
    """Return what leaves a host with these settings."""
    return Leaving(
        connection=connection(config),
        rows_seconds=config.beat_seconds,
        bytes_per_hour=bytes_per_hour if config.collector else None,
        identity=tuple(sorted(set(identity_columns(TABLES.values())))),
        identity_mode=config.identity,
        listens_on=listens_on(config),
    )


def connection(config: AgentConfig) -> str:
    """Return where the one connection goes, in words."""
    if not config.collector:
        return "nothing: no collector is set"
    parts = urlsplit(config.collector)
    default = 443 if parts.scheme == "https" else 80
    secure = "TLS" if parts.scheme == "https" else "not encrypted"
    return f"one connection, out only, {secure}, to {parts.hostname}:{parts.port or default}"


def identity_columns(tables: Iterable[Table]) -> list[str]:
    """Return the names of the columns that may name people or projects."""
    return [column.name for table in tables for column in table.columns if column.sensitivity == "identity"]


def listens_on(config: AgentConfig) -> str:
    """Return where the agent can be reached, in words."""
    if config.address is None:
        return "nothing"
    host, port = config.address
    guarded = ", with TLS" if config.tls_certificate else ""
    asked = ", asks for a secret" if config.scrape_token or config.scrape_user else ""
    only = " only" if host in ("127.0.0.1", "::1", "localhost") else ""
    return f"{host}:{port}{only}{guarded}{asked}"
