"""A server that nobody could come in to does not start: it says in one sentence how to make the first key."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import gpuledger
from collector.access.access import Access
from collector.access.open_access import require_way_in
from collector.config import CollectorConfig
from collector.errors import ConfigError, RegistryError
from collector.registry import open_registry

ROOT = Path(__file__).parents[3]
WRONG_SETTINGS = 2


def served(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of ours in a process of its own to its end."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GPULEDGER_")}
    return subprocess.run(
        [sys.executable, "gpuledger.py", *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_a_server_beyond_loopback_without_a_key_says_how_to_make_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It bound and answered 401 to all, with a line in a log: whoever set it up looked for a fault of the network."""
    store = tmp_path / "a store.duckdb"
    beyond = ["--listen", "0.0.0.0:0", "--store", str(store)]
    ran = served("serve", *beyond)
    assert ran.returncode == WRONG_SETTINGS
    (sentence,) = [line for line in ran.stderr.splitlines() if line.startswith("gpuledger: nobody")]
    for only in ("collector", "analyzer"):
        assert gpuledger.main(["serve", "--only", only, *beyond]) == WRONG_SETTINGS
        assert sentence in capsys.readouterr().err.splitlines()
    command = shlex.split(sentence.partition("gpuledger admin access ")[2])
    assert command == ["add", "--role", "admin", "--name", "me", "--store", str(store)]
    assert gpuledger.main(["admin", "access", *command]) == 0
    assert capsys.readouterr().out.startswith("gl_admin_")
    with open_registry(store.with_name(f"{store.name}.registry.sqlite")) as registry:
        require_way_in(Access(registry, is_loopback=False), CollectorConfig(store=store, listen="0.0.0.0:0"))


def test_the_command_names_the_settings_that_the_server_was_started_with(tmp_path: Path) -> None:
    """The registry may be PostgreSQL's, which only the settings name; and a flag may have named another store."""
    settings = tmp_path / "gpuledger.toml"
    settings.write_text(f'[collector]\nlisten = "0.0.0.0:1"\nstore = "{tmp_path / "one.duckdb"}"\n')
    with open_registry(None) as registry:
        shut = Access(registry, is_loopback=False)
        with pytest.raises(ConfigError, match=rf"--config {settings}$"):
            require_way_in(shut, CollectorConfig(store=tmp_path / "one.duckdb", listen="0.0.0.0:1"), settings)
        with pytest.raises(ConfigError, match=rf"--config {settings} --store {tmp_path / 'two.duckdb'}$"):
            require_way_in(shut, CollectorConfig(store=tmp_path / "two.duckdb", listen="0.0.0.0:1"), settings)


def test_a_token_is_a_way_in_and_a_silent_registry_is_not_an_empty_one() -> None:
    """What could not be read is not nobody: a server that starts while PostgreSQL is away answers when it is back."""
    with open_registry(None) as registry:
        assert not Access(registry, ["x" * 20], is_loopback=False).is_shut
        assert not Access(registry, is_loopback=True).is_shut

        class Away:
            def changed(self, _: int) -> None:
                raise RegistryError("the registry does not answer")

        registry.keys = Away()  # type: ignore[assignment]
        assert not Access(registry, is_loopback=False).is_shut
