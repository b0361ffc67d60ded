"""`gpuledger admin access`: what it says, where it says it, and what a script can rely on."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from collector.cli.access import access
from collector.config import CollectorConfig
from collector.errors import ConfigError, StoreError
from collector.registry import open_registry, registry_file
from collector.store.database import open_store


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of a site's store."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SUDO_USER", raising=False)
    return tmp_path / "site.duckdb"


@pytest.fixture
def run(store: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs the command on the site and returns code, stdout and stderr."""

    def call(*words: str) -> tuple[int, str, str]:
        code = access([words[0], "--store", str(store), *words[1:]])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def test_a_key_goes_to_standard_output_alone(run: Callable[..., tuple[int, str, str]]) -> None:
    """`gpuledger admin access add … > file` leaves a file that holds the key and nothing else."""
    code, out, err = run("add", "--role", "read", "--team", "vision", "--team", "speech", "--name", "grafana")
    assert (code, out.count("\n"), out.startswith("gl_read_")) == (0, 1, True)
    assert "shown only once" in err
    assert out.strip() not in err
    assert run("list")[1].splitlines()[1].split()[1:6] == ["read", "grafana", "team", "speech,", "vision"]


def test_what_is_revoked_and_what_is_not_there(run: Callable[..., tuple[int, str, str]]) -> None:
    """Exit 1 says that something of it was not done; what could be done is done."""
    key = run("add", "--role", "admin", "--name", "me")[1].split("_")[2]
    join = run("join", "--node-glob", "gpu*", "--uses", "3", "--for", "2h")[1].split("_")[2]
    assert "gpu*" in run("list")[1]
    code, _, err = run("revoke", key, "nosuch", join)
    assert code == 1
    assert "no active key or join token nosuch" in err
    assert run("list")[1] == "there are no keys\n"
    listed = run("list", "--all")[1]
    assert listed.count("revoked") == 2
    assert run("revoke", key)[0] == 1


def test_the_audit_tells_who_typed(run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Who became root by sudo is named too; the audit is readable by programs."""
    monkeypatch.setenv("SUDO_USER", "mira")
    key = run("add", "--role", "read", "--name", "grafana", "--expires", "90d")[1].split("_")[2]
    run("rotate", key, "--overlap", "1d")
    entries = json.loads(run("audit", "--json")[1])["entries"]
    assert [(entry["action"], entry["actor"].endswith("(mira)")) for entry in entries] == [
        ("add key", True),
        ("rotate key", True),
    ]
    assert run("audit", "--since", "all")[1].splitlines()[0].split() == ["WHEN", "WHO", "DID", "WHAT", "TIMES"]


def test_json_has_all_but_the_hash(run: Callable[..., tuple[int, str, str]]) -> None:
    """A program that lists keys must not become a place where hashes lie around."""
    run("add", "--role", "agent", "--name", "n1", "--node", "n1")
    run("join")
    listed = json.loads(run("list", "--json")[1])
    assert (listed["keys"][0]["node"], listed["join_tokens"][0]["uses"]) == ("n1", 1)
    assert "hash" not in listed["keys"][0]
    assert "hash" not in listed["join_tokens"][0]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["add", "--role", "agent", "--name", "x"], "requires it"),
        (["join", "--uses", "0"], "must be 1 to"),
        (["join", "--for", "never"], "--for must end"),
        (["rotate", "nosuch"], "there is no active key nosuch"),
        (["audit", "--since", "yesterday"], "is not a valid duration"),
    ],
)
def test_wrong_usage_is_one_sentence(run: Callable[..., tuple[int, str, str]], words: list[str], sentence: str) -> None:
    """Told before anything is done."""
    with pytest.raises(ConfigError, match=sentence):
        run(*words)


def test_a_wrong_folder_makes_no_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key in a registry that no server reads would open nothing, and nobody would know why."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match="name the server's settings with --config"):
        access(["list"])
    assert list(tmp_path.iterdir()) == []


def test_the_settings_of_the_server_lead_to_its_registry(
    tmp_path: Path, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same file that the server was started with."""
    (tmp_path / "gpuledger.toml").write_text(f'[collector]\nstore = "{store}"\n')
    access(["add", "--config", str(tmp_path / "gpuledger.toml"), "--role", "read", "--name", "grafana"])
    where = registry_file(store)
    assert where is not None
    assert f"in the registry {where};" in capsys.readouterr().err
    with open_registry(where) as registry:
        assert [key.name for key in registry.keys.listed()] == ["grafana"]


def test_a_name_is_erased_by_one_command(run: Callable[..., tuple[int, str, str]], store: Path) -> None:
    """The pseudonym goes to standard output; what it cannot reach is said."""
    config = CollectorConfig(store=store, lake="none")
    with open_store(config) as opened, opened.session() as session:
        session.execute("INSERT INTO allocations (batch, run_id, user) VALUES (1, 'r', 'mira')")
    code, out, err = run("erase-user", "mira", "--as", "erased-1234")
    assert (code, out) == (0, "erased-1234\n")
    assert "1 rows changed" in err
    assert "agents' spools, the scheduler, a backup" in err
    assert "mira" not in err
    with open_store(config) as opened, opened.session() as session:
        assert session.rows("SELECT user FROM allocations") == [("erased-1234",)]
    assert "mira" not in run("audit", "--json")[1].replace("cli:mira", "")
