"""The manual page and the completion of shells say what the parsers take."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpuledger import COMMANDS

ROOT = Path(__file__).parent.parent
BASH = """
source "$1"/bash-completion/completions/gpuledger
shift; COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); _gpuledger 2>/dev/null; printf '%s\\n' "${COMPREPLY[@]}"
"""
ZSH = """
source "$1"/zsh/site-functions/_gpuledger
compadd() { shift; for each in "$@"; do [[ $each = ${words[CURRENT]}* ]] && echo $each; done }
_files() { true }
shift; words=("$@"); CURRENT=$#; _gpuledger
"""
FISH = """
source $argv[1]/fish/vendor_completions.d/gpuledger.fish
complete -C(string join -- ' ' $argv[2..-1])
"""
SHELLS = {
    "bash": ["bash", "--norc", "-c", BASH, "-"],
    "zsh": ["zsh", "-f", "-c", ZSH, "-"],
    "fish": ["fish", "-N", "-c", FISH],
}


@pytest.fixture(scope="module")
def share(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that `make manual` makes."""
    folder = tmp_path_factory.mktemp("share")
    subprocess.run([sys.executable, str(ROOT / ".ci" / "manual.py"), str(folder)], check=True, timeout=120)
    return folder


def test_the_manual_has_every_command_and_flag(share: Path) -> None:
    """It is made of the parsers, and read where there is no network."""
    text = (share / "man" / "man1" / "gpuledger.1").read_text("utf-8").replace("\\-", "-")
    sections = dict(re.findall(r"^\.SS gpuledger (.*)\n((?:.*\n)*?)(?=\.S[SH] )", text, re.MULTILINE))
    assert {*COMMANDS, "agent pause", "report run", "admin access add"} <= sections.keys()
    assert "--log-format" in sections["agent"]
    assert "--log-format" in sections["serve"]
    assert "\\fB--s3-secret\\fR" not in text  # no flag: others would read it in ps


@pytest.mark.skipif(shutil.which("groff") is None, reason="optional: groff is not here")
def test_the_manual_is_read_without_a_warning(share: Path) -> None:
    """A page that man complains about is shown with holes."""
    page = share / "man" / "man1" / "gpuledger.1"
    done = subprocess.run(["groff", "-man", "-Tutf8", "-Kutf8", "-ww", str(page)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "gpuledger serve" in re.sub(".\x08", "", done.stdout)  # bold is written twice


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["imp"], ["import"]),
        (["serve", "--only", ""], ["collector", "analyzer"]),
        (["serve", "--log"], ["--log-format", "--log-level"]),
        (["report", "--format", "j"], ["json"]),
        (["admin", "access", "add", "--ro"], ["--role"]),
        (["agent", "pau"], ["pause"]),
    ],
    ids=" ".join,
)
def test_a_shell_completes_what_the_parser_takes(share: Path, shell: str, words: list[str], offered: list[str]) -> None:
    """In the shell itself."""
    if shutil.which(shell) is None:
        pytest.skip(f"optional: {shell} is not here; make services")
    line = [*SHELLS[shell], str(share), "gpuledger", *words]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, cwd=share)
    assert {each.partition("\t")[0] for each in done.stdout.split("\n") if each} == set(offered), done.stderr
