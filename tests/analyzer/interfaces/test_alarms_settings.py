"""The table [alarms]: what is wrong is said with its name, and no secret stands in it."""

from pathlib import Path

import pytest

from analyzer.errors import ConfigError
from analyzer.interfaces.alarms.settings import AlarmSettings
from analyzer.settings.settings import TABLES


def read(tmp_path: Path, text: str) -> AlarmSettings:
    """Return the settings of a file."""
    file = tmp_path / "gpuledger.toml"
    file.write_text(f"[alarms]\n{text}\n")
    return AlarmSettings.read(file, TABLES)


def test_by_default_nobody_is_told() -> None:
    """A product that talks to others by itself is not installed twice."""
    assert not AlarmSettings().told


def test_they_are_read_and_paths_lie_beside_the_file(tmp_path: Path) -> None:
    """As all settings do."""
    found = read(tmp_path, 'webhook = "https://hook.example/x?y=z"\nwebhook_key_file = "key"\na_day = 5')
    assert (found.webhook, found.webhook_key_file, found.a_day) == (
        "https://hook.example/x?y=z", tmp_path / "key", 5,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('webhook = "https://hook.example/"', "webhook and webhook_key_file go together"),
        ('alertmanager = "localhost:9093"', "alertmanager is 'localhost:9093': not an address"),
        ('alertmanager = "http://a b"', "not an address"),
        ('alertmanager = "http://[::1"', "alertmanager is"),
        ("a_day = -1", "a_day"),
        ("least = 1.5", "least"),
        ('alertmanger = "http://a"', "did you mean 'alertmanager'"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, said: str) -> None:
    """One sentence, before anything starts."""
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, text)
    assert said in str(refused.value)


def test_a_short_secret_is_refused_and_never_shown(tmp_path: Path) -> None:
    """What signs with "secret" signs nothing."""
    (tmp_path / "key").write_text("hunter2")
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, 'webhook = "https://hook.example/"\nwebhook_key_file = "key"').key()
    assert "fewer than 16 characters" in str(refused.value)
    assert "hunter2" not in str(refused.value)
