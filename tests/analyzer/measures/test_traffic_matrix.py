"""The matrix: sums that conserve, estimates that are marked, and no byte counted twice."""

from hypothesis import given
from hypothesis import strategies as st

from analyzer.measures.traffic.matrix import Balance, Cell, FlowBytes, LinkBytes, RingSeat, matrix, rings

HOSTS = ("a", "b", "c")
SEATS = [RingSeat(node, 0, rank, 100, 0) for rank, node in enumerate(HOSTS)]


def flow(node: str, peer: str, received: int, sent: int, *, own: bool = True, rdma: bool = False) -> FlowBytes:
    """Return what a host tells of one peer."""
    return FlowBytes(node, 0, own, rdma, peer if own else None, received, sent)


def link(node: str, received: int | None, sent: int | None, *, rdma: bool = False, shared: bool = False) -> LinkBytes:
    """Return what a host's links carried."""
    return LinkBytes(node, 0, shared, rdma, received, sent)


def test_a_pair_that_both_ends_tell_of_counts_once() -> None:
    """a sent 70 to b and got 30; b says the same from its side, and reads 500 from a file server."""
    flows = [flow("a", "b", 30, 70), flow("b", "a", 70, 30), flow("b", "nas", 500, 4)]
    made = matrix(SEATS, [link("a", 31, 100), link("b", 600, 34)], flows)
    assert made.cells == (
        Cell("a", "b", 70, "tcp"),
        Cell("b", "a", 30, "tcp"),
        Cell("b", "nas", 4, "tcp"),
        Cell("nas", "b", 500, "tcp"),
    )
    assert made.balances == (
        Balance("a", "ethernet", "in", 31, 30, 0, 1, 0),
        Balance("a", "ethernet", "out", 100, 70, 0, 30, 0),
        Balance("b", "ethernet", "in", 600, 570, 0, 30, 0),
        Balance("b", "ethernet", "out", 34, 34, 0, 0, 0),
    )


def test_what_only_the_receiver_saw_is_its_word() -> None:
    """The sender's agent was silent, or the connection began and ended between two of its readings."""
    made = matrix(SEATS, [], [flow("b", "a", 70, 0)])
    assert made.cells == (Cell("a", "b", 70, "tcp"),)
    others = matrix(SEATS, [], [flow("a", "other", 0, 90), flow("b", "a", 70, 0)])
    assert others.cells == (Cell("a", "other", 90, "tcp"),)  # it may be among those: not counted twice


def test_ports_of_a_run_with_ranks_go_around_the_ring() -> None:
    """What each host's RDMA ports sent goes to the next rank; the agent's own estimate of the same is left."""
    links = [link(node, 10, 10, rdma=True) for node in HOSTS]
    made = matrix(SEATS, links, [flow("a", "c", 4, 6, rdma=True)])
    assert made.cells == (Cell("a", "b", 10, "ring"), Cell("b", "c", 10, "ring"), Cell("c", "a", 10, "ring"))
    assert all(one.unattributed_bytes == 0 for one in made.balances)


def test_without_ranks_the_agents_estimate_stands() -> None:
    """A host of unknown rank leaves no ring; what the estimate does not explain is not attributed."""
    seats = [RingSeat("a", 0, 0, 100, 0), RingSeat("b", 0, None, 100, 0)]
    assert rings(seats) == {}
    made = matrix(seats, [link("a", 10, 10, rdma=True)], [flow("a", "b", 4, 6, rdma=True)])
    assert made.cells == (Cell("a", "b", 6, "peers"), Cell("b", "a", 4, "peers"))
    out = next(one for one in made.balances if (one.node, one.way) == ("a", "out"))
    assert (out.link_bytes, out.told_bytes, out.unattributed_bytes) == (10, 6, 4)


def test_ports_of_a_shared_host_are_nobodys() -> None:
    """Nothing tells two runs on one port apart: the bytes stay unattributed, not this run's."""
    links = [link("a", 10, 10, rdma=True, shared=True), link("a", 3, 3, rdma=True)]
    made = matrix(SEATS, links, [])
    assert made.cells == (Cell("a", "b", 3, "ring"),)
    out = next(one for one in made.balances if (one.node, one.way) == ("a", "out"))
    assert (out.link_bytes, out.unattributed_bytes) == (13, 10)


