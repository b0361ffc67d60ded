"""The lines of a CSV file, never more than a bounded part of it in memory: a file without line ends is no CSV."""

from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from analyzer.errors import ConfigError

ROW_MOST = 1_000_000  # characters of a row, line breaks inside quotes included; rows of bills have some thousands


class BoundedLines:
    """Yields a file's lines as csv.reader wants them; whoever reads says with `next_row` that a row is complete."""

    def __init__(self, path: Path, file: TextIO, most: int = ROW_MOST) -> None:
        self._path = path
        self._file = file
        self._most = most
        self._number = 0
        self._taken = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        """Return the next line.

        Raises:
            ConfigError: the row that it belongs to is longer than may be.
        """
        line = self._file.readline(self._most - self._taken + 1)
        if not line:
            raise StopIteration
        self._number += 1
        self._taken += len(line)
        if self._taken > self._most:
            raise ConfigError(
                f"{self._path}, line {self._number}: a row of more than {self._most:,} characters; is it CSV, with a "
                "line a row?"
            )
        return line

    def next_row(self) -> None:
        """Begin to count anew: the row was read whole."""
        self._taken = 0
