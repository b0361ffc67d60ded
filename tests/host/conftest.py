"""A captured host whose /proc and /sys move on when told."""

import functools
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from agent.attribution.evidence import Process
from agent.attribution.gpu_process import GpuProcess, Holding
from agent.attribution.run import Attribution, Place, attribute

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
    return functools.partial(attribute, place=Place("n14", "alpha"))


def told(held: Iterable[GpuProcess]) -> Holding:
    """Return the word of a driver that lists the processes of every GPU of the captured host."""
    processes = tuple(held)
    return Holding(processes, frozenset({"GPU-a", "GPU-b", "GPU-c", *(one.gpu_uuid for one in processes)}))


@pytest.fixture
def holder() -> type[GpuProcess]:
    """Return what stands for a process on a GPU."""
    return GpuProcess
