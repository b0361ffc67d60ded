"""Open the store that the settings describe: the hot file, and the lake beside it or elsewhere."""

from pathlib import Path
from typing import TYPE_CHECKING

from collector.errors import ConfigError
from collector.store.database import Store
from collector.store.lake import S3, LakeSettings, default_lake
from collector.store.there import SHARED

if TYPE_CHECKING:
    from collector.config import CollectorConfig

NO_LAKE = "none"


def open_store(config: "CollectorConfig") -> Store:
    """Open the store of a server.

    Raises:
        ConfigError: the settings describe no lake.
        StoreError: the store cannot be opened, or the lake not be reached.
    """
    lake = lake_of(config)
    return Store.open(config.store, lake=lake, memory_limit=config.memory_limit, threads=config.threads)


def lake_of(config: "CollectorConfig") -> LakeSettings | None:
    """Return the lake that the settings name; None where everything stays in the one file.

    Raises:
        ConfigError: `lake` or `data` cannot be understood.
    """
    own = default_lake(config.store, Path(config.extensions) if config.extensions else None)
    s3 = S3(config.s3_endpoint, config.s3_region, config.s3_key_id, config.s3_secret)
    data = config.data or own.data
    if config.lake == NO_LAKE:
        return None
    if not config.lake:
        return LakeSettings(own.catalogue, data, s3, own.extensions)
    if not config.lake.startswith(SHARED):
        raise ConfigError(f"collector.lake is {config.lake!r}: write postgres:dbname=... host=..., none, or nothing")
    if not config.data:
        raise ConfigError(
            "collector.data is missing: several collectors need a folder or an s3:// address that all reach"
        )
    return LakeSettings(config.lake, data, s3, own.extensions)
