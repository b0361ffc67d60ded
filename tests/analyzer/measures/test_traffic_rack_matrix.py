"""The matrix of racks: every byte of the runs once, however many racks are shown by name."""

from hypothesis import given
from hypothesis import strategies as st

from analyzer.measures.traffic.matrix import FlowBytes, HostLocation, LinkBytes, RingSeat
from analyzer.measures.traffic.run_traffic import (
    ELSEWHERE,
    UNKNOWN_RACK,
    RackCell,
    RunTraffic,
    rack_matrix,
    run_traffic,
)
from analyzer.measures.traffic.tariff import Prices, TariffBook

PLACES = {f"n{node}": HostLocation(rack=f"rack-{node // 2}") for node in range(12)} | {"lost": HostLocation()}


def prices() -> Prices:
    """Return no tariffs at all."""
    return TariffBook().at(0)


def moved(*flows: tuple[str, str, int]) -> RunTraffic:
    """Return a run of which each host told what it sent to whom."""
    nodes = sorted({here for here, _, _ in flows})
    seats = [RingSeat(node, 0, place, 1, 0) for place, node in enumerate(nodes)]
    told = [FlowBytes(here, 0, True, False, there, 0, amount) for here, there, amount in flows]
    return run_traffic("slurm/a/1", seats, [], told, None, PLACES, None, prices())


def test_a_cell_is_what_one_rack_sent_to_another() -> None:
    """By rack, not by host; what is outside the fleet is elsewhere, what stands nowhere known is its own row."""
    one = moved(("n0", "n1", 5), ("n0", "n2", 7), ("n1", "n3", 1))
    found = rack_matrix([one, moved(("n2", "10.0.0.9", 3), ("n2", "lost", 2))], PLACES)
    assert found.racks == ("rack unknown", "rack-0", "rack-1", ELSEWHERE)
    assert found.cells == {
        ("rack-0", "rack-0"): RackCell(5),
        ("rack-0", "rack-1"): RackCell(8),
        ("rack-1", ELSEWHERE): RackCell(3),
        ("rack-1", UNKNOWN_RACK): RackCell(2),
    }


hosts = st.sampled_from([*PLACES, "10.0.0.9", "other"])
flows = st.lists(st.tuples(st.sampled_from(sorted(PLACES)), hosts, st.integers(1, 10**15)), min_size=1, max_size=30)


@given(flows, st.integers(3, 8))
def test_no_byte_is_lost_by_folding(told: list[tuple[str, str, int]], most: int) -> None:
    """A fleet has more racks than a page: those that moved least stand together, and the sum stays."""
    runs = [moved(*((here, there, amount) for here, there, amount in told if here != there))] if told else []
    whole, folded = rack_matrix(runs, PLACES), rack_matrix(runs, PLACES, most)
    cells = sum(cell.bytes for run in runs for cell in run.matrix.cells)
    assert whole.bytes == folded.bytes == cells
    assert len(folded.racks) <= most


def test_what_is_estimated_is_told_apart() -> None:
    """RDMA ports count bytes and not to whom: a cell of theirs says so, a counted one does not."""
    seats = [RingSeat("n0", 0, 0, 1, 0), RingSeat("n2", 0, 1, 1, 0)]
    links = [LinkBytes(node, 0, False, True, 100, 100) for node in ("n0", "n2")]
    ring = run_traffic("slurm/a/2", seats, links, [], None, PLACES, None, prices())
    found = rack_matrix([ring, moved(("n0", "n2", 7))], PLACES).cells["rack-0", "rack-1"]
    assert (found.bytes, found.estimated_bytes) == (107, 100)
