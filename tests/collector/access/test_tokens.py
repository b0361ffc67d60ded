"""With tokens in the settings, nobody writes or reads without one."""

import base64
from collections.abc import Iterator
from dataclasses import replace

import pytest

from collector.access.secret import presented
from collector.config import CollectorConfig
from tests.collector.access.serving import Site, site
from tests.collector.batches import body

TOKENS = ("first-token-of-this-site", "second-token-of-this-site")


@pytest.fixture
def guarded(config: CollectorConfig) -> Iterator[Site]:
    """A collector that asks for a token."""
    with site(replace(config, tokens=TOKENS)) as serving:
        yield serving


def _basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize("token", TOKENS)
def test_each_token_opens(guarded: Site, token: str) -> None:
    """Two at once, so that one can be replaced without a gap."""
    assert guarded.client.post(body(), {"Authorization": f"Bearer {token}"}).status == 200
    assert guarded.client.get("/metrics", {"Authorization": _basic(f"anyone:{token}")}).status == 200


@pytest.mark.parametrize(
    "shown", ["", "Bearer", "Bearer wrong-token-of-this-site", f"Basic {TOKENS[0]}", "Basic %%%", f"Digest {TOKENS[0]}"]
)
def test_whoever_shows_none_gets_nothing_but_the_way_in(guarded: Site, shown: str) -> None:
    """The answer says how to show one and nothing else; nothing is stored."""
    answer = guarded.client.post(body(), {"Authorization": shown})
    assert (answer.status, answer.json["reason"]) == (401, "token")
    assert answer.headers["www-authenticate"].startswith("Basic")
    assert guarded.batches() == 0
    for path in ("/metrics", "/v1/schema", "/", "/nowhere"):
        assert guarded.client.get(path, {"Authorization": shown}).status == 401


def test_health_is_open(guarded: Site) -> None:
    """A load balancer carries no token, and learns nothing but yes or no."""
    answer = guarded.client.get("/healthz")
    assert (answer.status, answer.json) == (200, {"healthy": True})


def test_a_token_may_hold_a_colon() -> None:
    """Only the first colon parts user and password."""
    assert presented(_basic("user:with:colons").encode()) == b"with:colons"
