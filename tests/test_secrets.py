"""No secret is taken on a command line, where every user of the host reads it (ps), and the shell keeps it."""

import ast
import re
from dataclasses import fields

import pytest

import gpuledger
from agent.config import SECRETS as AGENT_SECRETS
from agent.config import AgentConfig
from bench.house import product
from collector.config import SECRETS as COLLECTOR_SECRETS
from collector.config import CollectorConfig
from tests.test_architecture import name_of, nodes_of

SECRET = re.compile(r"(^|[_-])(tokens?|secret|password|passphrase|api[_-]key|identity_key|access[_-]key)$")
AMOUNTS = {("analyzer/interfaces/cli/sizing.py", flag) for flag in ("--tokens", "--inter-token")}  # tokens of text
WORDS = "not-to-be-seen-in-ps"
FLAGS = [("agent", name) for name in AGENT_SECRETS] + [("serve", name) for name in COLLECTOR_SECRETS]


def test_settings_that_are_secrets_are_known_as_such() -> None:
    """A new one is found by its name."""
    for config, known in ((AgentConfig, AGENT_SECRETS), (CollectorConfig, COLLECTOR_SECRETS)):
        found = {spec.name for spec in fields(config) if SECRET.search(spec.name)}
        assert found - {"kubernetes_token"} == set(known)  # that is the file of one


def test_no_flag_takes_a_secret() -> None:
    """Flags name files; one that was taken once says where it has gone."""
    flags = {
        (name_of(path), str(word.value))
        for path in product()
        if "add_argument" in path.read_text("utf-8")
        for call in nodes_of(path)
        if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "add_argument"
        for word in call.args
        if isinstance(word, ast.Constant) and SECRET.search(str(word.value))
        if not any(each.arg == "help" and ast.unparse(each.value) == "argparse.SUPPRESS" for each in call.keywords)
    }
    assert flags == AMOUNTS


@pytest.mark.parametrize(("command", "name"), FLAGS)
@pytest.mark.parametrize("spelling", ["{} {}", "{}={}"])
def test_the_old_spelling_ends_with_a_line_that_names_the_new_way(
    command: str, name: str, spelling: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is not ignored: whoever gives a secret believes that it is in use."""
    flag = "--" + name.replace("_", "-")
    assert gpuledger.main([command, *spelling.format(flag, WORDS).split()]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    table = "agent" if command == "agent" else "collector"
    assert f"GPULEDGER_{table.upper()}_{name.upper()}" in said.err
    assert f"{table}.{name}" in said.err
    assert WORDS not in said.err


@pytest.mark.parametrize("lake", ["postgres:dbname=l password=hidden-1", "postgres:postgresql://me:hidden-1@h/l"])
def test_the_password_of_a_catalogue_is_no_flag_either(lake: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Without one the address may be: PostgreSQL has a file of its own for passwords."""
    assert gpuledger.main(["serve", "--lake", lake]) == 2
    said = capsys.readouterr().err
    assert ("GPULEDGER_COLLECTOR_LAKE" in said, "PGPASSFILE" in said, "hidden-1" in said) == (True, True, False)


@pytest.mark.parametrize("command", ["agent", "serve"])
def test_no_help_offers_one(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is in the help is typed."""
    with pytest.raises(SystemExit):
        gpuledger.main([command, "--help"])
    flags = re.findall(r"--([a-z0-9-]+)", capsys.readouterr().out)
    assert flags
    assert [flag for flag in flags if SECRET.search(flag) and flag != "kubernetes-token"] == []
