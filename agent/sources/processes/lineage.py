"""One process and those above it, as /proc shows them now: for the few that are asked about, without a whole pass."""

from collections.abc import Sequence
from pathlib import Path

from agent.attribution.evidence import Identity, Process, read_process
from agent.procfs import short
from agent.sources.processes.table import Stat, parse_stat

_ANCESTORS_MAX = 64


def lineage(proc: Path, pid: int) -> list[Identity]:
    """Return a process, its parent, and so on up; empty where /proc does not show it."""
    line: list[Identity] = []
    while len(line) < _ANCESTORS_MAX and (stat := read_stat(proc, pid)) is not None:
        line.append((pid, stat.started_ticks))
        pid = stat.parent
    return line


def process_of(proc: Path, line: Sequence[Identity]) -> Process | None:
    """Return what is seen of the process that a lineage begins with, or None where there is none any more."""
    return read_process(proc, *line[0], above=line[1:]) if line else None


def lives(proc: Path, identity: Identity) -> bool:
    """Return whether this process, and not another of its number, is still there."""
    stat = read_stat(proc, identity[0])
    return stat is not None and stat.started_ticks == identity[1] and stat.state != "Z"


def read_stat(proc: Path, pid: int) -> Stat | None:
    """Return what /proc says of a process now, or None where there is none of this number."""
    line = short(f"{proc}/{pid}/stat") if pid > 0 else None
    return None if line is None else parse_stat(line)
