"""A run's own socket, for the time that `gpuledger run` watches it: where nobody else can reach it."""

import contextlib
import logging
import shutil
import socket
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path

from agent.errors import SourceError
from agent.sources.progress.sender_run import one_run
from agent.sources.progress.source import VARIABLE, ProgressSource

_LOG = logging.getLogger(__name__)


class OwnProgress:
    """Opens a socket in a directory that is ours alone. `source` is None where none can be had: the run goes on.

    What the run says is handed on to `agent` too, the socket of an agent on this host, where it would have been said.
    """

    def __init__(self, run_id: str, proc: Path, columns: Collection[str], agent: Path | None) -> None:
        self.source: ProgressSource | None = None
        self.environment: dict[str, str] = {}  # what the command is told
        self._directory: str | None = None
        self._onward = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._onward.setblocking(False)
        try:
            self._directory = tempfile.mkdtemp(prefix="gpuledger-")
            path = Path(self._directory) / "progress.sock"
            source = ProgressSource(path, one_run(run_id, proc), proc, columns, self._to(agent))
            source.open()
        except (OSError, SourceError) as error:
            _LOG.warning("the run cannot tell its progress: %s", error)
        else:
            self.source, self.environment = source, {VARIABLE: str(path)}

    def close(self) -> None:
        """Remove the socket and its directory."""
        if self.source is not None:
            self.source.close()
        self._onward.close()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    def _to(self, agent: Path | None) -> Callable[[bytes], None]:
        def relay(message: bytes) -> None:
            with contextlib.suppress(OSError):  # no agent, or it is busy
                self._onward.sendto(message, str(agent))

        return relay if agent is not None else lambda _: None
