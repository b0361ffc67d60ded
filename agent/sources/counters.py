"""What the host's kernel counts, as psutil reads it from procfs. The only module that imports psutil.

The pass over all processes is not psutil's but ours (processes/table.py): of two hundred it takes 0.51 ms, psutil 3.0.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from agent.errors import SourceError

# What psutil ends in where a file has another form than it knows; it promises nothing of that.
_FORM = (ArithmeticError, AssertionError, LookupError, NotImplementedError, RuntimeError, TypeError, ValueError)


def processor_ticks(proc: Path) -> dict[str, int]:
    """Return the ticks of all cores since boot by what they went to (user, idle, iowait, …).

    Raises:
        SourceError: procfs does not tell them.
    """
    with _below(proc):
        told = psutil.cpu_times()._asdict()
    # psutil has divided by it; whole numbers again, two readings differ by whole numbers.
    return {what: round(seconds * os.sysconf("SC_CLK_TCK")) for what, seconds in told.items()}


def memory(proc: Path) -> tuple[int, int] | None:
    """Return the host's memory and what of it can be had without swapping, in bytes, or None where it is not told."""
    try:
        with _below(proc):
            found = psutil.virtual_memory()
    except SourceError:
        return None
    return found.total, found.available


def interfaces(proc: Path) -> Mapping[str, Any]:
    """Return psutil's counters of every network interface.

    Raises:
        SourceError: procfs does not tell them.
    """
    with _below(proc):
        return psutil.net_io_counters(pernic=True, nowrap=False)


def disks(proc: Path) -> Mapping[str, Any] | None:
    """Return psutil's counters of every disk and partition, or None where procfs tells of none.

    Raises:
        SourceError: it tells them in a form that is not known.
    """
    if not (proc / "diskstats").exists():  # psutil would then tell those of its own /sys
        return None
    with _below(proc):
        return psutil.disk_io_counters(perdisk=True, nowrap=False)


@contextmanager
def _below(proc: Path) -> Iterator[None]:
    # There is one such place in a process, and one procfs in an agent: no thread ever finds that of another here.
    psutil.PROCFS_PATH = str(proc)
    try:
        yield
    except OSError as error:
        raise SourceError(f"{error.filename or proc} cannot be read; mount procfs there or name its place") from error
    except _FORM as error:
        raise SourceError(f"a file under {proc} has a form that is not known ({error}); report it with it") from error
