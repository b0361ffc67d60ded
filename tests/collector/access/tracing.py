"""Every address that a process and its children bind, connect or send to, as the kernel is asked for it (strace)."""

import re
import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_SECONDS

CALLS = "bind,connect,sendto,sendmsg,sendmmsg"
_CALL = re.compile(r"\b(bind|connect|sendto|sendmsg|sendmmsg)\(")
_V4 = re.compile(r'sin_port=htons\((\d+)\), sin_addr=inet_addr\("([^"]+)"\)')
_V6 = re.compile(r'sin6_port=htons\((\d+)\).*?inet_pton\(AF_INET6, "([^"]+)"')
_UNIX = re.compile(r'sa_family=AF_UNIX, sun_path=(@?"[^"]*")')
_FAMILY = re.compile(r"sa_family=(AF_\w+)")


@dataclass(frozen=True)
class Asked:
    """One address: by which call, and as host:port, the path of a socket, or the family of another kind."""

    call: str
    address: str


class Traced:
    """A process under strace; stop it, then ask what it reached for."""

    def __init__(self, line: list[str], folder: Path, environment: Mapping[str, str], cwd: Path) -> None:
        if shutil.which("strace") is None:
            pytest.skip("strace is missing: apt-get install strace")
        if subprocess.run(["strace", "-o", str(folder / "try"), "true"], capture_output=True).returncode:
            pytest.skip("optional: strace may trace nothing here")
        self._file = folder / "trace"
        tracing = ["strace", "-f", "--seccomp-bpf", "-qq", "-s", "200", "-e", f"trace={CALLS}", "-o", str(self._file)]
        self._log = (folder / "log").open("wb")
        self.process = subprocess.Popen(
            [*tracing, *line], env=dict(environment), cwd=cwd, stdout=self._log, stderr=self._log
        )

    def stop(self) -> set[Asked]:
        """End it in order and return every address."""
        # strace passes on what its child gets; told itself, it would leave the child alone.
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for child in children:
            subprocess.run(["kill", f"-{signal.SIGTERM.value}", child], check=False)
        try:
            self.process.wait(PATIENCE_SECONDS)
        finally:
            self._log.close()
        return asked(self._file.read_text(errors="replace"))


def asked(trace: str) -> set[Asked]:
    """Return the addresses of a trace."""
    found = set()
    for line in trace.splitlines():
        call = _CALL.search(line)
        if call is None:
            continue
        for port, host in _V4.findall(line):
            found.add(Asked(call[1], f"{host}:{port}"))
        for port, host in _V6.findall(line):
            found.add(Asked(call[1], f"[{host}]:{port}"))
        for path in _UNIX.findall(line):
            found.add(Asked(call[1], path.strip('"')))
        for family in set(_FAMILY.findall(line)) - {"AF_INET", "AF_INET6", "AF_UNIX"}:
            found.add(Asked(call[1], family))
    return found
