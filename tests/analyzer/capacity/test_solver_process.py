"""A solver in a process of its own may die, or be stopped, at any time: whoever asked goes on without it."""

from analyzer.capacity.planner.prove import SolverProcess


def test_a_process_that_dies_before_it_is_asked_has_found_nothing() -> None:
    """Its library may be broken. A question larger than a pipe holds must not wait for a reader that is gone."""
    process = SolverProcess("analyzer.no_such_solver")
    assert process.is_done(wait_seconds=60)
    assert process.ask({"model": "x" * 2**20}, seconds=60).answer() is None


def test_a_process_that_is_not_asked_waits_and_can_be_stopped_twice() -> None:
    """It is made before anybody knows whether there is a question."""
    process = SolverProcess("analyzer.capacity.planner.cp_sat")
    assert not process.is_done()
    process.stop()
    process.stop()
    assert process.is_done()


def test_a_solver_without_time_says_that_it_proved_nothing() -> None:
    """And not that there is no plan."""
    aims = [{"limits": [], "objectives": [[[0], [1]]]}]
    question = {"model": "variables { domain: [0, 1] }", "hint": [1], "aims": aims, "seconds": 0, "workers": 1}
    said = SolverProcess("analyzer.capacity.planner.cp_sat").ask(question, seconds=60).answer()
    assert said == {"aims": [{"values": None, "bound": None, "is_proven": False, "is_infeasible": False}]}
