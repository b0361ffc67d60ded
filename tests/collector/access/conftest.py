"""A collector that asks, and whoever may come."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from collector.access.secret import digest, new_secret
from collector.config import CollectorConfig
from collector.registry import AccessKey, Registry, open_registry
from tests.collector.access.serving import Site, site

TOKEN = "a-token-of-the-settings"


@pytest.fixture
def config(tmp_path: Path) -> CollectorConfig:
    """Settings of a collector of this test's own, which commits at once."""
    return CollectorConfig(store=tmp_path / "store.duckdb", lake="none", gather_seconds=0)


@pytest.fixture
def collector(config: CollectorConfig) -> Iterator[Site]:
    """A collector on loopback without any token."""
    with site(config) as serving:
        yield serving


@pytest.fixture
def guarded(config: CollectorConfig) -> Iterator[Site]:
    """A collector whose settings have a token."""
    with site(replace(config, store=config.store.with_name("guarded.duckdb"), tokens=(TOKEN,))) as serving:
        yield serving


def now() -> int:
    """Return microseconds UTC."""
    return time.time_ns() // 1000


def add_key(registry: Registry, role: str, **more: object) -> str:
    """Make a key as `gpuledger admin access add` does, and return its text."""
    new = new_secret(role)
    registry.keys.add(AccessKey(new.id, role, "", digest(new.secret), now(), "test", **more))  # type: ignore[arg-type]
    return new.text


def bearer(key: str) -> dict[str, str]:
    """Return the header that shows a key."""
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture
def registry() -> Iterator[Registry]:
    """A registry in memory."""
    with open_registry(None) as opened:
        yield opened
