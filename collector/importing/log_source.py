"""Open a log of GPUs, whatever its encoding: as text, as JSON values, or the one log that a folder is."""

import gzip
import re
import zlib
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.wire.bounded import as_seen, json_said
from collector.errors import FileRefusedError
from collector.importing.log_names import LogHints

HEAD = 65_536
_MOST_BYTES = 2**28
_MOST_FILES = 10_000
_MOST_VALUES = 50_000_000


@dataclass(slots=True)
class LogSource:
    """One log on disk, with its beginning as text, as JSON where it is that, and as lines of cells where not."""

    path: Path
    hints: LogHints
    text: str = ""
    documents: list[Any] = field(default_factory=list)
    skipped: int = 0
    assumed: list[str] = field(default_factory=list)
    run: dict[str, str] = field(default_factory=dict)

    @property
    def head(self) -> str:
        """Its beginning, by which its kind is known."""
        return self.text[:HEAD]

    @property
    def first(self) -> dict[str, Any]:
        """The first JSON object, or an empty one."""
        first = self.documents[0] if self.documents else None
        return first if isinstance(first, dict) else {}


def decoded(path: Path, most: int = _MOST_BYTES) -> str:
    """Return a file's text: UTF-8, or UTF-16 with its mark or without; of a .gz what is in it."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise FileRefusedError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    if len(content) > most and most == _MOST_BYTES:
        raise FileRefusedError(f"{path} is larger than {_MOST_BYTES >> 20} MiB; split it")
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
    else:
        encoding = "utf-16-le" if content[1:64:2].count(0) > len(content[1:64:2]) // 2 else "utf-8-sig"
    content = as_seen(content) if encoding == "utf-8-sig" else content
    whole = content[: len(content) // 2 * 2] if encoding.startswith("utf-16") else content
    return whole.decode(encoding, errors="replace").replace("\r\n", "\n").replace("\r", "\n")


def open_log(path: Path, hints: LogHints) -> LogSource:
    """Open a file, or a folder that is one log.

    Raises:
        FileRefusedError: it cannot be read, or the folder has several logs.
    """
    if path.is_dir():
        return _folder(path, hints)
    source = LogSource(path, hints, decoded(path))
    if source.text.lstrip()[:1] in ("{", "["):
        source.documents = _documents(source)
    return source


def _folder(path: Path, hints: LogHints) -> LogSource:
    """Return a folder as the one file that tells of it, or as MLflow's, which keeps a file a metric."""
    files = [one for _, one in zip(range(_MOST_FILES), sorted(path.rglob("*")), strict=False) if one.is_file()]
    for name in ("data.json", "data.json.gz", "wandb-events.jsonl", "summary.json", "emissions.csv"):
        if found := [one for one in files if one.name == name]:
            return open_log(_only(found, path), hints)
    source = LogSource(path, hints)
    source.documents = [one for one in files if re.search(r"gpu_\d+_", one.name)]
    _only({_without_node(one.parent) for one in source.documents} or {path}, path)
    return source


def _without_node(folder: Path) -> Path:
    return folder.parent if folder.name.startswith("node_") else folder


def _only(found: Collection[Path], path: Path) -> Path:
    """Return the one log of a folder.

    Raises:
        FileRefusedError: there are several, which may be of one GPU at different times, or of several at once.
    """
    if len(found) > 1:
        first = min(found).relative_to(path)
        raise FileRefusedError(f"{path} has {len(found)} logs in it: name one of them, such as {path / first}")
    return next(iter(found))


def _documents(source: LogSource) -> list[Any]:
    """Return JSON values that stand one after another, on a line each or over many; a torn last one is skipped.

    Raises:
        FileRefusedError: it is no JSON.
    """
    joined = re.sub(r"\}\s*\n\s*\{", "},{", source.text)  # no string has a line break in it
    try:
        return _values(joined)
    except ValueError as error:
        lines = [line for line in source.text.splitlines() if line.strip()]
        if len(lines) < 2 or not lines[1].startswith("{"):
            torn = joined.rfind("},{")
            if torn < 0:
                raise FileRefusedError(f"cannot read {source.path} as JSON: {str(error)[:200]}") from error
            source.skipped += 1
            return _values(joined[: torn + 1])
    values: list[Any] = []
    for line in lines:
        try:
            values += _values(line)
        except ValueError:
            source.skipped += 1
    return values


def _values(text: str) -> list[Any]:
    found = json_said(f"[{text}]", most_bytes=_MOST_BYTES * 4, most_values=_MOST_VALUES)
    return [one for value in found for one in (value if isinstance(value, list) else (value,))]
