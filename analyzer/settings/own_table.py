"""A table of the settings file that one part reads for itself, with the variables of the environment over it."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analyzer.errors import ConfigError
from analyzer.settings.environment import of_environment
from analyzer.settings.toml_entry import TomlEntry, read_toml

# A key that [mail] and [alarms] once had, with what has taken its place.
SITE_ADDRESS = {
    "base_url": "site_url of [analyzer], or GPULEDGER_ANALYZER_SITE_URL: one for mails, alarms, alerts and cookies"
}


@dataclass(frozen=True, slots=True)
class OwnTable:
    """One table: its name, the prefix of its variables, its keys, and how a value is read of a file and of a text.

    `of_file` is given the table, the key and the folder from which paths start; `moved` are keys that it once had, and
    what has taken their place.
    """

    name: str
    prefix: str
    keys: Sequence[str]
    of_file: Callable[[TomlEntry, str, Path], Any]
    of_text: Callable[[str, str], Any]
    moved: Mapping[str, str] = field(default_factory=dict)

    def read(
        self, path: Path | None, tables: Collection[str], environ: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Return what is given, by key; `tables` are all that a settings file may have, None is no file.

        Raises:
            ConfigError: a table or key is unknown or has moved, a value is wrong, or the file cannot be read.
        """
        content = TomlEntry("the settings", {}, tables) if path is None else read_toml(path, tables)
        known = [*self.keys, *self.moved]
        table, folder = content.table(self.name, known), path.parent if path is not None else Path()
        told = of_environment(os.environ if environ is None else environ, self.prefix, known)
        for key, place in self.moved.items():
            if table.has(key) or key in told:
                raise ConfigError(f"[{self.name}] {key} is no setting any more: it is {place}")
        given = {key: self.of_file(table, key, folder) for key in self.keys if table.has(key)}
        return given | {key: self.of_text(key, text) for key, text in told.items()}


def secret_text(table: str, key: str, path: Path) -> str:
    """Return what the file of a secret holds, as it is now.

    Raises:
        ConfigError: it cannot be read; what it holds is never told.
    """
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigError(f"cannot read [{table}] {key} {path}: {why}") from error
