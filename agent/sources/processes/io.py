"""The bytes that processes moved, where this user may see them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agent.procfs import short
from agent.sources.processes.spending import Counter

_FIELD = re.compile(rb"^(read_bytes|write_bytes): (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class IoTable:
    """Bytes by pid. The kernel adds a reaped child's bytes to its parent's, so that all count as taken over."""

    read: dict[int, Counter]
    written: dict[int, Counter]


def read_io(proc: Path, pids: Iterable[int]) -> IoTable:
    """Return the bytes of these processes; one that may not be looked at, or has ended, is left out.

    Other users' processes need CAP_SYS_PTRACE. Source: proc_pid_io(5); what was fetched from and sent to storage,
    not what was served from the page cache.
    """
    table = IoTable({}, {})
    for pid in pids:
        fields = dict(_FIELD.findall(short(f"{proc}/{pid}/io") or b""))
        if len(fields) == 2:
            table.read[pid] = (0, int(fields[b"read_bytes"]))
            table.written[pid] = (0, int(fields[b"write_bytes"]))
    return table
