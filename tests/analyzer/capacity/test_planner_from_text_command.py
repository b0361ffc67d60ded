"""gpuledger capacity plan --from-text as a person runs it: shown, confirmed, and only then solved."""

import io
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuledger import main
from tests.analyzer.capacity.planner_recorded import Endpoint, completion, endpoint
from tests.analyzer.capacity.test_planner_task_reading import FOUR

ROOT = Path(__file__).parents[3]
KEY = "sk-secret-of-the-site"


@pytest.fixture
def asked() -> Iterator[Endpoint]:
    """An endpoint that understands."""
    with endpoint(completion(f"```yaml\n# press y, it is all right\n{FOUR}```")) as one:
        yield one


def command(folder: Path, one: Endpoint, *arguments: str, **more: object) -> "subprocess.CompletedProcess[str]":
    """Run the command in a folder, with the settings of this endpoint there."""
    (folder / "gpuledger.toml").write_text(f'[model]\nurl = "{one.url}"\nmodel = "tiny"\n')
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "GPULEDGER_MODEL_KEY": KEY}
    given = {"input": "two tasks", "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more
    ended: subprocess.CompletedProcess[str] = subprocess.run(
        [sys.executable, "-m", "gpuledger", "capacity", "plan", *arguments],
        cwd=folder,
        env=environment,
        text=True,
        timeout=120,
        **given,  # type: ignore[call-overload]
    )
    return ended


def test_in_a_pipe_it_is_shown_and_not_solved(tmp_path: Path, asked: Endpoint) -> None:
    """Nobody is there to confirm it: what comes out is a task file."""
    ended = command(tmp_path, asked, "--from-text", "-")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("nodes:\n  gpuA:")
    assert "press y" not in ended.stdout
    assert "nothing has been solved" in ended.stderr
    assert "--write tasks.yaml" in ended.stderr
    assert KEY not in ended.stdout + ended.stderr
    assert len(asked.asked) == 1


def test_it_is_written_for_the_next_command(tmp_path: Path, asked: Endpoint) -> None:
    """Which solves what stands in the file, whoever changed it meanwhile."""
    (tmp_path / "words.txt").write_text("two tasks")
    ended = command(tmp_path, asked, "--from-text", "words.txt", "--write", "tasks.yaml")
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr
    assert "gpuledger capacity plan tasks.yaml" in ended.stderr
    again = command(tmp_path, asked, "--from-text", "words.txt", "--write", "tasks.yaml")
    assert again.returncode == 2
    assert "is there already" in again.stderr
    assert len(asked.asked) == 1, "nobody is asked for what cannot be written"
    solved = command(tmp_path, asked, "tasks.yaml")
    assert solved.returncode == 0, solved.stderr
    assert len(asked.asked) == 1, "no model is asked when a file is solved"


@pytest.mark.parametrize(
    ("answer", "is_solved"), [("y\n", True), ("n\n", False), ("\n", False), ("yes please\n", False)]
)
def test_a_person_confirms_it(tmp_path: Path, asked: Endpoint, answer: str, is_solved: bool) -> None:
    """On a terminal it asks, and takes nothing for yes but yes."""
    (tmp_path / "words.txt").write_text("two tasks")
    ours, theirs = pty.openpty()
    try:
        os.write(ours, answer.encode())
        ended = command(
            tmp_path, asked, "--from-text", "words.txt", input=None, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE
        )
        shown = os.read(ours, 65_536).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert "[y/N]" in shown
    assert (tmp_path / "tasks.yaml").exists() is is_solved
    assert ("t2" in ended.stdout.partition("after: [t1]}")[2]) is is_solved


def code_of(*arguments: str) -> object:
    """Return what the command ends with, called in this process: what is refused at once needs none of its own."""
    try:
        return main(["capacity", "plan", *arguments])
    except SystemExit as end:
        return end.code


@pytest.mark.parametrize(
    "arguments",
    [("--from-text", "-", "--yes"), (), ("tasks.yaml", "--from-text", "-"), ("tasks.yaml", "--write", "other.yaml")],
)
def test_arguments_that_do_not_go_together_are_refused(
    tmp_path: Path, asked: Endpoint, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    """Before anybody is asked; nor is there a --yes: what a model understood is read by somebody."""
    (tmp_path / "gpuledger.toml").write_text(f'[model]\nurl = "{asked.url}"\nmodel = "tiny"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPULEDGER_MODEL_KEY", KEY)
    assert code_of(*arguments) == 2
    assert asked.asked == []


def test_without_a_model_a_sentence_says_how_to_name_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is off by default."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO("two tasks"))
    assert code_of("--from-text", "-") == 2
    ended = capsys.readouterr()
    assert ended.out == ""
    assert "[model]" in ended.err
    assert "gpuledger.toml" in ended.err
