"""gpuledger capacity plan --from-text: a description becomes a task file, and a person says whether it is right."""

import sys
import time
from pathlib import Path

from analyzer.capacity.planner.from_text import DESCRIPTION_BYTES, about, read_draft, to_confirm
from analyzer.capacity.planner.language_model import ModelSettings
from analyzer.errors import ConfigError

_STDIN = "-"
_TASKS = "tasks.yaml"
_YES = ("y", "yes")


def from_text(source: str, target: Path | None, model: ModelSettings, timezone: str) -> Path | None:
    """Show what a model understood of a description, and return the task file that a person has confirmed.

    None: nobody was asked, or the answer was no. Without a terminal nobody can confirm: the task file is written where
    `target` says, or shown, and solved by the next command.

    Raises:
        ConfigError: no model is set, the description cannot be read, or a file is in the way.
        ModelError: the model has made no task file of it.
    """
    model.ready()
    if target is not None:
        _free(target)
    now = time.time_ns() // 1000
    found = read_draft(model, _description(source), now, timezone)
    text = to_confirm(found, now, timezone)
    sys.stderr.write(f"{about(found)}\n\n")
    if target is not None:
        _write(target, text)
        sys.stderr.write(f"It is in {target}; when every line is right: gpuledger capacity plan {target}\n")
        return None
    sys.stdout.write(text)
    sys.stdout.flush()
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        sys.stderr.write(
            "\nTo plan it: keep it with --write tasks.yaml, read it, and run gpuledger capacity plan tasks.yaml\n"
        )
        return None
    return _confirmed(text)


def _confirmed(text: str) -> Path | None:
    """Ask, and write the file where the answer is yes; anything else is no."""
    path = Path(_TASKS)
    _free(path)
    sys.stderr.write(f"\nIs that what you mean? It is written to {path} and solved then [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in _YES:
        sys.stderr.write("nothing was written, and nothing solved\n")
        return None
    _write(path, text)
    return path


def _description(name: str) -> str:
    try:
        if name == _STDIN:
            content = sys.stdin.buffer.read(DESCRIPTION_BYTES + 1)
        else:
            with Path(name).open("rb") as file:
                content = file.read(DESCRIPTION_BYTES + 1)
        return content.decode("utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read --from-text {name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"--from-text {name} is no text in UTF-8") from error


def _free(path: Path) -> None:
    if path.exists():
        raise ConfigError(f"{path} is there already; name another file, or move it away")


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error
