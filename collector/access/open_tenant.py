"""Make the tenant of a collector whose lake others seal into too."""

import socket
from typing import TYPE_CHECKING

from collector.access.open_access import registry_of
from collector.config import CollectorConfig
from collector.errors import ConfigError
from collector.store.there import SHARED
from collector.tenancy.tenant import Tenant

if TYPE_CHECKING:
    from collector.store.database import Store


def tenant_of(config: CollectorConfig, store: "Store") -> Tenant | None:
    """Return the tenant; None where the lake is this collector's alone.

    Raises:
        ConfigError: the others would not know how agents reach this one.
        RegistryError: the registry does not answer, or another collector runs under this name.
    """
    if not config.lake.startswith(SHARED):
        return None
    if not config.direct_url:
        raise ConfigError("collector.direct_url is missing: where do agents reach this one of several?")
    return _tenant(config, store, config.name or socket.gethostname(), config.direct_url)


def analyst_of(config: CollectorConfig, store: "Store") -> Tenant | None:
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


def _tenant(config: CollectorConfig, store: "Store", name: str, url: str) -> Tenant:
    host = socket.gethostname()
    where = store.path.resolve() if store.path is not None else "memory"
    return Tenant(registry_of(config, store.path), name, url, f"{host}:{where}")
