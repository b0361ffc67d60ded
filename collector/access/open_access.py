"""What stands before a server, as its settings say it, and the site's registry.

Its certificate is checked at the start, and read again when the process is told to (SIGHUP). A collector whose lake
others seal into too is a tenant.
"""

import logging
import os
import shlex
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from collector.access.access import Access
from collector.background import now_us
from collector.config import SHARED, CollectorConfig, is_loopback, load
from collector.errors import ConfigError
from collector.registry import Bounds, Registry, open_registry, registry_file
from collector.registry.tenant import Tenant
from collector.store.database import Store

_LOG = logging.getLogger(__name__)


def check_certificate(config: CollectorConfig) -> None:
    """Check that the certificate and the key of the settings can be used, where there are any.

    Raises:
        ConfigError: they cannot be read, or do not belong together.
    """
    if config.tls_certificate:
        try:
            _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), config)
        except OSError as error:  # ssl.SSLError is one
            raise ConfigError(
                f"collector.tls_certificate {config.tls_certificate} and collector.tls_key {config.tls_key} "
                f"cannot be used: {error.strerror or error}"
            ) from error


class ServedCertificate:
    """The certificate that handshakes show: what was loaded last, and not what lies on the disk. `pem` is its text."""

    def __init__(self, context: ssl.SSLContext, config: CollectorConfig) -> None:
        self._context = context
        self._config = config
        self._files = self._state()
        self.pem = Path(config.tls_certificate).read_text()

    def look(self) -> None:
        """Load the files where they have changed since somebody last looked."""
        if (files := self._state()) != self._files:
            self._files = files
            self.renew()

    def renew(self) -> None:
        """Let handshakes from now on show the certificate that lies there; one that cannot be used changes nothing."""
        self._files = self._state()
        try:
            pem = Path(self._config.tls_certificate).read_text()
            check_certificate(self._config)  # aside first: a context would keep a certificate without its key
            _load(self._context, self._config)
        except (ConfigError, OSError) as error:
            _LOG.error("the old certificate stays in use: %s", error)
            return
        self.pem = pem
        _LOG.warning("the certificate %s was reloaded", self._config.tls_certificate)

    def _state(self) -> list[tuple[int, int, int]]:
        """Return what tells files from what they were: who renews writes anew, renames, or turns a link."""
        found = []
        for name in (self._config.tls_certificate, self._config.tls_key):
            with suppress(OSError):
                there = Path(name).stat()
                found.append((there.st_mtime_ns, there.st_size, there.st_ino))
        return found


def _load(context: ssl.SSLContext, config: CollectorConfig) -> None:
    # Without a password of ours OpenSSL would ask for that of an encrypted key on the terminal.
    context.load_cert_chain(config.tls_certificate, config.tls_key, password="")


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
            f"nobody could log in: {config.listen} is not loopback, and there is no key or token yet. Create the "
            f"first key, then start again: gpuledger admin access add --role admin --name me {' '.join(own)}"
        )


def access_of(config: CollectorConfig, store: Path | None, now: Callable[[], int] = now_us) -> Access:
    """Open the registry of a site and return what stands before its server; `stop` closes it.

    Keys end by `now`, microseconds UTC.

    Raises:
        RegistryError: it cannot be opened.
    """
    host, _ = config.address
    if not is_loopback(host) and not config.tls_certificate:
        _LOG.warning(
            "keys and names travel to and from %s unencrypted; set tls_certificate, or put a proxy with TLS in front",
            config.listen,
        )
    return Access(registry_of(config, store), config.tokens, now, is_loopback=is_loopback(host))


def tenant_of(config: CollectorConfig, store: Store) -> Tenant | None:
    """Return the tenant; None where the lake is this collector's alone.

    Raises:
        ConfigError: the others would not know how agents reach this one.
        RegistryError: the registry does not answer, or another collector runs under this name.
    """
    if not config.lake.startswith(SHARED):
        return None
    if not config.direct_url:
        raise ConfigError(
            "collector.direct_url is missing: with several collectors, agents need the address of this one"
        )
    return _tenant(config, store, config.name or socket.gethostname(), config.direct_url)


def analyst_of(config: CollectorConfig, store: Store) -> Tenant | None:
    """Return the tenant of an analyzer that takes no batches; None where nobody else could book into its lake.

    It has a name of its own, so that it may run beside a collector of the same settings.

    Raises:
        RegistryError: the registry does not answer, or another analyzer runs under this name.
    """
    if not config.lake.startswith(SHARED):
        return None
    scheme = "https" if config.tls_certificate else "http"
    name = f"analyzer {config.name or socket.gethostname()}"
    return _tenant(config, store, name, config.direct_url or f"{scheme}://{config.listen}")


def _tenant(config: CollectorConfig, store: Store, name: str, url: str) -> Tenant:
    host = socket.gethostname()
    where = store.path.resolve() if store.path is not None else "memory"
    registry = registry_of(config, store.path)
    try:
        return Tenant(registry, name, url, f"{host}:{where}")
    except BaseException:
        registry.close()
        raise
