"""Collectors in processes of their own, as an operator runs them: `gpuledger serve --only collector`."""

import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.fleet.ports import free_ports
from tests.waiting import until

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 240.0  # for the first answer, and for an orderly end: what has arrived is sealed first
SHOWN_CHARACTERS = 3000


class Collector:
    """One collector on a port of its own; `settings` are its flags. `launcher` is what Python runs in its stead."""

    def __init__(
        self,
        store: Path,
        settings: Mapping[str, str] | None = None,
        launcher: Sequence[str] = ("-m", "gpuledger"),
        environment: Mapping[str, str] | None = None,
        *,
        public: bool = False,
    ) -> None:
        self.store = store
        (self.port,) = free_ports(1)
        self._settings = {"store": str(store), "listen": f"127.0.0.1:{self.port}", **(settings or {})}
        if public:  # one of several: the others send agents here
            self._settings |= {"direct_url": self.url, "name": store.stem}
        self._launcher = launcher
        self._environment = environment or {}
        self._log = store.with_suffix(".log")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None, "the collector does not run"
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def said(self) -> str:
        """The end of what it logged."""
        return self._log.read_text()[-SHOWN_CHARACTERS:]

    def start(self, *, wait: bool = True) -> None:
        """Start it; return when it answers, or at once."""
        flags = [part for name, value in self._settings.items() for part in (f"--{name.replace('_', '-')}", value)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *self._launcher, "serve", "--only", "collector", *flags],
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": str(ROOT)} | dict(self._environment),
                stdout=log,
                stderr=log,
            )
        if wait:
            until(self.answers, f"the collector of {self.store.name} answers", PATIENCE_SECONDS)

    def answers(self) -> bool:
        """Whether it answers; that it has ended by itself is an error."""
        assert self.is_alive, f"the collector ended by itself:\n{self.said}"
        try:
            with urllib.request.urlopen(f"{self.url}/metrics", timeout=PATIENCE_SECONDS) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def kill(self) -> None:
        """End it as a power cut would: no handler runs, nothing is flushed."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def kill_and_lose_all(self) -> None:
        """End it, and its disk with it."""
        self.kill()
        for file in self.store.parent.glob(f"{self.store.name}*"):
            shutil.rmtree(file) if file.is_dir() else file.unlink()

    def stop(self) -> None:
        """End it as systemd does; it seals what has arrived."""
        if self._process is not None:
            self._process.terminate()
            code = self._process.wait(PATIENCE_SECONDS)
            assert code == 0, f"the collector ended with {code}:\n{self.said}"
            self._process = None
