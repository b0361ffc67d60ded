"""GPUs that several runs waited for."""

from analyzer.findings.health.gpus import slow_gpu_notices
from analyzer.measures.efficiency.efficiency_query import Straggler, Waited, stragglers

HOUR_MS = 3_600_000


def test_costs_are_added_by_gpu_and_the_dearest_comes_first() -> None:
    """Of g1 one part has no price: a part is not the cost."""
    waited = [
        Waited("g1", "n1", "b", HOUR_MS, 5),
        Waited("g1", "n1", "a", 3 * HOUR_MS, None),
        Waited("g2", "n2", "a", 2 * HOUR_MS, 7),
    ]
    assert stragglers(waited) == (
        Straggler("g1", "n1", ("a", "b"), 4 * HOUR_MS, None),
        Straggler("g2", "n2", ("a",), 2 * HOUR_MS, 7),
    )


def test_a_gpu_that_slows_several_runs_is_told() -> None:
    """In one run it may have had more to do; in two it is the board. Nothing is said of minutes, or of nobody."""
    slow = Straggler("g1", "n1", ("a", "b"), 4 * HOUR_MS, None)
    once = Straggler("g2", "n2", ("a",), 9 * HOUR_MS, None)
    brief = Straggler("g3", "n3", ("a", "b"), HOUR_MS // 2, None)
    nobody = Straggler(None, None, ("a", "b"), 9 * HOUR_MS, None)
    (found,) = slow_gpu_notices([slow, once, brief, nobody])
    assert (found.gpu_uuid, found.node, found.actor) == ("g1", "n1", "platform")
    assert found.sentence == "2 runs waited 4.0 GPU-hours for it: check its clocks, links and cooling"
