"""Lines that are folded for a mail or a terminal paste as what they were."""

import ast
import shlex
import subprocess

from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer.interfaces.text.pasting import folded
from analyzer.recommendations.recommendation import Artefact

WIDTH = 72
GPUS = ",".join(f"GPU-3424cb94-7859-5e5f-bac6-f4be00671{n:03d}" for n in range(8))
SHOW = "printf '%s|' "
NAMES = st.text(st.characters(codec="ascii", min_codepoint=32, max_codepoint=126), min_size=1, max_size=60)


def test_a_command_goes_on_after_a_backslash() -> None:
    """A mailer breaks what is too long wherever it likes, and half a command is another command."""
    lines = folded(Artefact("shell", f"nvidia-smi -i {GPUS} -pl 590"), WIDTH)
    assert max(map(len, lines)) <= WIDTH
    assert len(lines) == 9
    assert "".join(line.strip().removesuffix("\\") for line in lines).replace(" ", "") == f"nvidia-smi-i{GPUS}-pl590"


def test_a_remark_goes_above_its_line() -> None:
    """What is long because of its remark alone stays one line of code."""
    text = "checkpoint_interval_seconds = 2850  # half of now, as the best is unknown: 1 failure in 3,604 host-hours"
    assert folded(Artefact("config", text), WIDTH) == [
        "# half of now, as the best is unknown: 1 failure in 3,604 host-hours",
        "checkpoint_interval_seconds = 2850",
    ]


def test_python_breaks_within_its_brackets() -> None:
    """There a line goes on without a sign."""
    arguments = ", ".join(f"argument_{n}={n}" for n in range(9))
    lines = folded(Artefact("python", f"loader = DataLoader({arguments})  # workers were 4"), WIDTH)
    assert max(map(len, lines)) <= WIDTH
    assert lines[0] == "# workers were 4"
    assert ast.dump(ast.parse("\n".join(lines))) == ast.dump(ast.parse(f"loader = DataLoader({arguments})"))


def test_what_breaks_nowhere_stays_whole() -> None:
    """A long line is a nuisance, a wrong one is a mistake."""
    for form, text in (("kubernetes", "  value: " + "a " * 60 + "b"), ("slurm", "#SBATCH --comment=" + "x" * 90)):
        assert folded(Artefact(form, text), WIDTH) == [text]  # type: ignore[arg-type]


def test_a_sentence_of_remarks_is_broken_as_one() -> None:
    """Folded line by line, every second line would hold two words."""
    text = (
        "# in the batch script, before training. Which directory it reads, and where it is mounted, is not\n# known\nls"
    )
    assert folded(Artefact("slurm", text), WIDTH) == [
        "# in the batch script, before training. Which directory it reads, and",
        "# where it is mounted, is not known",
        "ls",
    ]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(NAMES, min_size=1, max_size=12), min_size=1, max_size=12))
def test_a_shell_reads_the_same_words(commands: list[list[str]]) -> None:
    """Names are quoted as they come: a break within a quote would change one."""
    text = "\n".join(SHOW + " ".join(map(shlex.quote, words)) for words in commands)
    lines = folded(Artefact("shell", text), WIDTH)
    assert _said("\n".join(lines)) == _said(text)


def _said(script: str) -> bytes:
    return subprocess.run(["bash", "-c", script], capture_output=True, check=True).stdout
