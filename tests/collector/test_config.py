"""Settings fail loudly, in one sentence that names the key."""

from dataclasses import fields
from pathlib import Path

import pytest

from collector.config import CollectorConfig, load, settings
from collector.errors import ConfigError

TOKEN = "a-token-that-is-long-enough"


def _file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "gpuledger.toml"
    path.write_text(text)
    return path


def test_flags_go_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    """Each is nearer to whoever is typing than the one before."""
    file = _file(tmp_path, '[collector]\nstore = "file.duckdb"\nthreads = 3\nrows = 10\n')
    environment = {"GPULEDGER_COLLECTOR_THREADS": "4", "GPULEDGER_COLLECTOR_ROWS": "20", "HOME": "/nowhere"}
    config = load(file, environment, {"rows": "30", "listen": None})
    assert (config.store, config.threads, config.rows) == (Path("file.duckdb"), 4, 30)


def test_without_any_settings_the_defaults_hold() -> None:
    """A first try needs no file, and it listens to this machine alone."""
    assert load(None, {}) == CollectorConfig()
    assert CollectorConfig().address == ("127.0.0.1", 8470)


def test_every_key_has_a_default_and_a_help_text() -> None:
    """docs/settings.md lists them from here."""
    assert settings().keys() == {spec.name for spec in fields(CollectorConfig)}
    assert all(help_text for _, help_text in settings().values())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[collector]\nstor = 'x'", "collector.stor is not a setting; the nearest is store"),
        ("[collector]\nbody = 1", "collector.body is not a setting; the nearest is body_bytes"),
        ("[collector]\nthreads = 'two'", "collector.threads is 'two': not a whole number"),
        ("[collector]\nthreads = 0", "collector.threads is 0: must be at least 1"),
        ("[collector]\nthreads = true", "collector.threads is True: not a whole number"),
        ("[collector]\nthreads = 1.5", "collector.threads is 1.5: not a whole number"),
        ("[collector]\ngather_seconds = nan", "collector.gather_seconds is nan: must be at least 0"),
        ("[collector]\nstore = ''", "collector.store is '': not a text"),
        ("[collector]\ntokens = [1]", "collector.tokens is what was given: not a list of texts"),
        ("[collector]\ntokens = ['short']", "collector.tokens: a token has fewer than 16 characters; use a longer one"),
        ("[collector]\nlisten = '8470'", "collector.listen is '8470': not an address and port like 127.0.0.1:8470"),
        ("[collector]\nlisten = 'host:99999'", "collector.listen is 'host:99999': not an address and port"),
        ("[colector]\nthreads = 1", "have a table [colector]; the nearest is [collector]"),
        ("collector = 1", "have a value collector where a table [collector] is expected"),
        ("threads = 1\n[collector]", "have threads outside any table; put it below [collector]"),
        ("collector", "are not TOML"),
    ],
)
def test_a_bad_setting_is_one_sentence_that_names_it(tmp_path: Path, text: str, sentence: str) -> None:
    """Whoever starts a daemon reads one line of its log; it must say which key and what is wrong."""
    with pytest.raises(ConfigError) as refused:
        load(_file(tmp_path, text), {})
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_another_packages_table_is_left_to_it(tmp_path: Path) -> None:
    """One file serves agent, collector and analyzer."""
    assert load(_file(tmp_path, "[agent]\nanything = 1\n"), {}) == CollectorConfig()


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path) -> None:
    """A mistyped --config must not start a collector with defaults."""
    with pytest.raises(ConfigError, match=r"cannot read the settings .*none\.toml: No such file"):
        load(tmp_path / "none.toml", {})


def test_a_misspelt_variable_is_refused() -> None:
    """A setting that is silently not obeyed is worse than none."""
    with pytest.raises(ConfigError, match=r"collector\.thread is not a setting; the nearest is threads"):
        load(None, {"GPULEDGER_COLLECTOR_THREAD": "2"})


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "[::1]:8470", "localhost:8470"])
def test_loopback_needs_no_token(listen: str) -> None:
    """A first try on a laptop asks for nothing."""
    assert load(None, {}, {"listen": listen}).tokens == ()
