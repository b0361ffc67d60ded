"""Prometheus and VictoriaMetrics on loopback, to compare with: started, asked to put everything on disk, weighed."""

import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.fleet.ports import free_ports, listens
from tests.waiting import until

SETTLING_SECONDS = 600.0
QUIET_SECONDS = 5.0  # of a size that does not change any more


class Server:
    """One store of time series; `flags` are those of its command."""

    def __init__(self, program: str, directory: Path, flags: Mapping[str, str]) -> None:
        found = shutil.which(program)
        assert found is not None, f"{program} is not installed; make services installs it"
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._command = [found, *(f"{name}={value}" for name, value in flags.items())]
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def __enter__(self) -> Self:
        (self.port,) = free_ports(1)
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen([*self._command, self._listen()], stdout=log, stderr=log)
        until(lambda: listens(self.port), f"{self._command[0]} answers")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait()

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None
        return self._process.pid

    def ask(self, path: str, method: str = "GET") -> bytes:
        """Return what it answers."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method)
        with urllib.request.urlopen(request, timeout=SETTLING_SECONDS) as answer:
            return bytes(answer.read())

    def metric(self, *beginnings: str) -> float:
        """Return the sum of its own metrics whose lines begin so."""
        lines = self.ask("/metrics").decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(beginnings))

    def _listen(self) -> str:
        raise NotImplementedError


class Prometheus(Server):
    """With its remote write receiver, and the door through which a snapshot is asked for."""

    def __init__(self, directory: Path) -> None:
        config = directory / "prometheus.yml"
        directory.mkdir(parents=True, exist_ok=True)
        config.write_text("scrape_configs: []\n")
        flags = {
            "--config.file": str(config),
            "--storage.tsdb.path": str(directory / "data"),
            "--storage.tsdb.retention.time": "20y",
            "--web.enable-remote-write-receiver": "true",
            "--web.enable-admin-api": "true",
            "--log.level": "warn",
        }
        super().__init__("prometheus", directory, {name: value for name, value in flags.items() if value != "true"})
        self._command += [name for name, value in flags.items() if value == "true"]

    def values(self) -> int:
        """Return how many samples it has taken."""
        return round(self.metric("prometheus_tsdb_head_samples_appended_total"))

    def bytes_at_rest(self) -> int:
        """Return the bytes of everything as blocks on disk: a snapshot compacts what is in memory."""
        name = json.loads(self.ask("/api/v1/admin/tsdb/snapshot", "POST"))["data"]["name"]
        return bytes_of(self.directory / "data" / "snapshots" / name)

    def _listen(self) -> str:
        return f"--web.listen-address=127.0.0.1:{self.port}"


class VictoriaMetrics(Server):
    """A single node."""

    def __init__(self, directory: Path) -> None:
        flags = {"-storageDataPath": str(directory / "data"), "-retentionPeriod": "20y"}
        super().__init__("victoria-metrics", directory, flags)

    def values(self) -> int:
        """Return how many samples it has stored."""
        self.ask("/internal/force_flush")
        return round(self.metric('vm_rows{type="storage/'))

    def bytes_at_rest(self) -> int:
        """Return the bytes on disk, index included, once all is flushed, and merged until that makes it no smaller."""
        size = self._merged()
        while (smaller := self._merged()) < size:
            size = smaller
        return size

    def _merged(self) -> int:
        self.ask("/internal/force_flush")
        self.ask("/internal/force_merge")  # which begins it and does not wait
        until(lambda: not self.metric("vm_active_merges"), "VictoriaMetrics has merged", SETTLING_SECONDS)
        return _steady(self.directory / "data")

    def _listen(self) -> str:
        return f"-httpListenAddr=127.0.0.1:{self.port}"


def bytes_of(folder: Path) -> int:
    """Return the bytes of the files below a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _steady(folder: Path) -> int:
    """Return the size of a folder that has not changed for a while."""
    before, since = -1, time.monotonic()
    while time.monotonic() - since < QUIET_SECONDS:
        try:
            now = bytes_of(folder)
        except FileNotFoundError:  # a part that was merged away while we looked
            continue
        if now != before:
            before, since = now, time.monotonic()
        time.sleep(0.5)
    return before
