"""Every file, the wheel and every pinned package has a licence; what each role installs is told as CycloneDX."""

import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROLES = ("agent", "kubernetes", "server", "fleet", "full")


def checked(root: Path, *words: str) -> tuple[int, str]:
    """Run the check of a tree, and return how it ended and what it said."""
    line = [sys.executable, str(root / ".ci" / "licences.py"), *words]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    return done.returncode, done.stdout


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small repository under the same check: its own entry, one table of others, one package."""
    root = tmp_path / "tree"
    (root / "tables").mkdir(parents=True)
    shutil.copytree(ROOT / ".ci", root / ".ci")
    (root / "LICENSES").mkdir()
    for name in ("Apache-2.0", "MIT"):
        shutil.copy(ROOT / "LICENSES" / f"{name}.txt", root / "LICENSES")
    (root / "REUSE.toml").write_text(
        'version = 1\n[[annotations]]\npath = ["*", ".ci/**", "LICENSES/**", "**/*.py"]\n'
        'SPDX-FileCopyrightText = "us"\nSPDX-License-Identifier = "Apache-2.0"\n'
        '[[annotations]]\npath = "tables/prices.csv"\n'
        'SPDX-FileCopyrightText = "2026 Somebody"\nSPDX-License-Identifier = "MIT"\n'
    )
    (root / "NOTICE").write_text("us, 2026 Somebody\n")
    (root / "tables" / "prices.csv").write_text("1\n")
    (root / "gpuledger.py").touch()
    (root / "requirements.lock").write_text("pytest==9 \\\n    --hash=sha256:0\n")
    (root / ".ci" / "packages.toml").write_text("")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


def test_nothing_of_ours_is_unresolved() -> None:
    """Who passes it on must know what it owes to whom."""
    code, said = checked(ROOT)
    assert (code, said.splitlines()[-1].partition("; ")[2]) == (0, "unresolved: 0"), said


def test_a_tree_in_order_has_no_fault(tree: Path) -> None:
    """The cases below then fail by what they change alone."""
    assert checked(tree)[0] == 0, checked(tree)[1]


@pytest.mark.parametrize(
    ("path", "text", "fault"),
    [
        ("tables/new.csv", "2\n", "tables/new.csv: no entry of REUSE.toml names it"),
        ("tables/vendored.js", "2\n", "tables/vendored.js: no entry of REUSE.toml names it"),
        ("NOTICE", "us\n", "NOTICE: does not name 2026 Somebody"),
        ("LICENSES/MIT.txt", None, "LICENSES/MIT.txt: is not there"),
        ("LICENSES/GPL-3.0-only.txt", "text\n", "LICENSES/GPL-3.0-only.txt: nothing is under it"),
        ("tables/prices.csv", None, "REUSE.toml: tables/prices\\.csv names no file"),
        ("requirements.lock", "pytest==9\nnobody-knows==1\n", "nobody-knows 1: no licence"),
        (".ci/packages.toml", 'gone = "MIT"\n', ".ci/packages.toml: gone is in no lock"),
    ],
)
def test_what_has_none_is_named(tree: Path, path: str, text: str | None, fault: str) -> None:
    """A table, a text or a package that comes in without a word ends the check."""
    if text is None:
        (tree / path).unlink()
    else:
        (tree / path).write_text(text)
    code, said = checked(tree)
    assert code == 1
    assert fault in said


@pytest.mark.parametrize(
    ("files", "expression", "fault"),
    [
        ({}, "Apache-2.0 AND MIT", None),
        ({"gpuledger/rooms/tables/other.csv": ""}, "Apache-2.0 AND MIT", "other.csv: no entry of REUSE.toml names it"),
        ({}, "Apache-2.0", "says 'Apache-2.0', and its files are under Apache-2.0, MIT"),
        ({"NOTICE": None}, "Apache-2.0 AND MIT", "NOTICE is not in it"),
        ({"LICENSES/MIT.txt": None}, "Apache-2.0 AND MIT", "LICENSES/MIT.txt is not in it"),
    ],
    ids=["whole", "file", "expression", "notice", "text"],
)
def test_a_wheel_brings_the_texts_of_what_is_in_it(
    tree: Path, files: dict[str, str | None], expression: str, fault: str | None
) -> None:
    """MIT asks for its notice in every copy."""
    inside: dict[str, str | None] = dict.fromkeys(("gpuledger/__init__.py", "gpuledger/rooms/tables/prices.csv"), "")
    licences = ("LICENSE", "NOTICE", "LICENSES/MIT.txt")
    inside |= {f"g.dist-info/licenses/{name}": "" for name in licences if files.get(name, "") is not None}
    inside |= {name: text for name, text in files.items() if name not in licences}
    inside["g.dist-info/METADATA"] = f"Metadata-Version: 2.4\nName: g\nLicense-Expression: {expression}\n"
    with zipfile.ZipFile(tree / "g.whl", "w") as wheel:
        for name, text in inside.items():
            wheel.writestr(name, text or "")
    code, said = checked(tree, str(tree / "g.whl"))
    assert (code, fault or "unresolved: 0") == (int(fault is not None), fault or "unresolved: 0"), said
    assert (fault or "unresolved: 0") in said


def test_the_bill_of_materials_is_the_lock(tmp_path: Path) -> None:
    """Whoever asks what runs there is told each package that is pinned, once, with its licence; the same each time."""
    for folder in ("first", "again"):
        subprocess.run([sys.executable, str(ROOT / ".ci" / "sbom.py"), str(tmp_path / folder)], check=True)
    for role in ROLES:
        name = f"sbom-{role}.cdx.json"
        text = (tmp_path / "first" / name).read_text("utf-8")
        assert text == (tmp_path / "again" / name).read_text("utf-8")
        told = json.loads(text)
        assert (told["bomFormat"], told["specVersion"]) == ("CycloneDX", "1.6")
        pins = re.findall(r"^([a-z0-9._-]+)==([^\s;]+)", (ROOT / f"requirements-{role}.lock").read_text(), re.MULTILINE)
        assert sorted((each["name"], each["version"]) for each in told["components"]) == sorted(pins)
        refs = [told["metadata"]["component"]["bom-ref"], *(each["bom-ref"] for each in told["components"])]
        assert len(refs) == len(set(refs))
        assert all(each["licenses"][0]["expression"] for each in told["components"])
        needs = {each["ref"]: each["dependsOn"] for each in told["dependencies"]}
        assert {ref for found in needs.values() for ref in found} <= set(refs)
        assert role != "agent" or needs[refs[0]] == sorted(refs[1:])  # it has nothing that it does not declare


@pytest.mark.parametrize("name", ["pyproject.toml", "SECURITY.md", "NOTICE", "Dockerfile"])
def test_no_address_of_ours_is_somebody_elses(name: str) -> None:
    """A repository or an index that is not ours may be anybody's tomorrow."""
    text = (ROOT / name).read_text("utf-8")
    assert "[project.urls]" not in text
    assert re.findall(r"(?:github|gitlab|codeberg)\.(?:com|org)/\S*gpuledger\S*", text) == []
    assert re.findall(r"\S+@\S+\.(?:com|org|net)\b", text) == []
