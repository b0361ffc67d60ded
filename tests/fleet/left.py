"""What servers leave in /tmp when the run that started them is killed: they cannot lie in pytest's folder."""

import shutil
import time
from pathlib import Path

SHARED = Path("/tmp")  # where another user may enter, and where SeaweedFS lays its sockets whatever it is told
OLD_SECONDS = 86_400.0  # no run takes a day


def clear_left(pattern: str) -> None:
    """Remove what matches and is a day old."""
    for path in SHARED.glob(pattern):
        try:
            old = time.time() - path.lstat().st_mtime > OLD_SECONDS
        except OSError:  # another worker clears, too
            continue
        if old and path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif old:
            path.unlink(missing_ok=True)
