"""The site's price file while a server runs: what it says now, and how another takes its place, whole or not at all.

The next analysis reads the new one. What it changes in hours that are closed becomes adjustments, as after an edit by
hand.
"""

import hashlib
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from analyzer.errors import ConfigError, LedgerError, StaleError
from analyzer.prices.price_book import PriceBook
from collector.store.power import sync

MAX_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class PriceFileState:
    """What the file says, the tag of these very bytes, and the version of the prices, which the ledger's hours bear."""

    content: bytes
    tag: str
    version: str


class PriceFile:
    """One price file. Safe to use from several threads of one process."""

    def __init__(self, path: Path, currency: str) -> None:
        self.path = path
        self._currency = currency
        self._lock = threading.Lock()

    def told(self) -> PriceFileState:
        """Return what it says now.

        Raises:
            ConfigError: it cannot be read, or is wrong.
        """
        try:
            content = self.path.read_bytes()
        except OSError as error:
            raise ConfigError(f"cannot read {self.path}: {error.strerror}; fix its permissions") from error
        return self._understood(content)

    def put(self, content: bytes, tag: str, before: Callable[[PriceFileState, PriceFileState], None]) -> PriceFileState:
        """Put new content in the place of what has this tag, durably; return what it says then.

        `before` is called with what it says now and what it will say, once nothing is wrong with either.

        Raises:
            ConfigError: the new one is wrong, or counts in another currency than the ledger.
            StaleError: the file is not the one that has this tag any more.
            LedgerError: the server may not write there.
        """
        with self._lock:
            now = self.told()
            if now.tag != tag:
                raise StaleError(f"{self.path.name} changed since it was read; read it again, and edit that")
            then = self._understood(content)
            before(now, then)
            try:
                _replace(self.path, content)
            except OSError as error:
                raise LedgerError(
                    f"cannot write {self.path}: {error.strerror}; the server's user must own the file and its folder"
                    " (of the unit of systemd/: below /var/lib/gpuledger)"
                ) from error
            return then

    def _understood(self, content: bytes) -> PriceFileState:
        book = PriceBook.parse(self.path.name, content, self.path.parent)
        if book.currency != self._currency:
            raise ConfigError(f"{self.path.name} is in {book.currency}, the ledger in {self._currency}")
        return PriceFileState(content, hashlib.sha256(content).hexdigest()[:16], book.version)


def _replace(path: Path, content: bytes) -> None:
    aside = path.with_name(f".{path.name}.new")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, path.stat().st_mode & 0o7777)
        file.write(content)
        file.flush()
        os.fsync(descriptor)
    aside.replace(path.resolve())
    sync(path.resolve().parent)
