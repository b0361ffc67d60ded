"""A run's matrix as a table that fits a page: by host while they are few, by rack where they are many."""

from collections import defaultdict
from dataclasses import dataclass

from analyzer.measures.traffic.run_traffic import RunTraffic

_HOSTS_MOST = 8
OTHERS = "others"
NO_FLOW = "no flow"
_NOWHERE = "no rack"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows by sender with a cell for each column, None where nothing was moved. `left_out` counts columns not shown."""

    kind: str  # host or rack
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[int | None, ...]], ...]
    left_out: int


def fold(traffic: RunTraffic, columns_most: int) -> Table:
    """Return the table: whom the run sent to and received from, what others did, and what no flow explains.

    Of more than eight hosts, or more than have room, it is by rack.
    """
    kind = "host" if len(traffic.hosts) <= min(_HOSTS_MOST, columns_most - 2) else "rack"
    names = {host.node: host.node if kind == "host" else host.place.rack or _NOWHERE for host in traffic.hosts}
    sums: dict[tuple[str, str], int] = defaultdict(int)
    for cell in traffic.matrix.cells:
        sums[names.get(cell.from_, OTHERS), names.get(cell.to, OTHERS)] += cell.bytes
    for one in traffic.matrix.balances:
        rest = one.unattributed_bytes or 0
        sums[(names[one.node], NO_FLOW) if one.way == "out" else (NO_FLOW, names[one.node])] += rest
    ends = list(dict.fromkeys(names.values()))
    shown = ends[: max(1, columns_most - 2)]
    columns = (*shown, OTHERS, NO_FLOW)
    rows = tuple(
        (sender, tuple(sums.get((sender, to)) or None for to in columns)) for sender in (*ends, OTHERS, NO_FLOW)
    )
    return Table(kind, columns, rows, len(ends) - len(shown))