def test_flows_beyond_the_links_are_doubtful_and_never_negative() -> None:
    """Either a link is not read or a flow is counted wrong: nothing is taken back, the host is named."""
    made = matrix(SEATS, [link("a", None, 50)], [flow("a", "nas", 8, 80)])
    into, out = made.balances
    assert (out.unattributed_bytes, out.excess_bytes, out.is_doubtful) == (0, 30, True)
    assert (into.link_bytes, into.unattributed_bytes, into.is_doubtful) == (None, None, False)


def test_each_attempt_has_its_own_ring() -> None:
    """A host that died is in the first attempt's ring, the one that took its place in the second's."""
    seats = [RingSeat("a", 0, 0, 1, 0), RingSeat("b", 0, 8, 1, 0), RingSeat("a", 1, 0, 1, 0), RingSeat("c", 1, 8, 1, 0)]
    links = [LinkBytes("a", attempt, False, True, 5, 5 + attempt) for attempt in (0, 1)]
    assert matrix(seats, links, []).cells == (Cell("a", "b", 5, "ring"), Cell("a", "c", 6, "ring"))


AMOUNT = st.integers(0, 10**15)
FLOWS = st.lists(
    st.builds(
        flow,
        st.sampled_from(HOSTS),
        st.sampled_from([*HOSTS, "nas", "other", "52.1.2.3"]),
        AMOUNT,
        AMOUNT,
        own=st.booleans(),
        rdma=st.booleans(),
    ).filter(lambda row: row.node != row.peer),
    max_size=12,
)
LINKS = st.lists(
    st.builds(
        link,
        st.sampled_from(HOSTS),
        st.none() | AMOUNT,
        st.none() | AMOUNT,
        rdma=st.booleans(),
        shared=st.booleans(),
    ),
    max_size=12,
)


@given(LINKS, FLOWS, st.booleans())
def test_matrix_and_rest_are_what_the_links_carried(
    links: list[LinkBytes], flows: list[FlowBytes], ranked: bool
) -> None:
    """Row by row and column by column, to the byte, whatever was told; no rest is negative; order does not matter."""
    seats = SEATS if ranked else [RingSeat(node, 0, None, 100, 0) for node in HOSTS]
    made = matrix(seats, links, flows)
    assert made == matrix(seats[::-1], links[::-1], flows[::-1])
    for one in made.balances:
        ends = [cell.from_ if one.way == "out" else cell.to for cell in made.cells]
        ours = [(cell.basis == "tcp") == (one.link == "ethernet") for cell in made.cells]
        told = sum(
            cell.bytes for cell, end, mine in zip(made.cells, ends, ours, strict=True) if mine and end == one.node
        )
        assert one.told_bytes == told
        carried = [
            row.transmit_bytes if one.way == "out" else row.receive_bytes
            for row in links
            if row.node == one.node and row.is_rdma == (one.link == "rdma")
        ]
        known = [amount for amount in carried if amount is not None]
        assert one.link_bytes == (sum(known) if known else None)
        if one.link_bytes is not None:
            assert one.unattributed_bytes is not None
            assert one.excess_bytes is not None
            assert one.other_runs_bytes is not None
            assert min(one.unattributed_bytes, one.excess_bytes) == 0
            assert one.unattributed_bytes >= 0
            assert one.told_bytes + one.other_runs_bytes + one.unattributed_bytes - one.excess_bytes == one.link_bytes


@given(FLOWS)
def test_no_byte_is_counted_at_both_ends(flows: list[FlowBytes]) -> None:
    """A cell between two hosts of the run is one end's word, and never more than the larger of the two."""
    for cell in matrix(SEATS, [], flows).cells:
        if cell.basis == "tcp":
            own = [row for row in flows if row.is_own and not row.is_rdma]
            sent = sum(row.transmit_bytes for row in own if (row.node, row.peer) == (cell.from_, cell.to))
            received = sum(row.receive_bytes for row in own if (row.peer, row.node) == (cell.from_, cell.to))
            assert cell.bytes in (sent, received)
