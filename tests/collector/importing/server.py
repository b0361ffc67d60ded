"""A real Prometheus on this machine that serves a directory of blocks, on a free port of loopback."""

import json
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.fleet.ports import free_port
from tests.waiting import PATIENCE_SECONDS, until
from tests.watchdog import PREFIX, remove_at_end

DISK = Path("/var/tmp")


def missing() -> list[str]:
    """Return the programs that are not installed."""
    return [name for name in ("prometheus", "promtool") if shutil.which(name) is None]


def make_blocks(openmetrics: Path, data: Path) -> None:
    """Have promtool make blocks of a text, and put them to those that a data directory has.

    On a disk: it sets 512 MiB aside for every block, which a disk notes and a folder in memory fills with zeros. A
    block may span days, as a server's own do in the end: it reads the whole text anew for each.
    """
    data.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=DISK if DISK.is_dir() else None) as made:
        remove_at_end(Path(made))
        words = [shutil.which("promtool") or "promtool", "tsdb", "create-blocks-from", "--max-block-duration=168h"]
        words += ["openmetrics"]
        done = subprocess.run([*words, str(openmetrics), made], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        for block in Path(made).iterdir():
            shutil.move(block, data / block.name)


@contextmanager
def prometheus(data: Path, more: Mapping[str, object] | None = None, *flags: str) -> Iterator[str]:
    """Serve a directory's blocks, with more of its configuration and flags where they are given; yield the address."""
    port = free_port()
    config = data.parent / "prometheus.yml"
    config.write_text(json.dumps({"global": {"scrape_interval": "1s" if more else "1m"}} | dict(more or {})))
    words = [
        shutil.which("prometheus") or "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={data}",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
        *flags,
    ]
    with (data.parent / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        until(
            lambda: _ready(port),
            "Prometheus is ready",
            process=process,
            more=(data.parent / "prometheus.log").read_text,
        )
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def _ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=PATIENCE_SECONDS) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
