"""Settings: three places, one object, and one sentence for every mistake."""

from pathlib import Path

import pytest

from agent.config import AgentConfig, load, settings
from agent.errors import ConfigError
from agent.quantity import duration, seconds, size_bytes


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    """An operator must be able to say which of three places counts."""
    file = tmp_path / "gpuledger.toml"
    file.write_text('[agent]\nnode = "file"\nrack = "r1"\nzone = "z1"\n[collector]\nstore = "x"\n')
    environment = {"GPULEDGER_AGENT_NODE": "variable", "GPULEDGER_AGENT_RACK": "r2", "OTHER": "x"}
    config = load(file, environment, {"node": "flag", "zone": None})
    assert (config.node, config.rack, config.zone) == ("flag", "r2", "z1")


def test_without_a_word_everything_has_a_default() -> None:
    """The agent starts with no file at all."""
    assert load(None, {}) == AgentConfig()
    assert AgentConfig().address == ("127.0.0.1", 9477)
    assert AgentConfig().node_name


def test_every_key_explains_itself() -> None:
    """The table of docs/settings.md and --help are made of this."""
    for name, (_, words) in settings().items():
        assert len(words) > 10, name


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[agent]\nbeet_seconds = 1", "agent.beet_seconds is not a setting; the nearest is beat_seconds"),
        ("[agent]\nbeat = 1", "agent.beat is not a setting; the nearest is beat_seconds"),
        ("[agent]\nxyz = 1", "agent.xyz is not a setting; known are node"),
        ('[agent]\nbeat_seconds = "often"', "agent.beat_seconds: 'often' is not a valid duration"),
        ("[agent]\nbeat_seconds = 0.001", "agent.beat_seconds is 0.001: the minimum is 0.05"),
        ("[agent]\nbeat_seconds = nan", "agent.beat_seconds: nan is not a valid duration"),
        ("[agent]\nbeat_seconds = true", "agent.beat_seconds: True is not a valid duration"),
        ("[agent]\nspool_bytes = -1", "agent.spool_bytes: -1 is not a valid size"),
        ('[agent]\nspool_bytes = "12 parsecs"', "agent.spool_bytes: '12 parsecs' is not a valid size"),
        ("[agent]\nspool = ''", "agent.spool is empty; omit it to use"),
        ("[agent]\nnode = 14", "agent.node: 14 is not text"),
        ("[agent]\ntoken = 1234", "agent.token: not text"),
        ('[agent]\nlisten = "9477"', "agent.listen is '9477': expected an address and port"),
        ('[agent]\nlisten = "host:99999"', "agent.listen is 'host:99999'"),
        ('[agent]\nidentity = "some"', "agent.identity: 'some' is not full, hashed or none"),
        ('[agent]\nidentity = "hashed"', "agent.identity_key has fewer than 16"),
        ("node = 'x'\n[agent]", r"have node outside any table; put it under \[agent\]"),
        ("[agnet]\nnode = 'x'", r"have a table \[agnet\]; the nearest is \[agent\]"),
        ("agent = 1", r"a value agent where the table \[agent\]"),
        ("[agent", "are not TOML"),
        ("node = \xff", "are not TOML"),
    ],
)
def test_a_mistake_is_one_sentence_that_names_it(tmp_path: Path, text: str, sentence: str) -> None:
    """Found at the start, with key and value, so that nobody has to read our code."""
    file = tmp_path / "gpuledger.toml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match=sentence) as error:
        load(file, {})
    assert "\n" not in str(error.value).strip()


def test_a_secret_is_never_shown(tmp_path: Path) -> None:
    """Logs travel further than settings files."""
    file = tmp_path / "gpuledger.toml"
    file.write_text("[agent]\ntoken = 987654321\n")
    with pytest.raises(ConfigError) as error:
        load(file, {})
    assert "987654321" not in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """Somebody said --config, and meant it."""
    with pytest.raises(ConfigError, match=r"cannot read the settings .*none\.toml: No such file"):
        load(tmp_path / "none.toml", {})


def test_metrics_can_be_off_and_anywhere() -> None:
    """A host with a policy of no open ports is still a host."""
    assert AgentConfig(listen="off").address is None
    assert AgentConfig(listen="[::1]:9477").address == ("::1", 9477)


@pytest.mark.parametrize(
    ("given", "expected"),
    [("10s", 10.0), ("0.1s", 0.1), (".5s", 0.5), ("500ms", 0.5), ("2m", 120.0), ("1 h", 3600.0), ("3", 3.0), (2, 2.0)],
)
def test_durations(given: str | float, expected: float) -> None:
    """People write 0.1s, 500ms and 2m."""
    assert seconds(given) == pytest.approx(expected)


@pytest.mark.parametrize(("given", "expected"), [("256MB", 256_000_000), ("1GiB", 2**30), ("64 kB", 64_000), (7, 7)])
def test_sizes(given: str | float, expected: int) -> None:
    """People write 256MB and 1GiB."""
    assert size_bytes(given) == expected


@pytest.mark.parametrize("given", ["", "s", "1e3s", "-1s", "1 s s", "ten", "1d2h"])
def test_what_is_no_quantity_is_refused(given: str) -> None:
    """Better a sentence at the start than a beat of ten thousand seconds."""
    with pytest.raises(ConfigError, match="is not a valid duration"):
        seconds(given)


@pytest.mark.parametrize(
    ("given", "expected"),
    [(0.0, "0.0 s"), (4.24, "4.2 s"), (59.9, "59.9 s"), (2700.0, "45 min 00 s"), (7500.0, "2 h 05 min 00 s")],
)
def test_durations_are_said_as_people_say_them(given: float, expected: str) -> None:
    """The line that ends every run."""
    assert duration(given) == expected
