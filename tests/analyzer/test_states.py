"""The table of states: every cause, what class it is of and owner, against a literal copy of the design's."""

import pytest

from analyzer.states import BOOKINGS, CLASSES, STATES, Class, states_of, words_of

# Copied by hand from the design, cause by cause, so that a slip in analyzer/states.py has something to differ from.
# Where a state's row names two ("run, platform"), the platform's are what a host, a GPU, a disk or the scheduler did.
DESIGN = """
unallocated    free                spare      capacity
unallocated    drained             spare      capacity
unallocated    reserved_unused     spare      capacity
unallocated    fragmented          spare      capacity
broken         gpu_lost            avoidable  platform
broken         node_down           avoidable  platform
broken         hardware            avoidable  platform
unobserved     agent_down          unknown    platform
unobserved     gap                 unknown    platform
unobserved     never_seen          unknown    platform
unobserved     records_lost        unknown    platform
unobserved     holder_hidden       unknown    platform
starting       image_pull          overhead   platform
starting       model_load          overhead   run
starting       warm_up             overhead   run
starting       restore             overhead   run
checkpointing  storage             overhead   run
checkpointing  network             overhead   run
headroom       declared            spare      run
headroom       beyond_policy       avoidable  run
held_idle      never_used          avoidable  run
held_idle      held_memory         avoidable  run
held_idle      abandoned           avoidable  run
communicating  cross_rack          avoidable  run
communicating  straggler           avoidable  platform
communicating  uneven              avoidable  run
communicating  hang                avoidable  run
communicating  collective          overhead   run
throttled      power               avoidable  platform
throttled      thermal             avoidable  platform
throttled      hardware            avoidable  platform
underused      small_kernels       avoidable  run
underused      launch_bound        avoidable  run
underused      unbatched           avoidable  run
starved        storage             avoidable  platform
starved        network_storage     avoidable  platform
starved        preprocessing       avoidable  run
starved        loader_software     avoidable  run
starved        host_to_device      avoidable  run
starved        unknown             avoidable  run
unexplained    -                   unknown    -
productive     compute             useful     -
productive     memory_bandwidth    useful     -
productive     decode              useful     -
productive     evaluation          useful     -
lost_work      failed              avoidable  run
lost_work      preempted           avoidable  platform
lost_work      node_failed         avoidable  platform
"""


def test_every_cause_is_of_the_class_and_the_actor_that_the_design_gives_it() -> None:
    """Who reads "run" beside what the scheduler or a host did defends the run, and trusts no other line."""
    designed = {tuple(line.split()) for line in DESIGN.strip().splitlines()}
    assert {(one.state, one.cause or "-", one.klass, one.actor or "-") for one in BOOKINGS} == designed


def test_no_cause_stands_twice() -> None:
    """The second row would be dead, and its actor a matter of chance."""
    assert len({(one.state, one.cause) for one in BOOKINGS}) == len(BOOKINGS)


def test_the_order_is_the_order_of_precedence() -> None:
    """The ledger books the first that fits; lost_work comes afterwards, and so stands last."""
    designed = tuple(dict.fromkeys(line.split()[0] for line in DESIGN.strip().splitlines()))
    assert designed == STATES
    assert {one.klass for one in BOOKINGS} == set(CLASSES)


@pytest.mark.parametrize("klass", CLASSES)
def test_a_class_by_states_is_the_class_by_causes(klass: Class) -> None:
    """SQL that looks at the state alone, where it may, must book every cause as SQL that compares both."""
    wholly, partly = states_of(klass)
    pairs = words_of(klass)
    for one in BOOKINGS:
        by_state = one.state in wholly or (one.state in partly and f"{one.state}/{one.cause or ''}" in pairs)
        assert by_state == (one.klass == klass), one
