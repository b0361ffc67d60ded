"""Run gpuledger with its threads' names told to the kernel, so that their processor time can be told apart."""

import ctypes
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

PR_SET_NAME = 15  # prctl(2)


def _told(run: Callable[[threading.Thread], Any]) -> Callable[[threading.Thread], Any]:
    libc = ctypes.CDLL(None)

    def named(self: threading.Thread) -> Any:  # noqa: ANN401 - whatever run returns
        libc.prctl(PR_SET_NAME, self.name.encode()[:15], 0, 0, 0)
        return run(self)

    return named


def main() -> int:
    """Run the command that the arguments name."""
    sys.path.insert(0, str(Path(__file__).parent.parent))
    threading.Thread.run = _told(threading.Thread.run)  # type: ignore[method-assign, assignment]
    from gpuledger import main as gpuledger

    sys.argv[0] = "gpuledger"
    return gpuledger()


if __name__ == "__main__":
    sys.exit(main())
