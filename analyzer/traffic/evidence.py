"""What a finding about crossing racks shows of the run's ring: where its ranks stand, and how they alternate."""

from collections import Counter
from collections.abc import Mapping, Sequence

from analyzer.findings import Evidence
from analyzer.traffic.ring import ring

RACKS_SHOWN = 4


def ring_evidence(hosts: Sequence[str], racks: Mapping[str, str | None]) -> tuple[Evidence, ...]:
    """Return the lines for a run's hosts in the order of their ranks; none of one host, or where a rack is unknown."""
    found = ring("rack", hosts, racks)
    if found.crossings is None or found.contiguous is None or len(hosts) < 2:
        return ()
    counts = Counter(racks[host] or "" for host in hosts)
    names = [f"{rack}: {count} host{'' if count == 1 else 's'}" for rack, count in sorted(counts.items())]
    more = f" and {len(names) - RACKS_SHOWN} racks more" if len(names) > RACKS_SHOWN else ""
    where = Evidence("ranks by rack", ", ".join(names[:RACKS_SHOWN]) + more)
    if found.contiguous == 0:
        return (where,)
    avoidable = found.crossings > found.contiguous
    best = f"; ordered by rack {found.contiguous} times" if avoidable else ", which is the least"
    times = f"changes rack {found.crossings} times of {found.hosts}{best}"
    return (where, Evidence("their ring", times, "<- the limit" if avoidable else ""))
