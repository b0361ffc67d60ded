"""The links that go out in alarms and mails, followed to the server that they name."""

import html
import re
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

from analyzer.interfaces.alarms.alarm import present
from analyzer.interfaces.alarms.settings import AlarmSettings
from analyzer.interfaces.mail.compose import compose
from analyzer.interfaces.mail.content import Footer, mail_html
from analyzer.reports.reader import Reader
from collector.config import CollectorConfig
from collector.store.database import Store
from dashboards.server.app import ServerConfig, create_server
from tests.analyzer.reports import example_week
from tests.analyzer.reports.test_reading import BERLIN, EXAMPLE
from tests.dashboards.serving import served

SITE = replace(BERLIN, site_url="https://gpu.example")
NOTICED = replace(EXAMPLE, findings=lambda *_: [replace(one, still_open=True) for one in example_week.findings()])


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    """Yield a store that holds the example week."""
    with example_week.example_store() as made:
        yield made


@pytest.fixture(scope="module")
def client(store: Store) -> Iterator[httpx.Client]:
    """Serve it."""
    config = ServerConfig(CollectorConfig(listen="127.0.0.1:0"), SITE, analyze_seconds=None)
    with served(create_server(config, store, NOTICED)) as running:
        yield running


def opened(client: httpx.Client, links: set[str]) -> None:
    """Open each link; fail where it leads elsewhere, or there is no page or no such place on it."""
    for link in sorted(links):
        assert link.startswith(SITE.site_url), link
        answer = client.get(link.removeprefix(SITE.site_url) or "/", headers={"Accept": "text/html"})
        assert answer.status_code == 200, link
        _, _, place = link.partition("#")
        assert not place or f'id="{place}"' in answer.text, link


def test_every_link_of_an_alarm_opens(store: Store, client: httpx.Client) -> None:
    """It goes to a chat, where nobody can mend it."""
    with store.session() as session:
        alarms = present(Reader(session, SITE, NOTICED), AlarmSettings(least=0))
    assert len(alarms) > 2
    opened(client, {alarm.link or "" for alarm in alarms})


def test_every_link_of_a_mail_opens(store: Store, client: httpx.Client) -> None:
    """Of the fleet's week: its figures' page and each action's finding."""
    with store.session() as session:
        reader = Reader(session, SITE, NOTICED)
        week = reader.week(reader.period(None))
    text = mail_html(compose(week, site_url=SITE.site_url), Footer("Once a week.", None, None), None)
    links = {html.unescape(link) for link in re.findall(r'href="(https?:[^"]+)"', text)}
    assert len(links) > 2
    opened(client, links)
