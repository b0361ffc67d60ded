"""What must outlive a restart of the agent: GPUs seen and their holders, energy, open allocations. A small JSON file.

Losing it costs little and stops nothing: a GPU that died meanwhile is missed, an energy epoch begins anew.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agent.files import write_durably
from agent.wire.bounded import json_said

_LOG = logging.getLogger(__name__)
_WRITE_SECONDS = 60.0  # between two writes: every write is synced, and the disk is the runs'
_MOST_BYTES = 4 * 2**20


class StateFile:
    """Named sections of JSON; `path` None keeps them in memory only. Safe to use from several threads.

    `failures` counts the times the file could not be read or written.
    """

    def __init__(self, path: Path | None, seconds: Callable[[], float] = time.monotonic) -> None:
        self.failures = 0
        self._path = path
        self._seconds = seconds
        self._lock = threading.Lock()
        self._sections: dict[str, Any] = {} if path is None else self._read(path)
        self._dirty = False
        self._written = -_WRITE_SECONDS

    def section(self, name: str) -> dict[str, Any]:
        """Return what was kept under a name; empty where there is nothing."""
        with self._lock:
            content = self._sections.get(name)
            return dict(content) if isinstance(content, dict) else {}

    def keep(self, name: str, content: Mapping[str, Any]) -> None:
        """Keep this under a name, in place of what was there; on disk within a minute, and at close()."""
        with self._lock:
            if self._sections.get(name) == content:
                return
            self._sections[name] = dict(content)
            self._dirty = True
            if self._seconds() - self._written >= _WRITE_SECONDS:
                self._write()

    def close(self) -> None:
        """Write what is not yet written."""
        with self._lock:
            self._write()

    def _read(self, path: Path) -> dict[str, Any]:
        try:
            with path.open("rb") as file:
                text = file.read(_MOST_BYTES + 1)
            if len(text) > _MOST_BYTES:
                raise ValueError(f"larger than {_MOST_BYTES} bytes")
            content = json_said(text)
            if not isinstance(content, dict):
                raise ValueError("no JSON object")
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            self._fails("read", error)
            return {}
        return content

    def _write(self) -> None:
        if not self._dirty or self._path is None:
            return
        self._written = self._seconds()
        try:
            write_durably(self._path, json.dumps(self._sections, separators=(",", ":")).encode())
            self._dirty = False
        except OSError as error:
            self._fails("written", error)

    def _fails(self, what: str, error: Exception) -> None:
        self.failures += 1
        if self.failures == 1:
            _LOG.warning("%s cannot be %s (%s); a restart will know less of what was before", self._path, what, error)
