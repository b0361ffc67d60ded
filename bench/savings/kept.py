"""What each seed gave, kept as it comes, so that a bench that was cut off goes on where it was."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CODE = ("agent", "analyzer", "collector", "simulator", "bench/savings")  # what decides a trial
ENDINGS = (".py", ".sql", ".toml")


def code_digest() -> str:
    """Return a digest of all code that a trial depends on."""
    files = sorted(path for part in CODE for path in (ROOT / part).rglob("*") if path.suffix in ENDINGS)
    found = hashlib.sha256()
    for path in files:
        found.update(f"{path.relative_to(ROOT)}\n".encode())
        found.update(path.read_bytes())
    return found.hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Kept:
    """A directory with a file a seed; what other code or another beat of the samples gave counts as not there."""

    directory: Path
    code: str
    every_seconds: int

    def read(self, seed: int, *, second: bool) -> tuple[list[dict[str, Any]], float] | None:
        """Return the trials of a seed and how many seconds it took; None where it has to be made."""
        path = self._path(seed)
        if not path.exists():
            return None
        found = json.loads(path.read_text())
        if found["made_by"] != self._made_by(second):
            return None
        return found["trials"], found["seconds"]

    def write(self, seed: int, trials: list[dict[str, Any]], seconds: float, *, second: bool) -> None:
        """Keep the trials of a seed; a file is whole or not there."""
        self.directory.mkdir(parents=True, exist_ok=True)
        half = self._path(seed).with_suffix(".half")
        half.write_text(json.dumps({"made_by": self._made_by(second), "seconds": seconds, "trials": trials}) + "\n")
        half.replace(self._path(seed))

    def _path(self, seed: int) -> Path:
        return self.directory / f"{seed}.json"

    def _made_by(self, second: bool) -> dict[str, Any]:
        return {"code": self.code, "every_seconds": self.every_seconds, "second": second}
