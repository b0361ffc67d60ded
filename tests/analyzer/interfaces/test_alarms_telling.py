"""Alarms of the example week, told to real receivers: once, signed, in order, and again when it is over."""

import hashlib
import hmac
import json
import logging
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analyzer.findings.health.all_notices import PeriodNotices
from analyzer.findings.health.notice import Notice
from analyzer.interfaces.alarms.alarm import present
from analyzer.interfaces.alarms.hook import LASTS_US, AlarmReporter
from analyzer.interfaces.alarms.settings import AlarmSettings
from analyzer.period import Period
from analyzer.reports.reader import Reader
from collector.registry import Registry, open_registry
from collector.store.database import Store
from tests.analyzer.interfaces.alarms_receivers import Hook, alertmanager
from tests.analyzer.reports import example_week
from tests.analyzer.reports.test_reading import BERLIN, EXAMPLE
from tests.fleet.ports import free_port
from tests.waiting import PATIENCE_SECONDS, until

SECRET = b"a secret of the test's own"
MINUTE, DAY = 60_000_000, 86_400_000_000
NOW = example_week.W46.end + DAY
LINKED = replace(BERLIN, site_url="https://gpu.example")


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    """Yield a store that holds the example week."""
    with example_week.example_store() as made:
        yield made


@pytest.fixture
def registry() -> Iterator[Registry]:
    """Yield a registry in memory."""
    with open_registry(None) as opened:
        yield opened


@pytest.fixture
def hook() -> Iterator[Hook]:
    """Yield a webhook."""
    with Hook() as running:
        yield running


class Site:
    """A ledger whose findings the test chooses, and who tells of them."""

    def __init__(self, store: Store, registry: Registry, settings: AlarmSettings) -> None:
        self.found = [replace(one, still_open=True) for one in example_week.findings()]
        loss_source = replace(EXAMPLE, findings=lambda *_: self.found, recommendations=lambda *_: [])
        self.tell = AlarmReporter(settings, registry.alarms, lambda: Reader(store.session(), LINKED, loss_source))
        self.now = NOW

    def turn(self, later: int = 5 * MINUTE) -> Any:
        """Look once, a while after the last time."""
        self.now += later
        return self.tell(self.now)


@pytest.fixture
def site(store: Store, registry: Registry, hook: Hook, tmp_path: Path) -> Site:
    """Return a site with a webhook."""
    (tmp_path / "key").write_bytes(SECRET + b"\n")
    settings = AlarmSettings(webhook=hook.url, webhook_key_file=tmp_path / "key")
    return Site(store, registry, settings)


def test_each_is_said_once_signed_and_of_a_team_three_a_day(site: Site, hook: Hook) -> None:
    """The message names who waits for what, what to do, and where to look; its signature proves who wrote it."""
    first = site.turn()
    assert first.failing is None
    assert len(hook.got) == first.said > 0
    by_team: dict[str, int] = {}
    for headers, body in hook.got:
        parts = dict(part.split("=", 1) for part in headers["Gpuledger-Signature"].split(","))
        wanted = hmac.new(SECRET, f"{parts['t']}.".encode() + body, hashlib.sha256).hexdigest()
        assert hmac.compare_digest(parts["v1"], wanted)
        said = json.loads(body)
        assert (said["schema"], said["event"], said["cluster"]) == ("gpuledger/alarm", "opened", BERLIN.cluster)
        assert said["alarm"]["link"] == f"https://gpu.example/findings/{said['alarm']['id']}"
        if not said["alarm"]["urgent"]:
            by_team[said["alarm"]["team"]] = by_team.get(said["alarm"]["team"], 0) + 1
    assert max(by_team.values()) <= 3
    assert site.turn().said == 0
    assert len(hook.got) == first.said


def test_what_one_day_held_back_is_said_on_the_next_if_it_is_still_there(site: Site, hook: Hook) -> None:
    """A limit that forgets would hide the fourth worst loss for good."""
    one = max(site.found, key=lambda each: each.at_stake_micros or 0)
    site.found = [replace(one, id=f"f-{number}", confidence="high", team="team-a") for number in range(5)]
    assert [site.turn().said, site.turn().said] == [3, 0]
    assert site.turn(DAY).said == 2
    assert len({event["alarm"]["id"] for event in hook.events()}) == 5


def test_what_is_over_is_said_to_be_over(site: Site, hook: Hook) -> None:
    """A ticket that nobody closes is a second alarm."""
    opened = site.turn().said
    site.found = []
    assert site.turn().ended == opened
    events = hook.events()
    assert [event["event"] for event in events[opened:]] == ["ended"] * opened
    assert {event["alarm"]["id"] for event in events[opened:]} == {event["alarm"]["id"] for event in events[:opened]}
    assert len({event["event_id"] for event in events}) == 2 * opened


def test_what_was_held_back_and_went_away_is_never_spoken_of(site: Site, hook: Hook) -> None:
    """An end without a beginning is noise."""
    one = max(site.found, key=lambda each: each.at_stake_micros or 0)
    site.found = [replace(one, id=f"f-{number}", confidence="high", team="team-a") for number in range(5)]
    site.turn()
    site.found = []
    assert site.turn().ended == 3
    assert len(hook.got) == 6


def test_a_receiver_that_was_away_gets_all_of_it_later_in_order(
    site: Site, hook: Hook, caplog: pytest.LogCaptureFixture
) -> None:
    """It is tried again with growing waits, and the log says so once."""
    hook.answers = 503
    with caplog.at_level(logging.WARNING, "analyzer.interfaces.alarms.hook"):
        first = site.turn()
        assert "answers 503: words" in (first.failing or "")
        assert site.turn(1).failing is not None or hook.got == []
    hook.answers = 200
    for _ in range(3):
        last = site.turn()
    assert last.failing is None
    assert len(hook.got) == first.said
    assert len([record for record in caplog.records if "503" in record.message]) == 1


