"""A disk that writes down what is done to it, so that the power can be cut after any step and any way.

What a power cut leaves, after POSIX: the content of a file as far as the file was synced, and the names in a directory
as far as the directory was synced. Everything else may be there or not, each step by itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.files import Disk


@dataclass(frozen=True)
class Step:
    """One thing that was done: create, rename, remove, mkdir, sync_file or sync_directory."""

    what: str
    path: Path
    source: Path | None = None
    content: bytes = b""

    def changes(self, directory: Path) -> bool:
        """Return whether it gave or took a name in this directory."""
        return self.path.parent == directory or (self.source is not None and self.source.parent == directory)


class PoweredDisk(Disk):
    """A disk that remembers its steps."""

    def __init__(self, *, sync: bool = True) -> None:
        super().__init__(sync=sync)
        self.steps: list[Step] = []

    def create(self, path: Path, content: bytes) -> None:
        """Write it down, and do it."""
        self.steps.append(Step("create", path, content=content))
        super().create(path, content)

    def sync_file(self, path: Path, handle: int) -> None:
        """Write it down; there is no power to be cut here."""
        self.steps.append(Step("sync_file", path))

    def rename(self, source: Path, target: Path) -> None:
        """Write it down, and do it."""
        super().rename(source, target)
        self.steps.append(Step("rename", target, source))

    def remove(self, path: Path) -> None:
        """Write it down, a directory file by file, and do it."""
        if path.is_dir() and not path.is_symlink():
            for inside in sorted(path.iterdir()):
                self.remove(inside)
        if path.exists():
            self.steps.append(Step("remove", path))
        super().remove(path)

    def make_directory(self, path: Path) -> None:
        """Write it down, and do it."""
        self.steps.append(Step("mkdir", path))
        super().make_directory(path)

    def sync_directory(self, path: Path) -> None:
        """Write it down."""
        if self._sync:
            self.steps.append(Step("sync_directory", path))


def leave(steps: Sequence[Step], root: Path, target: Path, survives: Callable[[], bool]) -> None:
    """Make in `target` what may be left of `root` after these steps; `survives` decides of each that was not synced."""
    target.mkdir()
    for number, step in enumerate(steps):
        later = steps[number + 1 :]
        named = any(one.what == "sync_directory" and step.changes(one.path) for one in later)
        if named or survives():
            whole = any(one == Step("sync_file", step.path) for one in later) or survives()
            _do(step, whole, lambda path: target / path.relative_to(root))


def _do(step: Step, whole: bool, there: Callable[[Path], Path]) -> None:
    path = there(step.path)
    if not path.parent.is_dir():
        return
    if step.what == "mkdir":
        path.mkdir(exist_ok=True)
    elif step.what == "create":
        path.write_bytes(step.content if whole else step.content[: len(step.content) // 2])
    elif step.what == "rename" and step.source is not None and there(step.source).exists():
        there(step.source).replace(path)
    elif step.what == "remove" and not path.is_dir():
        path.unlink(missing_ok=True)
    elif step.what == "remove" and not any(path.iterdir()):  # a name within may have outlived its removal
        path.rmdir()
