"""Where the backups of a store lie when nobody says otherwise."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collector.config import CollectorConfig

_SUFFIX = ".backups"  # of the folder beside the store


def place_of(config: "CollectorConfig", store: Path) -> Path:
    """Return the folder of the settings, or the one beside a store."""
    return Path(config.backups) if config.backups else store.with_name(store.name + _SUFFIX)
