"""A captured host, and hosts in network namespaces."""

import contextlib
import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from agent.attribution.devices import GpuProcess, Holding
from agent.attribution.evidence import Process
from agent.attribution.run import Attribution, HostIdentity, attribute, unified_root

DATA = Path(__file__).parent / "data"


class CapturedHost:
    """Two captures of one host, ten seconds apart. It starts at the first; `move_on` shows the later one."""

    def __init__(self, at: Path) -> None:
        self._at = at
        self.seconds = 1000.0
        self.microseconds = 1_795_219_200_000_000
        for snapshot in ("first", "later"):
            shutil.copytree(DATA / "n14" / snapshot, at / snapshot)
        self.proc, self.sys = at / "now/proc", at / "now/sys"
        (at / "now").symlink_to(at / "first")

    def move_on(self) -> None:
        """Let ten seconds pass."""
        (self._at / "now").unlink()
        (self._at / "now").symlink_to(self._at / "later")
        self.seconds += 10
        self.microseconds += 10_000_000

    def monotonic(self) -> float:
        """Return seconds of the captured host's clock."""
        return self.seconds

    def wall(self) -> int:
        """Return microseconds UTC of the captured host's clock."""
        return self.microseconds


@pytest.fixture
def host(tmp_path: Path) -> CapturedHost:
    """Return a captured host of one's own, which a test may damage."""
    return CapturedHost(tmp_path)


@pytest.fixture
def attribution() -> Callable[[Process], Attribution]:
    """Return the attribution of the host n14 in cluster alpha."""
    return functools.partial(attribute, place=HostIdentity("n14", "alpha"))


def told(held: Iterable[GpuProcess]) -> Holding:
    """Return the word of a driver that lists the processes of every GPU of the captured host."""
    processes = tuple(held)
    return Holding(processes, frozenset({"GPU-a", "GPU-b", "GPU-c", *(one.gpu_uuid for one in processes)}))


@pytest.fixture
def holder() -> type[GpuProcess]:
    """Return what stands for a process on a GPU."""
    return GpuProcess


ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent


class Racks:
    """A host n1 in one rack, n2 and n3 in another. Each is a network namespace of its own, gone after the test."""

    ADDRESSES: Mapping[str, tuple[str, str]] = {  # of each far host: n1's end of the link, and its own
        "n2": ("10.213.2.1", "10.213.2.2"),
        "n3": ("fd00:213::1", "fd00:213::3"),
    }

    def __init__(self) -> None:
        self._stem = f"gl{os.getpid()}"
        self._children = contextlib.ExitStack()
        self._cgroups = unified_root(Path("/sys")) / f"gpuledger-test-{os.getpid()}"

    def build(self) -> None:
        """Make the namespaces and the links between them."""
        for host in ("n1", *self.ADDRESSES):
            self._ip("netns", "add", self._name(host))
        for number, (host, ends) in enumerate(self.ADDRESSES.items()):
            near, far = f"{self._stem}a{number}", f"{self._stem}b{number}"
            self._ip(
                *("link", "add", near, "netns", self._name("n1"), "type", "veth"),
                *("peer", "name", far, "netns", self._name(host)),
            )
            for namespace, link, address in (("n1", near, ends[0]), (host, far, ends[1])):
                bits, options = ("64", ("nodad",)) if ":" in address else ("24", ())
                self._ip("-n", self._name(namespace), "addr", "add", f"{address}/{bits}", "dev", link, *options)
                self._ip("-n", self._name(namespace), "link", "set", link, "up")

    def start(self, host: str, *command: str, cgroup: Path | None = None) -> subprocess.Popen[str]:
        """Start a Python file of this folder on a host, and end it with the test."""
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        if cgroup is not None:
            environment["GPULEDGER_TEST_CGROUP"] = str(cgroup)
        file, *arguments = command
        child = subprocess.Popen(
            ["nsenter", f"--net=/run/netns/{self._name(host)}", sys.executable, str(HERE / file), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self._children.push(child)
        self._children.callback(child.kill)
        return child

    def job(self) -> Path:
        """Return the innermost cgroup of a Slurm job 81234, as slurmd would make it."""
        task = self._cgroups / "slurmstepd.scope/job_81234/step_0/user/task_0"
        try:
            task.mkdir(parents=True)
        except OSError as error:
            pytest.skip(f"cgroup v2 cannot be written here: {error}")
        return task

    def lose(self, host: str, *, lost: bool) -> None:
        """Let every packet from n1 to a host go astray, or arrive again: its link-layer address is not the host's."""
        address = self.ADDRESSES[host][1]
        link = f"{self._stem}a{list(self.ADDRESSES).index(host)}"
        if lost:
            self._ip(
                *("-n", self._name("n1"), "neigh", "replace", address, "dev", link),
                *("lladdr", "02:00:00:00:00:99", "nud", "permanent"),
            )
        else:
            self._ip("-n", self._name("n1"), "neigh", "del", address, "dev", link)

    def lost(self) -> int:
        """Return how many segments n1's kernel has sent again."""
        words = ["nsenter", f"--net=/run/netns/{self._name('n1')}", "cat", "/proc/net/snmp"]
        said = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
        names, values = (line.split() for line in said if line.startswith("Tcp:"))
        return int(values[names.index("RetransSegs")])

    def close(self) -> None:
        """End what was started, and take cgroups and namespaces down; links go with their namespaces."""
        self._children.close()
        for directory, _, _ in os.walk(self._cgroups, topdown=False):
            Path(directory).rmdir()
        for host in ("n1", *self.ADDRESSES):
            subprocess.run(["ip", "netns", "del", self._name(host)], capture_output=True)

    def _name(self, host: str) -> str:
        return f"{self._stem}-{host}"

    def _ip(self, *arguments: str) -> None:
        done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
        if done.returncode:
            raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


@pytest.fixture
def racks() -> Iterator[Racks]:
    """Return two racks of one's own."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    if not (shutil.which("ip") and shutil.which("nsenter")):
        pytest.skip("network namespaces need iproute2 and util-linux")
    made = Racks()
    try:
        made.build()
    except OSError as error:
        made.close()
        pytest.skip(f"network namespaces cannot be made here: {error}")
    yield made
    made.close()