def test_what_a_receiver_refuses_is_not_tried_again(site: Site, hook: Hook, registry: Registry) -> None:
    """A 400 stays one; the others go on."""
    hook.answers = 400
    said = site.turn().said
    assert len(registry.alarms.posts(("failed",), 100)) == said
    hook.answers = 200
    site.turn()
    assert hook.got == []


def test_no_redirect_is_followed(site: Site, hook: Hook, registry: Registry) -> None:
    """Whoever may write a Location header must not read what we say."""
    with Hook() as elsewhere:
        hook.answers, hook.location = 307, elsewhere.url
        site.turn()
        assert elsewhere.got == []
    assert all("answers 307" in post.told for post in registry.alarms.posts(("failed",), 100))


def test_a_secret_that_is_gone_is_said_and_loses_nothing(site: Site, hook: Hook, tmp_path: Path) -> None:
    """Unsigned is never sent."""
    (tmp_path / "key").unlink()
    assert "webhook_key_file" in (site.turn().failing or "")
    assert hook.got == []
    (tmp_path / "key").write_bytes(SECRET)
    assert site.turn().failing is None
    assert hook.got


def test_alertmanager_gets_what_lasts_and_hears_when_it_is_over(
    store: Store, registry: Registry, hook: Hook, tmp_path: Path
) -> None:
    """A real one: it hands them on once, with what to do and where to look, and says that they are resolved."""
    with alertmanager(tmp_path, hook.url) as url:
        site = Site(store, registry, AlarmSettings(alertmanager=f"{url}/"))
        site.now = time.time_ns() // 1000
        done = site.turn(0)
        assert done.failing is None
        shown = _get(f"{url}/api/v2/alerts")
        assert len(shown) == done.said
        assert {alert["labels"]["finding"] for alert in shown} <= {one.id for one in site.found}
        site.turn(1000)
        assert len(_get(f"{url}/api/v2/alerts")) == done.said  # told again, it is the same alert
        until(lambda: len(_alerts(hook, "firing")) >= done.said, "Alertmanager hands on what fires")
        one = _alerts(hook, "firing")[0]
        assert one["annotations"]["link"] == one["generatorURL"]
        assert one["annotations"]["summary"]
        site.found = []
        assert site.turn(2000).failing is None
        until(lambda: len(_alerts(hook, "resolved")) >= done.said, "Alertmanager hands on what is over")


def test_an_alertmanager_that_is_away_is_said_and_told_on_the_next_turn(store: Store, registry: Registry) -> None:
    """What lasts is told again each time, so nothing is queued for it."""
    site = Site(store, registry, AlarmSettings(alertmanager=f"http://127.0.0.1:{free_port()}"))
    done = site.turn()
    assert "Alertmanager: 127.0.0.1" in (done.failing or "")
    assert done.said > 0


def test_while_we_are_gone_alertmanager_ends_them_after_an_hour(store: Store, registry: Registry, hook: Hook) -> None:
    """An alarm must not outlive who raised it for days."""
    site = Site(store, registry, AlarmSettings(alertmanager=hook.url.partition("/hook")[0]))
    site.turn()
    assert LASTS_US == 60 * MINUTE
    (_, body), *_ = hook.got
    assert all(alert["endsAt"] > alert["startsAt"] for alert in json.loads(body))


def test_an_empty_ledger_raises_nothing(registry: Registry) -> None:
    """The first start of a site."""
    with Store.open(None) as empty:
        tell = AlarmReporter(AlarmSettings(alertmanager="http://127.0.0.1:9"), registry.alarms, _reader(empty))
        assert tell(NOW).failing is None


def _reader(store: Store) -> Callable[[], Reader]:
    return lambda: Reader(store.session(), BERLIN, EXAMPLE)


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:
        return json.load(answer)


def _alerts(hook: Hook, status: str) -> list[dict[str, Any]]:
    return [alert for event in hook.events() for alert in event["alerts"] if alert["status"] == status]


class Xids(Reader):
    """A reader to whom two GPUs of one host have told Xid 79."""

    def looked(self, period: Period) -> PeriodNotices:
        """Return their notices."""
        xids = [
            Notice(f"n-{gpu}", "fleet/ecc/xid", gpu, "fell off the bus", "platform", node="n01", gpu_uuid=gpu)
            for gpu in ("GPU-lost", "GPU-alive")
        ]
        return replace(super().looked(period), notices=tuple(xids))


def test_a_gpu_that_the_driver_lost_is_told_once() -> None:
    """Its Xid and its lost time are one event, not two for whoever is called; an Xid of a GPU that lives is another."""
    lost = replace(example_week.findings()[0], id="f-1", state="broken", cause="gpu_lost", hosts=("n01",))
    losses = replace(EXAMPLE, findings=lambda *_: [replace(lost, still_open=True)], recommendations=lambda *_: [])
    with example_week.example_store() as store:
        session = store.session()
        session.execute(
            "INSERT INTO ledger BY NAME SELECT * REPLACE ('GPU-lost' AS gpu_uuid, 'n01' AS node, 'broken' AS state, "
            "'gpu_lost' AS cause) FROM ledger ORDER BY hour DESC LIMIT 1"
        )
        told = {alarm.id: alarm for alarm in present(Xids(session, LINKED, losses), AlarmSettings())}
    assert set(told) == {"f-1", "n-GPU-alive"}
    assert told["f-1"].gpu_uuid == "GPU-lost"
    assert {alarm.severity for alarm in told.values()} == {"page"}
