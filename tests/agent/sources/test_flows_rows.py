from hypothesis import given
from hypothesis import strategies as st

from agent.sources.flows import OTHER, ROWS_MAX, MovedBytes, flow_rows, largest
from agent.wire.tables import TABLES

AMOUNTS = st.builds(MovedBytes, st.integers(0, 10**12), st.integers(0, 10**12), st.integers(0, 100))
PAIRS = st.tuples(st.sampled_from(["a", "b", "unattributed/n1"]), st.integers(0, 200).map(str))


def test_a_pair_that_moved_nothing_has_no_row() -> None:
    """A thousand idle connections, told every ten seconds, would be most of what a host sends."""
    assert flow_rows({("run", "n2"): MovedBytes()}, {}) == []


def test_a_row_says_how_it_was_known() -> None:
    """An estimate beside a count must never be added to it unseen; and it knows no retransmits."""
    counted, estimated = flow_rows({("run", "n2"): MovedBytes(1, 2, 3)}, {("run", "n2"): MovedBytes(4, 5)})
    assert counted == {
        "run_id": "run",
        "peer": "n2",
        "transport": "tcp",
        "receive_bytes": 1,
        "transmit_bytes": 2,
        "retransmits": 3,
    }
    assert estimated["transport"] == "rdma_estimate"
    assert "retransmits" not in estimated


@given(st.dictionaries(PAIRS, AMOUNTS, max_size=200))
def test_what_is_summed_up_is_not_lost(flows: dict[tuple[str, str], MovedBytes]) -> None:
    """The largest pairs are told one by one, the others of each run together, and each run's total stays."""
    kept = largest(flows)
    assert len(kept) <= ROWS_MAX + len({run for run, _ in flows})
    for run in {run for run, _ in flows}:
        before = sum((moved for pair, moved in flows.items() if pair[0] == run), MovedBytes())
        after = sum((moved for pair, moved in kept.items() if pair[0] == run), MovedBytes())
        assert before == after
    told = [moved.bytes for pair, moved in kept.items() if pair[1] != OTHER]
    hidden = [moved.bytes for pair, moved in flows.items() if pair not in kept]
    assert min(told, default=0) >= max(hidden, default=0)


@given(st.dictionaries(PAIRS, AMOUNTS, max_size=100), st.dictionaries(PAIRS, AMOUNTS, max_size=5))
def test_rows_are_the_contracts_and_tell_each_series_once(
    counted: dict[tuple[str, str], MovedBytes], estimated: dict[tuple[str, str], MovedBytes]
) -> None:
    """Two rows with the same labels would be one series with two values."""
    table = TABLES["flow_samples"]
    rows = flow_rows(counted, estimated)
    assert all(set(row) <= set(table.names) for row in rows)
    series = [tuple(row[label] for label in table.labels) for row in rows]
    assert len(series) == len(set(series))
