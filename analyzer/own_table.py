"""A table of the settings file that one part reads for itself, with the variables of the environment over it."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analyzer.environment import of_environment
from analyzer.toml_entry import Entry, read_toml


@dataclass(frozen=True, slots=True)
class OwnTable:
    """One table: its name, the prefix of its variables, its keys, and how a value is read of a file and of a text.

    `of_file` is given the table, the key and the folder from which paths start.
    """

    name: str
    prefix: str
    keys: Sequence[str]
    of_file: Callable[[Entry, str, Path], Any]
    of_text: Callable[[str, str], Any]

    def read(
        self, path: Path | None, tables: Collection[str], environ: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Return what is given, by key; `tables` are all that a settings file may have, None is no file.

        Raises:
            ConfigError: a table or key is unknown, a value is wrong, or the file cannot be read.
        """
        content = Entry("the settings", {}, tables) if path is None else read_toml(path, tables)
        table, folder = content.table(self.name, self.keys), path.parent if path is not None else Path()
        given = {key: self.of_file(table, key, folder) for key in self.keys if table.has(key)}
        told = of_environment(os.environ if environ is None else environ, self.prefix, self.keys)
        return given | {key: self.of_text(key, text) for key, text in told.items()}
