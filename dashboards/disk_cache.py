"""Kept pages beside the store, so that a server that starts again has those of before: private, bounded, of one ledger.

The file `edition` names what the newest of them are of: the program, the settings, the analysis. Where a server finds
another edition than its own, all go: they are of another release, or of a ledger that has changed without it.
"""

import hashlib
import json
import logging
import os
import threading
import time
import zlib
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from analyzer.ledger.believed import believing
from analyzer.queries.generation import release
from analyzer.settings.settings import Settings
from collector.errors import CollectorError

if TYPE_CHECKING:
    from collector.store.database import Store

PAGES = 256
BYTES = 64 * 2**20  # of all pages together
_TEXT_BYTES = 16 * 2**20  # of one page: the cache bounds it in letters, of four bytes at most
_LEVEL = 1  # of zlib: pages are written while somebody waits for others


@dataclass(frozen=True, slots=True)
class PageRecord:
    """A page: the state of the ledger that it is of, and when that was read, microseconds UTC."""

    state: Hashable
    text: str
    read_at: int


def spelled(value: object) -> str:
    """Return a key or a state in letters: two are spelled alike only where they are the same.

    Raises:
        TypeError: it is made of something else than words, numbers, tuples and dataclasses.
    """
    return json.dumps(value, default=_parts)


def _parts(value: object) -> list[object]:
    if not is_dataclass(value):
        raise TypeError(f"BUG: a page is kept by a {type(value).__name__}, which has no spelling")
    return [type(value).__qualname__, *(getattr(value, field.name) for field in fields(value))]


def name_of(key: Hashable) -> str:
    """Return the name of the page's file, which tells nobody what it is of."""
    return hashlib.sha256(spelled(key).encode()).hexdigest()


def content_of(key: Hashable, made: PageRecord) -> bytes:
    """Return what the file holds."""
    head = {"key": spelled(key), "state": spelled(made.state), "read_at": made.read_at}
    content = json.dumps(head).encode() + b"\n" + zlib.compress(made.text.encode(), _LEVEL)
    return hashlib.sha256(content).hexdigest().encode() + b"\n" + content


def page_of(file: bytes, key: Hashable, state: Hashable) -> PageRecord:
    """Return the page that a file holds. Its state is `state` where it is of that, and else like no other.

    Raises:
        ValueError: it is damaged, or another's.
    """
    digest, _, content = file.partition(b"\n")
    if digest != hashlib.sha256(content).hexdigest().encode():
        raise ValueError("damaged")
    line, _, text = content.partition(b"\n")
    head = json.loads(line)
    if head["key"] != spelled(key):
        raise ValueError("another page's")
    page = zlib.decompressobj().decompress(text, _TEXT_BYTES).decode()
    of = state if head["state"] == spelled(state) else ("before the start", head["state"])
    return PageRecord(of, page, head["read_at"])


_ROOMS = Path(__file__).parents[1]
_PACKAGES = ("agent/wire", "analyzer", "collector", "dashboards")
_ANALYSIS = "SELECT list(a ORDER BY a)::VARCHAR FROM analysis a"


def edition_of(store: "Store", settings: Settings) -> Callable[[], str | None]:
    """Return what names the present edition, as 64 hexadecimal digits; it names None before the first analysis.

    Each pass notes up to which batch it came and when, to the microsecond: another ledger in this one's place, an
    older copy, or one that was analysed meanwhile, has another note.
    """
    program = f"{release()} {_digest()} {settings!r}"

    def edition() -> str | None:
        try:
            with believing(store) as session:
                (analysis,) = session.row(_ANALYSIS)
        except CollectorError:  # it has been closed, or is read by as many as may
            return None
        return None if analysis is None else hashlib.sha256(f"{program} {analysis}".encode()).hexdigest()

    return edition


