"""Nothing that we say or ship installs gpuledger by its name: on a public index anybody may take that."""

import re
import subprocess

import pytest

from tests.test_packaging import ROOT

INSTALLERS = re.compile(
    r"\b(pipx?3?|uvx?|poetry|pdm|conda|mamba)\b[^\n`]*\b(install|add|run|tool|download|wheel)\b|\buvx\b"
)
OF_OURS = re.compile(r"(?<![\w./*-])gpuledger(?=[\[=<>~!'\"`\s;,)]|$)")
BY_PATH = re.compile(r"\S*/gpuledger-\*(-py3-none-any)?\.whl")
# gpuledger stands in these as what it is: the project's name beside its extras, which a resolver reads from the wheel.
OF_THE_PROJECT = {"pyproject.toml"}


def texts() -> dict[str, str]:
    """Return what is in the repository as text, by name, without the tests."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = [name for name in listed.split("\0") if name and not name.startswith(("tests/", "bench/results/"))]
    found = {}
    for name in names:
        data = (ROOT / name).read_bytes()
        if b"\0" not in data[:1024]:
            found[name] = data.decode("utf-8", "replace")
    return found


def by_name(text: str) -> list[str]:
    """Return the lines that install gpuledger from wherever an installer looks for its name."""
    whole = re.sub(r"\\\n\s*", " ", text)
    lines = [line for line in whole.splitlines() if INSTALLERS.search(line)]
    return [line for line in lines if OF_OURS.search(line[INSTALLERS.search(line).start() :])]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "line",
    [
        "pip install gpuledger",
        "- run: pip install 'gpuledger[server]'",
        "python3 -m pip install --upgrade gpuledger==0.1.0",
        "uv tool install gpuledger",
        "uvx --from 'gpuledger[server]' gpuledger report",
        "pipx run gpuledger",
        "pip install \\\n    'gpuledger[server]'",
        "it needs the extra: `pip install gpuledger[kubernetes]`",
    ],
)
def test_such_a_line_is_seen(line: str) -> None:
    """However it is written."""
    assert by_name(line)


def test_no_line_installs_us_by_name() -> None:
    """Whoever registers the name would run in users' gate jobs, and on their GPU hosts."""
    wrong = {name: found for name, text in texts().items() if (found := by_name(text))}
    assert wrong == {}
    named = {name for name, text in texts().items() if re.search(r"gpuledger\[", text)}
    assert named <= OF_THE_PROJECT


def test_each_line_that_installs_a_role_s_lock_takes_that_and_nothing_else() -> None:
    """A lock leaves out what a package asks for and nobody loads (pandas): without --no-deps pip refused it whole."""
    lines = [line for text in texts().values() for line in text.splitlines() if _ROLE_S_LOCK.search(line)]
    assert [line for line in lines if "--no-deps --require-hashes" not in line] == []
    assert len(lines) >= 7  # the agent's and the server's in docs, two recipes, two images, and what a command says


_ROLE_S_LOCK = re.compile(r"pip\b.* install\b.*-r \S*(?:requirements(?:-(?:agent|server|fleet|full))?\.lock|\{lock\})")


def test_each_line_that_installs_us_takes_the_wheel_by_its_path_and_the_rest_by_hash() -> None:
    """With --no-deps nothing is looked for but what the lock pins; the lock goes before it."""
    found = 0
    for name, text in texts().items():
        lines = [line for line in text.splitlines() if INSTALLERS.search(line)]
        for before, line in zip(["", *lines], lines, strict=False):
            if BY_PATH.search(line):
                found += 1
                assert "--no-deps" in line, (name, line)
                assert "--require-hashes -r " in before, (name, before)
    assert found >= 6  # two roles in the README and in the Dockerfile, and two recipes
