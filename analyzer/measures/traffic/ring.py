"""Rings of hosts: how often an order of ranks crosses racks, blocks or zones.

A ring over N hosts has N links, each of which carries the same. How many of them leave a rack depends on the order of
the ranks alone: one for each rack where racks stand together, up to N where they alternate.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LEVELS = ("rack", "block", "zone")


@dataclass(frozen=True, slots=True)
class Ring:
    """How often a ring crosses one kind of place: as it is, at best, and at worst.

    `crossings` is None where it cannot be told; `missing` then says why, in words.
    """

    level: str  # rack, block or zone
    hosts: int
    places: int | None
    crossings: int | None
    contiguous: int | None
    interleaved: int | None
    missing: str | None = None


def ring(level: str, hosts: Sequence[str], places: Mapping[str, str | None]) -> Ring:
    """Return how often a ring of these hosts, in the order of their ranks, changes its rack, block or zone."""
    order = [places.get(host) for host in hosts]
    lacking = [host for host, place in zip(hosts, order, strict=True) if place is None]
    if lacking:
        more = f" and of {len(lacking) - 1} more" if len(lacking) > 1 else ""
        return Ring(level, len(hosts), None, None, None, None, f"the {level} of {lacking[0]}{more} is unknown")
    known = [place for place in order if place is not None]
    counts = tuple(Counter(known).values())
    return Ring(level, len(hosts), len(counts), crossings(known), contiguous(counts), interleaved(counts))


def crossings(order: Sequence[str]) -> int:
    """Return how many of a ring's links lead from one place to another; the last host's leads to the first."""
    return sum(here != there for here, there in zip(order, [*order[1:], *order[:1]], strict=True))


def contiguous(counts: Sequence[int]) -> int:
    """Return the fewest crossings of a ring with so many hosts in each place: one for each place, none in one alone."""
    return len(counts) if len(counts) > 1 else 0


def interleaved(counts: Sequence[int]) -> int:
    """Return the most crossings of a ring with so many hosts in each place.

    All links cross while no place has more than half the hosts; else each of the others stands between two of it.
    """
    whole, largest = sum(counts), max(counts, default=0)
    return whole if 2 * largest <= whole else 2 * (whole - largest)


def next_hosts(hosts: Sequence[str]) -> dict[str, str]:
    """Return to whom each host of a ring sends; of one host alone nobody."""
    return dict(zip(hosts, [*hosts[1:], *hosts[:1]], strict=True)) if len(hosts) > 1 else {}
