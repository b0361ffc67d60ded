"""A real PostgreSQL for tests and benches: its own cluster in a folder of its own, on loopback, killed as one likes.

PostgreSQL refuses to run as root, so there it runs as the user that its package made.
"""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

import psycopg

from tests.fleet.ports import free_ports
from tests.waiting import PATIENCE_SECONDS, until
from tests.watchdog import run_folder

USER = "gpuledger"
QUICK = ("-c", "fsync=off")  # what a killed process has written stays; only a power cut needs more


class Postgres:
    """One cluster. `quick` leaves out what protects against power cuts alone."""

    def __init__(self, *, quick: bool = True) -> None:
        self._bin = binaries()
        self._user = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
        # Not in pytest's own folder within, which another user cannot enter.
        self.directory = Path(tempfile.mkdtemp(prefix="postgres-", dir=run_folder()))
        (self.port,) = free_ports(1)
        self._quick = quick
        self._server: subprocess.Popen[bytes] | None = None
        self._names = 0

    def __enter__(self) -> "Postgres":
        if self._user is not None:
            os.chown(self.directory, self._user.pw_uid, self._user.pw_gid)
        self._run("initdb", "-D", str(self.directory / "data"), "-A", "trust", "-U", USER, "-N", "--no-locale")
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def start(self) -> None:
        """Start it, and return when it answers; after a kill it first repeats its log."""
        flags = ["-D", str(self.directory / "data"), "-p", str(self.port), *(QUICK if self._quick else ())]
        only_loopback = ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
        only_loopback += [
            "-c",
            "dynamic_shared_memory_type=mmap",
        ]  # in its folder; one that is killed leaves the others
        with (self.directory / "log").open("ab") as log:
            self._server = subprocess.Popen(
                self._as_user("postgres", *flags, *only_loopback), stdout=log, stderr=log, start_new_session=True
            )
        until(self._answers, "PostgreSQL answers")

    def kill(self) -> None:
        """End it and all its children as a power cut would; nothing happens where it does not run."""
        if self._server is not None:
            children = _children(self._server.pid)
            self._server.kill()
            self._server.wait(PATIENCE_SECONDS)
            for child in children:  # they lead sessions of their own, and would hold the shared memory for a while
                _kill(child)
            self._server = None

    def database(self) -> str:
        """Make a new database and return how to reach it, in libpq's words."""
        self._names += 1
        name = f"lake_{os.getpid()}_{self._names}"
        with psycopg.connect(self._dsn("postgres"), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"'.encode())
        return self._dsn(name)

    def _dsn(self, database: str) -> str:
        return f"dbname={database} host=127.0.0.1 port={self.port} user={USER}"

    def _answers(self) -> bool:
        assert self._server is not None
        assert self._server.poll() is None, (self.directory / "log").read_text()[-2000:]
        try:
            psycopg.connect(self._dsn("postgres"), connect_timeout=int(PATIENCE_SECONDS)).close()
        except psycopg.OperationalError:
            return False
        return True

    def _run(self, command: str, *arguments: str) -> None:
        done = subprocess.run(self._as_user(command, *arguments), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def _as_user(self, command: str, *arguments: str) -> list[str]:
        """Return a command of that user; to start one by its number Python forks, and a worker is too large for that.

        What a worker has mapped and never touched may be more than the machine has, of which Linux makes no copy.
        """
        line = [str(self._bin / command), *arguments]
        if self._user is None:
            return line
        return ["setpriv", f"--reuid={self._user.pw_uid}", f"--regid={self._user.pw_gid}", "--clear-groups", *line]


def binaries() -> Path:
    """Return the folder of PostgreSQL's servers: Debian keeps it off the PATH, one a version.

    Raises:
        FileNotFoundError: there is none.
    """
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("postgres")
    if not found and on_path is None:
        raise FileNotFoundError("no PostgreSQL server is installed; make services installs it")
    return (found[-1] if found else Path(str(on_path))).parent


def _children(pid: int) -> list[int]:
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
