"""The recipes for GitHub and GitLab: they parse, and their script passes and stops what it should."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from analyzer.capacity.gate.policy import NAMES
from analyzer.capacity.gate.request import Request, read_requests
from analyzer.settings.toml_model import keys_of
from tests.analyzer.capacity.gate_signing import policy_file, signed_text
from tests.analyzer.capacity.test_gate_cli import recent, soon
from tests.analyzer.capacity.test_gate_verdict import good_booked

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


def repository(folder: Path, *, profile: bool, good: bool, brings_policy: bool = True) -> str:
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
    if brings_policy:
        (capacity / "gates.toml").write_text("nobody reads the policy that a request brings")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "request")
    return base


def judged(home: Path, base: str) -> subprocess.CompletedProcess[str]:
    """Run the recipes' script in a repository, as a pipeline does."""
    bin_ = home.parent / "bin"
    bin_.mkdir(exist_ok=True)
    command = bin_ / "gpuledger"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m gpuledger "$@"\n')
    command.chmod(0o755)
    temporary = home.parent / "temporary"  # where the script's mktemp makes what the forge's machine takes with it
    temporary.mkdir(exist_ok=True)
    environment = {"PATH": f"{bin_}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "HOME": str(home)}
    environment |= {"TMPDIR": str(temporary), "BASE": base}
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", scripts()["github"]],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder for a repository."""
    made = tmp_path / "repository"
    made.mkdir()
    return made


@pytest.mark.parametrize(
    ("profile", "good", "code", "says"),
    [(True, True, 0, "PASS"), (True, False, 1, "FAIL"), (False, False, 1, "cannot read")],
)
def test_a_request_without_a_good_profile_stops_the_pipeline(
    home: Path, profile: bool, good: bool, code: int, says: str
) -> None:
    """By the policy of the branch that is merged into, and whatever a folder is called."""
    done = judged(home, repository(home, profile=profile, good=good))
    assert done.returncode == code, done.stdout + done.stderr
    assert says in done.stdout + done.stderr
    assert not (home / "caught").exists()


def committed(home: Path) -> None:
    """Commit what was changed."""
    git(home, "add", "-A")
    git(home, "commit", "-qm", "a change")


@pytest.mark.parametrize("elsewhere", [None, "capacity/archive", "notes"])
def test_a_profile_that_goes_is_missed(home: Path, elsewhere: str | None) -> None:
    """Whether it is deleted or moved away: the request that is left has none."""
    repository(home, profile=True, good=True, brings_policy=False)
    base = git(home, "rev-parse", "HEAD")
    (asked,) = (path for path in (home / "capacity").iterdir() if path.is_dir())
    if elsewhere is None:
        (asked / "profile.json").unlink()
    else:
        (home / elsewhere).mkdir(parents=True)
        (asked / "profile.json").rename(home / elsewhere / "profile.json")
    committed(home)
    done = judged(home, base)
    assert (done.returncode, "cannot read" in done.stderr) == (1, True), done.stdout + done.stderr


def test_a_request_that_is_withdrawn_stops_nothing(home: Path) -> None:
    """Whoever takes back the whole folder asks for nothing."""
    repository(home, profile=True, good=False)
    base = git(home, "rev-parse", "HEAD")
    git(home, "rm", "-qr", "--", "capacity/$(touch caught) llama")
    committed(home)
    done = judged(home, base)
    assert (done.returncode, done.stdout) == (0, "")


def test_what_cannot_be_compared_stops_the_pipeline(home: Path) -> None:
    """A shallow clone, a branch of another history: an empty list of changes is no pass."""
    base = repository(home, profile=True, good=True)
    git(home, "checkout", "-q", "--orphan", "alone")
    git(home, "commit", "-qm", "nothing before")
    for commit in (base, "0" * 40):
        assert judged(home, commit).returncode != 0


def fetching(name: str) -> str:
    """Return the step of a recipe that finds the branch that is merged into."""
    if name == "gitlab":
        return str(parsed("gitlab-ci.yml")["capacity gate"]["script"][0])
    step = next(each for each in parsed("github-actions.yml")["jobs"]["gate"]["steps"] if each.get("name"))
    return f'{step["run"]}\n. "$GITHUB_ENV"'


@pytest.mark.parametrize("name", ["github", "gitlab"])
def test_only_what_this_change_asks_is_judged_by_todays_policy(tmp_path: Path, home: Path, name: str) -> None:
    """The event names a commit where the branch once began: others' requests and policies have come since."""
    repository(home, profile=True, good=True)
    begun = git(home, "rev-parse", "HEAD~1")
    git(home, "branch", "-q", "asked")
    git(home, "reset", "-q", "--hard", begun)
    theirs = home / "capacity" / "theirs"
    theirs.mkdir()
    (theirs / "request.toml").write_text("a request that cannot be read")
    policy_file(home / "capacity", '[gates.runs]\nruns = 99\ngpu_hours = 99999\nsource = "today"\nas_of = 2026-11-20\n')
    committed(home)
    own = tmp_path / "own"
    git(tmp_path, "clone", "-q", str(home), str(own))
    git(own, "checkout", "-q", "origin/asked")
    git(own, "merge", "-q", "-X", "ours", "-m", "as the forge merges it", "origin/main")
    git(home, "commit", "-q", "--allow-empty", "-m", "and the branch has gone on")
    env_file = tmp_path / "env"
    environment = {"PATH": os.environ["PATH"], "HOME": str(own), "TMPDIR": str(tmp_path), "GITHUB_ENV": str(env_file)}
    branch = {"GITHUB_BASE_REF": "main", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main", "BASE": begun}
    script = f'{fetching(name)}\nprintf %s "$BASE"'
    done = subprocess.run(
        ["bash", "-e", "-c", script], cwd=own, env=environment | branch, capture_output=True, text=True, check=True
    )
    assert done.stdout == git(home, "rev-parse", "main")
    told = judged(own, done.stdout)
    assert told.stdout.count("== ") == 1
    assert "== capacity/$(touch caught) llama" in told.stdout
    assert (told.returncode, "FAIL    1 of 12 policy checks failed." in told.stdout) == (1, True)


def installing(name: str) -> str:
    """Return the step of a recipe that installs us."""
    if name == "gitlab":
        return str(parsed("gitlab-ci.yml")["capacity gate"]["script"][1])
    steps = parsed("github-actions.yml")["jobs"]["gate"]["steps"]
    return str(next(each["run"] for each in steps if each.get("name") == "install"))


@pytest.mark.parametrize("name", ["github", "gitlab"])
@pytest.mark.parametrize("wheel", ["as built", "another"])
def test_what_judges_is_of_the_branch_that_is_merged_into_and_known_by_its_hash(
    tmp_path: Path, name: str, wheel: str
) -> None:
    """A change brings a wheel of its own, or the wheel is not the one that was built: neither is installed."""
    home, tools = tmp_path / "home", tmp_path / "tools"
    (home / "gpuledger").mkdir(parents=True)
    built = home / "gpuledger" / "gpuledger-0.1.0-py3-none-any.whl"
    built.write_text("as built")
    (home / "gpuledger" / "SHA256SUMS").write_text(f"{hashlib.sha256(b'as built').hexdigest()}  {built.name}\n")
    built.write_text(wheel)
    (home / "gpuledger" / "requirements-server.lock").write_text("")
    git(home, "init", "-q", "-b", "main")
    git(home, "add", ".")
    git(home, "commit", "-qm", "the tool")
    built.write_text("a change's own")
    tools.mkdir()
    (tools / "pip").write_text('#!/bin/sh\necho "$@" >> "$TOLD"\ncat ./gpuledger-*.whl >> "$TOLD"\n')
    (tools / "pip").chmod(0o755)
    told = tmp_path / "told"
    environment = {
        **os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "BASE": "HEAD", "TOLD": str(told),
        "CI_PROJECT_DIR": str(home),
    }  # fmt: skip
    ran = subprocess.run(["bash", "-e", "-c", installing(name)], cwd=home, env=environment, capture_output=True)
    assert (ran.returncode == 0) == (wheel == "as built"), ran.stderr
    assert (told.read_text().count("as built") if told.exists() else 0) == (2 if wheel == "as built" else 0)


def test_githubs_check_runs_on_every_change() -> None:
    """A required check that a filter of paths leaves out waits for ever, and nothing can be merged."""
    assert parsed("github-actions.yml")[True] == "pull_request"  # YAML reads the word "on" so


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
    assert read_requests(tmp_path / "request.toml")[0][0].gpus == 8


def test_the_page_names_every_key_and_gate() -> None:
    """docs/gate.md says what the code reads."""
    text = (ROOT / "docs" / "gate.md").read_text("utf-8")
    assert [key for key in keys_of(Request) if f"`{key}`" not in text] == []
    assert [name for name in NAMES if f"| `{name}` |" not in text] == []
