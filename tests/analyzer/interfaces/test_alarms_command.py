"""gpuledger admin alarms and alarms test, as an operator types them."""

import time
from pathlib import Path

import pytest

from analyzer.errors import ConfigError
from analyzer.interfaces.alarms.cli import alarms, alarms_test
from collector.errors import StoreError
from collector.registry import AlarmChange, AlarmPost, KeptAlarm, open_registry, registry_file
from collector.store.database import Store
from tests.analyzer.interfaces.alarms_receivers import Hook
from tests.analyzer.interfaces.test_alarm import an_alarm
from tests.fleet.ports import free_port

NOW = time.time_ns() // 1000


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a new store."""
    path = tmp_path / "gpuledger.duckdb"
    Store.open(path).close()
    return path


def settings(store: Path, text: str) -> None:
    """Write the settings beside the store."""
    (store.parent / "key").write_text("sixteen characters")
    (store.parent / "gpuledger.toml").write_text(f"[alarms]\n{text}\n")


def test_without_receivers_it_says_how_to_name_one(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A test that passes because nobody is told would be believed."""
    assert alarms(["--store", str(store)]) == 0
    assert "receivers: none; name one in [alarms]" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="names neither alertmanager nor webhook"):
        alarms_test(["--store", str(store)])


def test_it_lists_what_lasts_what_is_held_back_and_what_is_not_taken(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And fails, so that a cron job notices."""
    from analyzer.interfaces.alarms.hook import spelled

    said, held = (KeptAlarm(f"f-{n}", NOW, "a", False, None, None, spelled(an_alarm(n, "a", False))) for n in (1, 2))
    failed = AlarmPost("f-1.1.opened", "queued", NOW, 1, NOW, None, "hook.example answers 503", "{}")
    file = registry_file(store)
    with open_registry(file) as registry:
        registry.alarms.change(AlarmChange([said, held], {"f-1": failed}, {}), NOW)
    assert alarms(["--store", str(store)]) == 1
    out = capsys.readouterr().out
    assert "active: 1 alarm\n  f-1" in out
    assert "held back: a team's daily limit is reached: 1 alarm\n  f-2" in out
    assert "f-1.1.opened: hook.example answers 503" in out


def test_the_test_reaches_the_webhook_and_says_who_does_not_answer(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An address that was mistyped is found on the day it is typed."""
    with Hook() as hook:
        settings(
            store,
            f'webhook = "{hook.url}"\nwebhook_key_file = "key"\nalertmanager = "http://127.0.0.1:{free_port()}"',
        )
        assert alarms_test(["--store", str(store)]) == 1
        (event,) = hook.events()
    out = capsys.readouterr().out
    assert (event["event"], event["alarm"]["sentence"]) == ("test", "This is a test; no action is needed.")
    assert "the webhook: accepted" in out
    assert "Alertmanager: 127.0.0.1" in out


def test_a_store_that_is_not_there_is_named(tmp_path: Path) -> None:
    """Instead of a registry that a look has made."""
    with pytest.raises(StoreError, match="there is no store"):
        alarms(["--store", str(tmp_path / "none.duckdb")])
    assert list(tmp_path.iterdir()) == []
