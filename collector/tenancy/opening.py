"""Make the tenant of a collector whose lake others seal into too."""

import socket
from typing import TYPE_CHECKING

from collector.access.opening import registry_of
from collector.errors import ConfigError
from collector.tenancy.tenant import Tenant

if TYPE_CHECKING:
    from collector.config import CollectorConfig
    from collector.store.database import Store


def tenant_of(config: "CollectorConfig", store: "Store") -> Tenant | None:
    """Return the tenant; None where the lake is this collector's alone.

    Raises:
        ConfigError: the others would not know how agents reach this one.
        RegistryError: the registry does not answer, or another collector runs under this name.
    """
    if not config.lake.startswith("postgres:"):
        return None
    if not config.public_url:
        raise ConfigError("collector.public_url is missing: how do agents reach this collector of several?")
    host = socket.gethostname()
    where = store.path.resolve() if store.path is not None else "memory"
    return Tenant(registry_of(config, store.path), config.name or host, config.public_url, f"{host}:{where}")
