"""What a board draws, and whether it is busy with anything."""

import pytest

from analyzer.ledger.boards import load_boards
from analyzer.ledger.thresholds import Thresholds
from collector.store.database import Store

_SPINS = "SELECT spins(?, NULL::DOUBLE, NULL::DOUBLE, NULL::DOUBLE, ?::DOUBLE, ?::DOUBLE, 400.0, ?, 10_000_000)"


@pytest.mark.parametrize(
    ("utilization", "memory", "drawn_watts", "sent", "spins"),
    [
        (0.99, 0.02, 136, 0, True),
        (0.99, 0.20, 136, 0, False),
        (0.99, None, 136, 0, False),  # small kernels draw as much
        (0.99, None, 90, 0, True),
        (0.99, 0.0, None, 0, True),
        (0.99, 0.02, None, 0, False),
        (0.99, None, None, 0, False),
        (0.90, 0.0, 90, 0, False),
        (0.99, 0.0, 90, 10**12, False),
    ],
)
def test_a_gpu_spins_only_where_all_that_is_told_of_it_is_at_rest(
    utilization: float, memory: float | None, drawn_watts: float | None, sent: int, spins: bool
) -> None:
    """Without counters of the chip: the less is told, the quieter it has to be, and of nothing nothing is said."""
    with Store.open(None) as store, store.session() as session:
        load_boards(session, Thresholds())
        (found,) = session.row(_SPINS, [utilization, memory, drawn_watts, sent])
    assert found is spins
