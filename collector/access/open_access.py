"""What stands before a server, as its settings say it, and the site's registry."""

import logging
import os
import shlex
from pathlib import Path

from collector.access.access import Access
from collector.access.gate import is_loopback
from collector.config import CollectorConfig, load
from collector.errors import ConfigError
from collector.registry import Bounds, Registry, open_registry, registry_file
from collector.store.there import SHARED

_LOG = logging.getLogger(__name__)


def registry_of(config: CollectorConfig, store: Path | None) -> Registry:
    """Open the registry of a site: in the database of a fleet's lake, else beside the store's file, else in memory.

    Raises:
        RegistryError: it cannot be opened.
    """
    where = config.lake if config.lake.startswith(SHARED) else registry_file(store)
    return open_registry(where, Bounds(config.capacity_requests, config.capacity_days))


def require_way_in(access: Access, config: CollectorConfig, settings: Path | None = None) -> None:
    """See that anybody can come in to a server; `settings` is the file that it was started with.

    Raises:
        ConfigError: it listens beyond loopback, and there never was a key or token.
    """
    if access.is_shut:
        own = [f"--config {shlex.quote(str(settings))}"] if settings is not None else []
        if settings is None or load(settings, os.environ).store != config.store:
            own.append(f"--store {shlex.quote(str(config.store))}")
        raise ConfigError(
            f"nobody could come in: {config.listen} is beyond loopback, and there is no key or token yet. Make the "
            f"first key, then start again: gpuledger admin access add --role admin --name me {' '.join(own)}"
        )


def access_of(config: CollectorConfig, store: Path | None) -> Access:
    """Open the registry of a site and return what stands before its server; `stop` closes it.

    Raises:
        RegistryError: it cannot be opened.
    """
    host, _ = config.address
    if not is_loopback(host) and not config.tls_certificate:
        _LOG.warning(
            "keys and names go to and from %s as plain text; set tls_certificate, or let a proxy end TLS before it",
            config.listen,
        )
    return Access(registry_of(config, store), config.tokens, is_loopback=is_loopback(host))
