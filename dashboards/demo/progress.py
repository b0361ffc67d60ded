"""Progress bars on stderr, for stages that take longer than two seconds; a terminal's comfort and nothing else."""

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

_PATIENCE_SECONDS = 2.0


class Stage:
    """One stage with its own bar, shown only where it lasts and stderr is a terminal; tells how long it took."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._began = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self.seconds = 0.0

    def __enter__(self) -> "Stage":
        self._began = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.seconds = time.monotonic() - self._began
        if self._bar is not None:
            self._bar.stop()

    def reached(self, done: int, of: int) -> None:
        """Move the bar; the first move after two seconds shows it."""
        if self._bar is None and time.monotonic() - self._began > _PATIENCE_SECONDS and sys.stderr.isatty():
            columns = (TextColumn("{task.description:<12}"), BarColumn(40), MofNCompleteColumn(), TimeElapsedColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(self._title, total=of)
            self._bar.start()
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, total=of)
