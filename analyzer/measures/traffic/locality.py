"""How far bytes went: over GPU links, within a rack, across racks, blocks, zones, regions, or out of the fleet.

A class says the widest border that is known to be crossed. What is not known to stay within a rack is never said to.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

Locality = Literal[
    "gpu_link",
    "rack",
    "across_racks",
    "across_blocks",
    "across_zones",
    "across_regions",
    "outside",
    "internet",
    "unknown",
]
LOCALITIES: tuple[Locality, ...] = get_args(Locality)  # from near to far, then what is not known
_OTHER = "other"  # the agent's name for all peers beyond those that it tells one by one


@dataclass(frozen=True, slots=True)
class HostLocation:
    """Where a host stands; None is unknown."""

    rack: str | None = None
    block: str | None = None
    zone: str | None = None
    region: str | None = None


@dataclass(frozen=True, slots=True)
class ClassBytes:
    """Bytes of one class, each counted once, and how many of them are estimated and not counted."""

    locality: Locality
    bytes: int
    estimated_bytes: int


_BORDERS: tuple[tuple[str, Locality], ...] = (
    ("region", "across_regions"),
    ("zone", "across_zones"),
    ("block", "across_blocks"),
    ("rack", "across_racks"),
)


def between(here: HostLocation, there: HostLocation) -> Locality:
    """Return how far apart two hosts of the fleet are: the widest border known to lie between them."""
    for part, locality in _BORDERS:
        one, other = getattr(here, part), getattr(there, part)
        if one is not None and other is not None and one != other:
            return locality
    return "rack" if here.rack is not None and here.rack == there.rack else "unknown"


def locality(here: str, there: str, places: Mapping[str, HostLocation]) -> Locality:
    """Return how far bytes between two ends went.

    An end that is no host of the fleet is outside (a file server, another site: whatever has a name or a private
    address), in the internet (an address that anybody may route to, an object store's as well), or unknown.
    """
    strangers = [end for end in (here, there) if end not in places]
    if not strangers:
        return between(places[here], places[there])
    found = {_stranger(end) for end in strangers}
    return "unknown" if "unknown" in found else "internet" if "internet" in found else "outside"


def _stranger(peer: str) -> Locality:
    if peer == _OTHER:
        return "unknown"
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return "outside"
    return "internet" if address.is_global else "outside"


def by_class(parts: Iterable[tuple[Locality, int, bool]]) -> tuple[ClassBytes, ...]:
    """Return (class, bytes, estimated) added up by class, from near to far; classes without bytes are left out."""
    sums: dict[Locality, tuple[int, int]] = {}
    for where, amount, estimated in parts:
        whole, guessed = sums.get(where, (0, 0))
        sums[where] = (whole + amount, guessed + (amount if estimated else 0))
    return tuple(ClassBytes(where, *sums[where]) for where in LOCALITIES if sums.get(where, (0, 0))[0])
