"""Whose profiles are believed: a list of public keys, each with a name and what its holder may say of himself."""

from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from analyzer.capacity.profile.facts import MeasuredBy
from analyzer.capacity.profile.signature import PUBLIC_BYTES, exact_bytes, key_id
from analyzer.errors import ConfigError
from analyzer.settings.toml_entry import TomlEntry, read_toml

_KEYS = ("name", "public_key", "by")


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A key that is believed. A key of `run` cannot speak for a collector, whatever its file says."""

    name: str
    public_key: str  # base64, as `gpuledger profile key` prints it
    by: MeasuredBy

    @property
    def key_id(self) -> str:
        """What people compare it by."""
        return key_id(self.public_key)


def read_trusted(path: Path) -> tuple[TrustedKey, ...]:
    """Return the [[key]] entries of a TOML file.

    Raises:
        ConfigError: the file cannot be read, an entry is wrong, or two are of one key.
    """
    return trusted_of(read_toml(path, ("key",)))


def trusted_of(content: TomlEntry) -> tuple[TrustedKey, ...]:
    """Return the [[key]] entries of a file or of a part of one: a policy may hold them.

    Raises:
        ConfigError: an entry is wrong, or two are of one key.
    """
    keys = tuple(_key(entry) for entry in content.entries("key", _KEYS))
    if len({key.public_key for key in keys}) < len(keys):
        raise ConfigError(f"{content.where}: one key is listed twice; leave one of its entries")
    return keys


def _key(entry: TomlEntry) -> TrustedKey:
    public_key, by = entry.text("public_key"), entry.text_or_none("by") or "collector"
    if exact_bytes(public_key, PUBLIC_BYTES) is None:
        raise ConfigError(f"{entry.where}: 'public_key' is no Ed25519 key as gpuledger profile key prints it")
    if by not in get_args(MeasuredBy):
        raise ConfigError(f"{entry.where}: 'by' is {by!r} and must be one of {', '.join(get_args(MeasuredBy))}")
    return TrustedKey(entry.text("name"), public_key, "run" if by == "run" else "collector")
