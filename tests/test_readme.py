"""The documents say what the code does: every command, every settings key with its default and help."""

import re
from dataclasses import MISSING, Field, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agent.config import AgentConfig
from agent.config import load as load_agent
from analyzer.capacity.planner.from_text import ModelSettings
from analyzer.interfaces.alarms.settings import AlarmSettings
from analyzer.interfaces.mail.settings import MailSettings
from analyzer.ledger.teams import team_book
from analyzer.prices.price_book import price_book
from analyzer.settings.settings import Advising, Guards, Settings
from collector.config import CollectorConfig
from collector.config import load as load_collector
from dashboards.server.sign_in import OidcSettings
from gpuledger import COMMANDS

ROOT = Path(__file__).parent.parent
COMMANDS_PAGE, SETTINGS_PAGE, INSTALL_PAGE = (
    ROOT / "docs" / f"{name}.md" for name in ("commands", "settings", "install")
)
PAGES = tuple(sorted((ROOT / "docs").glob("*.md")))
_BLOCKS = re.compile(r"^ *```\w*\n.*?^ *```$", re.MULTILINE | re.DOTALL)
_ITEM = re.compile(r"(?:[-*]|\d+\.) ")
PACKAGES = ("agent", "collector", "analyzer")
TABLES = (*PACKAGES, "placement", "mail", "alarms", "model", "oidc")  # of the one settings file


def section(text: str, name: str) -> str:
    """Return what stands between a section's two comments."""
    found = re.search(rf"<!-- {name} -->\n(.*?)<!-- end -->", text, re.DOTALL)
    assert found, f"the document has no section <!-- {name} -->"
    return found[1]


def commands_table() -> str:
    """Return the table of commands, made from gpuledger.py."""
    lines = ["| command | for |", "|---|---|"]
    lines += [f"| `{command.name}` | {command.help} |" for command in COMMANDS.values()]
    return "\n".join(lines) + "\n"


def settings_keys(package: str) -> list[Field[Any]]:
    """Return every setting of a package, or of a table of its own."""
    if package == "placement":
        return [*fields(Guards), *fields(Advising)]
    if package == "alarms":
        return list(fields(AlarmSettings))
    if package == "mail":
        return list(fields(MailSettings))
    if package == "oidc":
        return list(fields(OidcSettings))
    if package == "model":
        return list(fields(ModelSettings))
    tops = {"agent": AgentConfig, "collector": CollectorConfig, "analyzer": Settings}
    return [key for key in fields(tops[package]) if key.name not in ("guards", "advising")]


def settings_table(package: str) -> str:
    """Return the table of a package's settings, made from its dataclass."""
    lines = ["| key | default | what it is |", "|---|---|---|"]
    lines += [f"| `{key.name}` | {_default(key)} | {key.metadata['help']} |" for key in settings_keys(package)]
    return "\n".join(lines) + "\n"


def _default(key: Field[Any]) -> str:
    """Return a default as TOML writes it."""
    if key.default in (None, (), "", MISSING):
        return ""
    if isinstance(key.default, bool):
        return f"`{str(key.default).lower()}`"
    return f"`{list(key.default)}`" if isinstance(key.default, tuple) else f"`{key.default}`"


def agrees(page: Path, name: str, wanted: str, update: bool) -> None:
    """Compare a section of a page with what the code gives, or rewrite it."""
    text = page.read_text("utf-8")
    if update:
        page.write_text(text.replace(f"<!-- {name} -->\n{section(text, name)}", f"<!-- {name} -->\n{wanted}"), "utf-8")
    assert section(page.read_text("utf-8"), name) == wanted, "pytest tests/test_readme.py --update-golden rewrites it"


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    """Say whether the documents are to be rewritten."""
    return bool(request.config.getoption("--update-golden"))


def test_every_command_is_in_its_document(update: bool) -> None:
    """A command that nobody reads of does not exist."""
    agrees(COMMANDS_PAGE, "commands", commands_table(), update)


@pytest.mark.parametrize("package", TABLES)
def test_every_setting_is_in_its_document(package: str, update: bool) -> None:
    """Key, default and help are written once, in config.py."""
    agrees(SETTINGS_PAGE, f"settings {package}", settings_table(package), update)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_exists_and_helps(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What `gpuledger --help` lists can be called, and says in its own words what it takes."""
    with pytest.raises(SystemExit) as ended:
        COMMANDS[name].load()(["--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: gpuledger {name}")


def test_the_examples_are_files_that_are_read(tmp_path: Path) -> None:
    """What the document shows is what people copy."""
    examples = re.findall(r"```toml\n(.*?)```", INSTALL_PAGE.read_text("utf-8"), re.DOTALL)
    assert len(examples) == 3
    for name, text in zip(("gpuledger.toml", "prices.toml", "teams.toml"), examples, strict=True):
        (tmp_path / name).write_text(text)
    settings = Settings.read(tmp_path / "gpuledger.toml", {})
    assert [row.sku for row in price_book(settings).rows] == ["H100-80GB", "H100-80GB"]
    assert [rule.team.name for rule in team_book(settings).rules] == ["team-nlp"]
    assert load_agent(tmp_path / "gpuledger.toml", {}).collector == "https://gpuledger.example"
    assert load_collector(tmp_path / "gpuledger.toml", {}).tokens == ("at least sixteen characters",)


DOCUMENTS = (
    *(ROOT / f"{name}.md" for name in ("README", "ARCHITECTURE", "CHANGELOG", "CONTRIBUTING", "SECURITY")),
    *PAGES,
)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_every_link_of_the_documents_leads_somewhere(document: Path) -> None:
    """A document that names a file or a heading which is gone misleads."""
    text = _BLOCKS.sub("", document.read_text("utf-8"))
    missing = []
    for target in re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", text):
        name, _, anchor = target.partition("#")
        page = document.parent / name if name else document
        if not page.exists() or (anchor and anchor not in _anchors(page)):
            missing.append(target)
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_lists_and_blocks_are_read_as_such_by_the_site_too(document: Path) -> None:
    """GitHub forgives a list right below a sentence, and a block within a list indented by three; mkdocs does not."""
    lines = _BLOCKS.sub("\n", document.read_text("utf-8")).splitlines()
    glued = [
        f"{number}: {line}"
        for number, (before, line) in enumerate(pairwise(lines), 2)
        if _ITEM.match(line) and before.strip() and not _ITEM.match(before) and not before.startswith((" ", "#", "|"))
    ]
    narrow = [line for line in document.read_text("utf-8").splitlines() if re.match(r" {1,3}```", line)]
    assert (glued, narrow) == ([], [])


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", _BLOCKS.sub("", page.read_text("utf-8")), re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings]
    return {re.sub(r"[-\s]+", "-", text) for text in plain} | {re.sub(r"\s", "-", text) for text in plain}


def test_the_readme_is_read_in_five_minutes() -> None:
    """What is longer stands in a document of its own."""
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 180
