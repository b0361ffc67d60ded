"""The recipes for GitHub and GitLab: they parse, and their script passes and stops what it should."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from analyzer.capacity.gate.policy import NAMES
from analyzer.capacity.gate.request import KEYS
from analyzer.capacity.gate.request_file import read_request
from tests.capacity.gate.signing import policy_file, signed_text
from tests.capacity.gate.test_cli import recent, soon
from tests.capacity.gate.test_verdict import good_booked

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs" / "gate"


def parsed(name: str) -> Any:
    """Return what a recipe says."""
    return yaml.safe_load((DOCS / name).read_text("utf-8"))


def scripts() -> dict[str, str]:
    """Return the script of each recipe."""
    github = parsed("github-actions.yml")["jobs"]["gate"]["steps"][-1]
    assert github["shell"] == "bash"
    return {"github": github["run"], "gitlab": parsed("gitlab-ci.yml")["capacity gate"]["script"][-1]}


def test_both_recipes_are_one_script() -> None:
    """What is mended in one is mended in the other."""
    assert len(set(scripts().values())) == 1


def git(folder: Path, *words: str) -> str:
    """Run git without anybody's settings."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    named = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"]
    command = ["git", *named, *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def repository(folder: Path, *, profile: bool, good: bool) -> str:
    """Make a repository whose last change adds a request, and return the commit before it."""
    capacity = folder / "capacity"
    capacity.mkdir()
    policy_file(capacity)
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "policy")
    base = git(folder, "rev-parse", "HEAD")
    asked = capacity / "$(touch caught) llama"
    asked.mkdir()
    (asked / "request.toml").write_text(soon())
    if profile:
        one = recent(advice=(), booked=good_booked()) if good else recent()
        (asked / "profile.json").write_text(signed_text(one))
    (capacity / "gates.toml").write_text("nobody reads the policy that a request brings")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "request")
    return base


@pytest.mark.parametrize(
    ("profile", "good", "code", "says"),
    [(True, True, 0, "PASS"), (True, False, 1, "FAIL"), (False, False, 1, "cannot read")],
)
def test_a_request_without_a_good_profile_stops_the_pipeline(
    tmp_path: Path, profile: bool, good: bool, code: int, says: str
) -> None:
    """By the policy of the branch that is merged into, and whatever a folder is called."""
    home, bin_ = tmp_path / "repository", tmp_path / "bin"
    home.mkdir()
    bin_.mkdir()
    command = bin_ / "gpuledger"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m gpuledger "$@"\n')
    command.chmod(0o755)
    base = repository(home, profile=profile, good=good)
    environment = {"PATH": f"{bin_}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "BASE": base}
    done = subprocess.run(
        ["bash", "-e", "-c", scripts()["github"]], cwd=home, env=environment, capture_output=True, text=True
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert says in done.stdout + done.stderr
    assert not (home / "caught").exists()


def test_a_request_that_branched_off_long_ago_is_judged_by_todays_policy(tmp_path: Path) -> None:
    """GitLab names the commit where a branch began, and whoever asks chooses that."""
    origin, own = tmp_path / "origin", tmp_path / "own"
    origin.mkdir()
    repository(origin, profile=True, good=True)
    git(tmp_path, "clone", "-q", str(origin), str(own))
    git(own, "checkout", "-q", "-b", "asked", "HEAD~1")
    git(origin, "commit", "-q", "--allow-empty", "-m", "a stricter policy")
    fetch = parsed("gitlab-ci.yml")["capacity gate"]["script"][0]
    environment = {"PATH": os.environ["PATH"], "HOME": str(own), "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main"}
    environment["CI_MERGE_REQUEST_DIFF_BASE_SHA"] = git(own, "rev-parse", "HEAD")
    script = f'{fetch}\nprintf %s "$BASE"'
    done = subprocess.run(
        ["bash", "-e", "-c", script], cwd=own, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == git(origin, "rev-parse", "HEAD")


def test_the_forms_are_what_the_gate_reads(tmp_path: Path) -> None:
    """Whoever fills in the template has a request that can be read."""
    form = parsed("issue-form.yml")
    by_id = {part["id"]: part for part in form["body"] if "id" in part}
    assert [name for name, part in by_id.items() if part.get("validations", {}).get("required")] == [
        "request",
        "profile",
        "verdict",
    ]
    template = (DOCS / "issue-template.md").read_text("utf-8").partition("```toml\n")[2].partition("```")[0]
    assert by_id["request"]["attributes"]["value"] == template
    (tmp_path / "request.toml").write_text(template.replace('""', '"llama-sft"'))
    assert read_request(tmp_path / "request.toml").gpus == 8


def test_the_page_names_every_key_and_gate() -> None:
    """docs/gate.md says what the code reads."""
    text = (ROOT / "docs" / "gate.md").read_text("utf-8")
    assert [key for key in KEYS if f"`{key}`" not in text] == []
    assert [name for name in NAMES if f"| `{name}` |" not in text] == []
