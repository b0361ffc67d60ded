"""The keys of a site, where their registry can be read from here without changing it."""

from typing import TYPE_CHECKING

from collector.errors import RegistryError
from collector.registry import Key, open_registry
from collector.registry.registry import beside

if TYPE_CHECKING:
    from collector.config import CollectorConfig


def keys_beside(config: "CollectorConfig") -> tuple[Key, ...] | None:
    """Return the keys of the registry beside a store; None where there is none, or where it does not answer."""
    file = beside(config.store)
    if file is None or not file.exists():
        return None
    try:
        with open_registry(file) as registry:
            return tuple(registry.keys.listed())
    except RegistryError:
        return None
