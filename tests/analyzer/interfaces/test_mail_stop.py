"""The link that stops a mail works with one click and no login; scanners that follow it change nothing."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from analyzer.interfaces.mail.editions import known_subscription, stop_token, subscription_id
from analyzer.settings.settings import Settings
from collector.config import CollectorConfig
from collector.registry import Registry, Subscription, open_registry, registry_file
from collector.store.database import Store
from dashboards.server.app import ServerConfig, create_server
from tests.dashboards.serving import served as running

NOW = 1_795_000_000_000_000
LIST, ADDRESS = "fleet", "gpu-owners@example.com"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Where the server's store is."""
    return tmp_path / "store.duckdb"


@pytest.fixture
def client(store: Path) -> Iterator[httpx.Client]:
    """A browser, or a mailer's server: it has no key, and the site asks for one."""
    collector = CollectorConfig(store=store, lake="none", tokens=("a token of sixteen characters",))
    with Store.open(store) as opened:
        app = create_server(ServerConfig(collector, Settings(), None, collects=False), opened)
        with running(app) as one:
            yield one


@pytest.fixture
def registry(store: Path, client: httpx.Client) -> Iterator[Registry]:
    """The registry, as a command beside the running server opens it."""
    del client
    with open_registry(registry_file(store)) as registry:
        yield registry


@pytest.fixture
def token(registry: Registry) -> str:
    """The token of a reader's mail; another reader gets one too."""
    for address in (ADDRESS, "other@example.com"):
        registry.mails.subscribe(Subscription(subscription_id(LIST, address), LIST, address, NOW))
    return stop_token(registry.mails.key(), LIST, ADDRESS)


def stopped(registry: Registry) -> list[str]:
    """Return the addresses that have stopped it."""
    return [one.address for one in registry.mails.subscriptions() if one.stopped_at is not None]


def test_following_the_link_changes_nothing(client: httpx.Client, registry: Registry, token: str) -> None:
    """Mail scanners open every link of a mail, several times."""
    for _ in range(3):
        answer = client.get(f"/mail/stop/{token}")
        assert answer.status_code == 200
        assert '<form method="post">' in answer.text
        assert ADDRESS not in answer.text
    client.head(f"/mail/stop/{token}")
    assert stopped(registry) == []


def test_one_click_stops_it(client: httpx.Client, registry: Registry, token: str) -> None:
    """As RFC 8058 has a mailer's server do it: a POST, no cookie, no key, no question."""
    answer = client.post(f"/mail/stop/{token}", data={"List-Unsubscribe": "One-Click"})
    assert answer.status_code == 200
    assert stopped(registry) == [ADDRESS]
    assert client.post(f"/mail/stop/{token}").status_code == 200  # twice is as once
    assert "is stopped" in client.get(f"/mail/stop/{token}").text
    assert [entry.action for entry in registry.audit.since(0)] == ["stop mail"]


def test_the_form_of_the_page_stops_it(client: httpx.Client, registry: Registry, token: str) -> None:
    """The button of the page does what the mailer's does; its policy lets the form come to us and nowhere else."""
    page = client.get(f"/mail/stop/{token}")
    assert "form-action 'self'" in page.headers["content-security-policy"]
    (name, value) = re.findall(r'name="([^"]+)" value="([^"]+)"', page.text)[-1]
    assert client.post(f"/mail/stop/{token}", data={name: value}, headers={"Origin": "null"}).status_code == 200
    assert stopped(registry) == [ADDRESS]


def test_a_token_that_was_changed_stops_nothing(client: httpx.Client, registry: Registry, token: str) -> None:
    """It is bound to one address of one list, and says no more to who guesses."""
    found_id, mac = token.split(".")
    other = subscription_id(LIST, "other@example.com")
    forged = [
        f"{other}.{mac}",
        f"{found_id}.{'0' * 64}",
        f"{found_id}.",
        found_id,
        f"{found_id}.{mac[:-1]}",
        stop_token(registry.mails.key(), "team:x", ADDRESS),
        stop_token(b"\0" * 32, LIST, ADDRESS),
        "x" * 5000,
        "%C3%A9.%C3%A9",
    ]
    answers = [client.request(method, f"/mail/stop/{each}") for each in forged for method in ("GET", "POST")]
    assert {answer.status_code for answer in answers} == {404}
    assert stopped(registry) == []


def test_before_any_mail_no_token_fits(registry: Registry) -> None:
    """A site that never mailed has no secret, and the stand-in for it opens nothing."""
    assert registry.mails.known_key() is None
    assert known_subscription(registry.mails, stop_token(b"\0" * 32, LIST, ADDRESS)) is None
