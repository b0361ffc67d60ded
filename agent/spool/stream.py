"""Which stream a spool belongs to, found again after whatever has happened to its directory.

The file `stream` holds a UUID a line: the stream, then what may be removed, since a change of streams was under way.
"""

import contextlib
import logging
import uuid
from pathlib import Path

from agent.files import Disk
from agent.spool.quarantine import Quarantine

_LOG = logging.getLogger(__name__)
NOTE = "stream"
_MOST_BYTES = 1024  # of a note; a longer one is none


class StreamNote:
    """The note of one spool's directory."""

    def __init__(self, directory: Path, disk: Disk, quarantine: Quarantine) -> None:
        self._directory = directory
        self._disk = disk
        self._quarantine = quarantine

    def settle(self) -> str:
        """Return the stream, whose directory is there; a new one where none can be found again.

        Raises:
            OSError: the directory cannot be read or written.
        """
        stream, *removable = self._read() or [""]
        for old in removable:
            with contextlib.suppress(OSError):
                if old != stream:
                    self._disk.remove(self._directory / old)
        if stream and (self._directory / stream).is_dir():
            return stream
        stream = self._only() or self._made()
        self.write(stream)
        return stream

    def write(self, stream: str, *removable: str) -> None:
        """Note durably which stream is valid, and what may be removed."""
        self._disk.write(self._directory / NOTE, "\n".join((stream, *removable)).encode())

    def _read(self) -> list[str]:
        path = self._directory / NOTE
        if path.is_symlink() or (path.exists() and not path.is_file()):
            self._quarantine.take(path, "none", "no file")
        try:
            with path.open("rb") as file:
                lines = file.read(_MOST_BYTES).decode("ascii", "replace").split()
        except FileNotFoundError:
            return []
        except OSError as error:
            self._quarantine.take(path, "none", f"it cannot be read: {error}")
            return []
        return lines if lines and all(map(_is_stream, lines)) else []

    def _only(self) -> str | None:
        """Return the stream whose directory was written to last: opening another would strand what waits there."""
        named = (path for path in self._directory.iterdir() if _is_stream(path.name) and not path.is_symlink())
        streams = (path for path in named if path.is_dir())
        newest = max(streams, key=lambda path: path.stat().st_mtime_ns, default=None)
        if newest is None:
            return None
        _LOG.warning("the spool's note of its stream is lost: going on with %s", newest.name)
        return newest.name

    def _made(self) -> str:
        stream = str(uuid.uuid4())
        self._disk.make_directory(self._directory / stream)
        self._disk.sync_directory(self._directory)  # a note must never be more durable than what it names
        return stream


def _is_stream(name: str) -> bool:
    """Return whether this is written as a stream's UUID is."""
    try:
        return str(uuid.UUID(name)) == name
    except ValueError:
        return False
