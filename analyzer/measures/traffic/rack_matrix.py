"""Who sent how much to whom, of many runs together, by rack: what a fleet's page shows. Pure; no byte is lost."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from analyzer.measures.traffic.locality import HostLocation
from analyzer.measures.traffic.run_traffic import RunTraffic

UNKNOWN_RACK = "rack unknown"
ELSEWHERE = "elsewhere"  # file servers, other sites, peers that nobody names


@dataclass(frozen=True, slots=True)
class RackCell:
    """Bytes from one rack to another, and how many of them are estimated from RDMA ports, and not counted."""

    bytes: int = 0
    estimated_bytes: int = 0


@dataclass(frozen=True, slots=True)
class RackMatrix:
    """Racks in their order, what is elsewhere last, and the bytes between each two; what nobody sent is left out."""

    racks: tuple[str, ...]
    cells: Mapping[tuple[str, str], RackCell]

    @property
    def bytes(self) -> int:
        """All bytes."""
        return sum(cell.bytes for cell in self.cells.values())


def rack_matrix(runs: Iterable[RunTraffic], places: Mapping[str, HostLocation], most: int | None = None) -> RackMatrix:
    """Return the matrix; of more racks than `most` those that moved least stand together as "N racks more"."""
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for run in runs:
        for cell in run.matrix.cells:
            ends = _rack(cell.from_, places), _rack(cell.to, places)
            sums[ends][0] += cell.bytes
            sums[ends][1] += cell.bytes if cell.basis != "tcp" else 0
    names = _folded({end for ends in sums for end in ends}, sums, most)
    found: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for (here, there), (whole, estimated) in sums.items():
        ends = names[here], names[there]
        found[ends][0] += whole
        found[ends][1] += estimated
    racks = sorted(set(names.values()), key=_order)
    return RackMatrix(tuple(racks), {ends: RackCell(*amounts) for ends, amounts in found.items() if amounts[0]})


def _rack(end: str, places: Mapping[str, HostLocation]) -> str:
    place = places.get(end)
    return ELSEWHERE if place is None else place.rack or UNKNOWN_RACK


def _folded(racks: set[str], sums: Mapping[tuple[str, str], list[int]], most: int | None) -> dict[str, str]:
    """Return under which name each rack is shown."""
    if most is None or len(racks) <= most:
        return {rack: rack for rack in racks}
    moved: dict[str, int] = defaultdict(int)
    for (here, there), (whole, _) in sums.items():
        moved[here] += whole
        moved[there] += whole
    ranked = sorted(racks - {ELSEWHERE}, key=lambda rack: (-moved[rack], rack))
    shown, rest = ranked[: most - 2], ranked[most - 2 :]
    return {rack: rack for rack in (*shown, ELSEWHERE)} | dict.fromkeys(rest, f"{len(rest):,} racks more")


def _order(name: str) -> tuple[bool, bool, str]:
    return name == ELSEWHERE, name.endswith(" racks more"), name
