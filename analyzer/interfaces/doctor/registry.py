"""A site's keys and mails, where their registry can be read from here without changing it."""

from typing import TYPE_CHECKING

from collector.errors import RegistryError
from collector.registry import AccessKey, Send, open_registry
from collector.registry.registry import registry_file

if TYPE_CHECKING:
    from collector.config import CollectorConfig


def read_beside(
    config: "CollectorConfig",
) -> tuple[tuple[AccessKey, ...] | None, tuple[Send, ...] | None, str | None]:
    """Return keys and mails of the registry beside a store, None where not known, and why it cannot be read."""
    file = registry_file(config.store)
    if file is None or not file.exists():
        return None, None, None
    try:
        with open_registry(file) as registry:
            return tuple(registry.keys.listed()), tuple(registry.mails.sends()), None
    except RegistryError as error:
        return None, None, str(error)
