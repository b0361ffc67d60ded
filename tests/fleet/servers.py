"""A PostgreSQL and an S3 server for all tests, each started once a worker when a test first asks; a plugin."""

from collections.abc import Iterator

import pytest

from tests.fleet.postgres import Postgres
from tests.fleet.s3 import S3Server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL whose databases are a test's own."""
    with Postgres() as server:
        yield server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """An S3 server whose prefixes are a test's own."""
    with S3Server() as server:
        yield server
