"""What Lustre clients moved over the wire, from the statistics of their requests to the servers.

The statistics that `llite` keeps of a mount count what programs asked for, page-cache hits as well: a data set that
is read from memory would pass for traffic. Those of `osc` and `mdc` count the requests that went out.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from agent.procfs import text
from agent.sources.mounts.counters import MountCounters

_TARGETS_MAX = 4096  # of all file systems; each is one small file

# <file system>-OST0000-osc-<client>, <file system>-MDT0000-mdc-<client>; a server's own end with -MDT0000.
_TARGET = re.compile(r"^(.+)-(?:OST|MDT)[0-9a-fA-F]{4}-(?:osc|mdc)-(?!MDT)[^/]+$")
_LINE = re.compile(r"^(\w+)\s+(\d+) samples \[(\w+)\] \d+ \d+ (\d+)", re.MULTILINE)


def lustre_places(proc: Path, sys: Path) -> list[Path]:
    """Return where the clients' statistics are: debugfs as of Lustre 2.12, which only root can enter, else procfs."""
    roots = (proc / "fs/lustre", sys / "kernel/debug/lustre")
    return [root / kind for root in roots for kind in ("osc", "mdc")]


def lustre_counters(places: Sequence[Path]) -> dict[str, MountCounters]:
    """Return the counters of each Lustre file system by its name, summed over its storage targets.

    Where those of one target cannot be read the sum is not known: what the others moved would pass for the whole, and
    the target's whole past for the next interval's.
    """
    found: dict[str, list[MountCounters]] = {}
    unread: set[str] = set()
    for target in _targets(places)[:_TARGETS_MAX]:
        match = _TARGET.match(target.name)
        if match is None:
            continue
        if (stats := text(target / "stats")) is not None:
            found.setdefault(match[1], []).append(target_counters(stats))
        elif (target / "stats").exists():
            unread.add(match[1])
    return {name: _sum(targets) for name, targets in found.items() if name not in unread}


def target_counters(stats: str) -> MountCounters:
    """Return the counters of one storage target's `stats`. A line that is not there counts what never happened.

    Source: lprocfs_stats_seq_show of Lustre: name, count, unit, least, most, sum.
    """
    lines = {(name, unit.rstrip("s")): (int(count), int(total)) for name, count, unit, total in _LINE.findall(stats)}
    reads, waited = lines.get(("ost_read", "usec"), (0, 0))
    writes, _ = lines.get(("ost_write", "usec"), (0, 0))
    return MountCounters(
        read_bytes=lines.get(("read_bytes", "byte"), (0, 0))[1],
        written_bytes=lines.get(("write_bytes", "byte"), (0, 0))[1],
        reads=reads,
        writes=writes,
        read_microseconds=waited,
    )


def system_name(source: str) -> str:
    """Return the file system's name of what is mounted: `10.0.0.1@o2ib:10.0.0.2@o2ib:/name/directory`."""
    return source.rpartition(":/")[2].partition("/")[0]


def _targets(places: Sequence[Path]) -> list[Path]:
    found: list[Path] = []
    for place in places:
        try:
            found += sorted(place.iterdir())
        except OSError:  # no Lustre, or not ours to see
            continue
    return found


def _sum(targets: Sequence[MountCounters]) -> MountCounters:
    return MountCounters(
        read_bytes=sum(target.read_bytes for target in targets),
        written_bytes=sum(target.written_bytes for target in targets),
        reads=sum(target.reads or 0 for target in targets),
        writes=sum(target.writes or 0 for target in targets),
        read_microseconds=sum(target.read_microseconds or 0 for target in targets),
    )