@cache
def _digest() -> str:
    """Return a digest of our own files, as this process was started from them.

    In a checkout the release says nothing of what was changed.
    """
    found = hashlib.sha256()
    for package in _PACKAGES:
        for path in sorted((_ROOMS / package).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                found.update(f"{path.relative_to(_ROOMS)} {path.stat().st_size}\n".encode())
                found.update(path.read_bytes())
    return found.hexdigest()


_LOG = logging.getLogger(__name__)
OLDEST_SECONDS = 7 * 86_400.0
_EDITION, _PAGE, _ASIDE = "edition", ".page", ".new"
_FOLDER_MODE, _FILE_MODE = 0o700, 0o600  # pages name teams, people and money


class DiskCache:
    """One server's folder. `edition` returns the present one, or None where there is no analysis to name.

    What the disk refuses is counted; such a page is made when it is asked for.
    """

    def __init__(
        self, folder: Path, edition: Callable[[], str | None], *, pages: int = PAGES, size: int = BYTES
    ) -> None:
        self._folder = folder
        self._edition = edition
        self._pages, self._size = pages, size
        self._signed: str | None = None  # what the file `edition` says
        self._lock = threading.Lock()
        self._is_open = self._is_failing = False
        self.found = self.failed = 0  # `failed`: what the disk refused, or gave back damaged

    def open(self) -> None:
        """Take over what the server before left, if that was this release on this ledger; else drop it."""
        with self._lock, self._trying():
            self._make_folder()
            sign = self._folder / _EDITION
            signed = sign.read_text() if sign.exists() else None
            is_ours = signed is not None and signed == self._edition()
            for path in self._folder.iterdir():
                if path.name.endswith(_ASIDE) or (not is_ours and path.name.endswith((_PAGE, _EDITION))):
                    path.unlink()
            self._signed = signed if is_ours else None
            self._bound()
            self._is_open = True  # else nothing is signed: what lies there may be another's

    def follow(self) -> None:
        """Say that the pages are this ledger's, after a pass has changed it."""
        with self._lock, self._trying():
            self._sign()

    def get(self, key: Hashable, state: Hashable) -> PageRecord | None:
        """Return the page of a key, or None. Its state is `state` where it is of that, and else like no other."""
        path = self._folder / (name_of(key) + _PAGE)
        if not self._is_open or not path.exists():
            return None
        try:
            made = page_of(path.read_bytes(), key, state)
        except (OSError, ValueError):
            self.failed += 1
            with suppress(OSError):
                path.unlink()
            return None
        self.found += 1
        return made

    def put(self, key: Hashable, made: PageRecord) -> None:
        """Keep a page in the place of the one before."""
        name, content = name_of(key) + _PAGE, content_of(key, made)
        with self._lock, self._trying():
            if self._sign():
                self._write(name, content)
                self._bound()

    def _sign(self) -> bool:
        """Write down the present edition; return whether there is one."""
        now = self._edition() if self._is_open else None
        if now is not None and now != self._signed:
            self._write(_EDITION, now.encode())
            self._signed = now
        return now is not None

    def _write(self, name: str, content: bytes) -> None:
        """Write a file whole or not at all; what a power cut leaves of it is found damaged by its digest."""
        self._make_folder()  # whoever empties it may take it away
        aside = self._folder / f"{name}{_ASIDE}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with os.fdopen(os.open(aside, flags, _FILE_MODE), "wb") as file:
            file.write(content)
        aside.replace(self._folder / name)

    def _make_folder(self) -> None:
        self._folder.mkdir(_FOLDER_MODE, exist_ok=True)
        self._folder.chmod(_FOLDER_MODE)

    def _files(self) -> list[tuple[Path, os.stat_result]]:
        """Return the pages that lie there, what was written longest ago first."""
        files = [(path, path.stat()) for path in self._folder.glob(f"*{_PAGE}")]
        return sorted(files, key=lambda file: file[1].st_mtime)

    def _bound(self) -> None:
        """Drop what is too old, and of the rest what was written longest ago, until all fits."""
        files, too_old = self._files(), time.time() - OLDEST_SECONDS
        size = sum(about.st_size for _, about in files)
        for place, (path, about) in enumerate(files):
            if len(files) - place <= self._pages and size <= self._size and about.st_mtime > too_old:
                break
            path.unlink(missing_ok=True)
            size -= about.st_size

    @contextmanager
    def _trying(self) -> Iterator[None]:
        """Count what the disk refuses; that it does is logged once."""
        try:
            yield
        except OSError as error:
            self.failed += 1
            if not self._is_failing:
                _LOG.warning("pages are not kept for the next start, in %s: %s", self._folder, error.strerror)
            self._is_failing = True
        else:
            self._is_failing = False

    @property
    def bytes(self) -> int:
        """How much lies there."""
        with suppress(OSError):
            return sum(about.st_size for _, about in self._files())
        return 0
