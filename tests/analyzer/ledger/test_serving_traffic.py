"""How many replicas the traffic needs, and which stand by beyond: pure, in whole numbers."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from analyzer.ledger.causes.serving_policy import (
    Excess,
    Policy,
    Replica,
    Use,
    idle_spans,
    needed,
    needs,
    overlap_ms,
    surplus,
)
from analyzer.ledger.thresholds import Thresholds
from analyzer.period import WINDOW_MS

ROW = Policy(1, {"name": "chat"}, {}, None, 2, 10_000_000, None, 0, None, 1, None, 0, None, "test")
LIMITS = Thresholds()
HOUR = 6 * WINDOW_MS
HELD = {"r": [(0, 100 * HOUR)]}


def use(requests: int | None, read_ms: int | None = WINDOW_MS, still: int = 500) -> Use:
    """Return one replica of one GPU over one window."""
    return Use(WINDOW_MS, 1, still, 1, requests, None if requests is None else read_ms)


def test_traffic_is_rounded_up_to_replicas() -> None:
    """6,000 in ten minutes are 10 a second, one replica's worth; one more needs another."""
    assert needed([use(6_000)], ROW, LIMITS) == 1
    assert needed([use(6_001)], ROW, LIMITS) == 2
    assert needed([use(0)], ROW, LIMITS) == 0
    assert needed([use(6_000)], replace(ROW, standby_micros=250_000), LIMITS) == 2


def test_what_was_not_read_is_like_what_was_up_to_a_fifth() -> None:
    """Nine minutes of ten read: the tenth is taken to be alike. Seven of ten give no verdict."""
    assert needed([use(5_400, WINDOW_MS * 9 // 10)], ROW, LIMITS) == 1
    assert needed([use(5_401, WINDOW_MS * 9 // 10)], ROW, LIMITS) == 2
    assert needed([use(4_200, WINDOW_MS * 7 // 10)], ROW, LIMITS) is None
    assert needed([use(6_000), use(None)], ROW, LIMITS) is None


def test_a_share_of_time_counts_busy_replicas() -> None:
    """Three replicas that are busy half of the time are one and a half: three at a target of 0.6 (2.5 rounded up)."""
    target = replace(ROW, requests_per_second_micros=None, busy_micros=600_000)
    assert needed([use(None), use(None), use(None)], target, LIMITS) == 3
    assert needed([Use(4 * WINDOW_MS, 4, 500, 1)], target, LIMITS) == 1  # one replica of four GPUs


def test_the_look_back_must_be_known() -> None:
    """A service that is younger than its look-back has not shown its peak; a gap of a fifth is borne."""
    windows = {at: [use(6_000)] for at in range(0, 3 * HOUR, WINDOW_MS)}
    found = needs(windows, windows, HELD, ROW, LIMITS)
    assert [at // WINDOW_MS for at, need in sorted(found.items()) if need.traffic is None] == [0, 1, 2, 3, 4]
    del windows[8 * WINDOW_MS]
    found = needs(windows, windows, HELD, ROW, LIMITS)
    assert found[9 * WINDOW_MS].replicas == 2  # one of seven: the minimum holds
    del windows[10 * WINDOW_MS]
    assert needs(windows, windows, HELD, ROW, LIMITS)[11 * WINDOW_MS].replicas is None


def test_time_without_any_replica_needed_none() -> None:
    """A service that was scaled to nothing overnight has a look-back that is known."""
    windows = {at: [use(6_000)] for at in range(2 * HOUR, 3 * HOUR, WINDOW_MS)}
    held = {"r": [(0, WINDOW_MS), (2 * HOUR, 3 * HOUR)]}
    assert needs(windows, windows, held, ROW, LIMITS)[2 * HOUR].traffic == 1


def test_runs_that_were_there_and_not_seen_leave_the_traffic_unknown() -> None:
    """Half of the service is on hosts whose agent is down: it may have answered anything."""
    windows = {at: [use(6_000)] for at in range(0, 3 * HOUR, WINDOW_MS)}
    assert all(need.traffic is None for need in needs(windows, windows, HELD | {"s": HELD["r"]}, ROW, LIMITS).values())


def test_the_busiest_window_is_remembered_for_the_look_back() -> None:
    """And forgotten after it."""
    windows = {at: [use(30_000 if at == 2 * HOUR else 600)] for at in range(0, 5 * HOUR, WINDOW_MS)}
    found = needs(windows, windows, HELD, ROW, LIMITS)
    high = [at for at, need in sorted(found.items()) if need.traffic == 5]
    assert high == list(range(2 * HOUR, 3 * HOUR + 1, WINDOW_MS))


def of(name: str, still_ms: int, idle_ms: int = 0, there_ms: int = 600) -> Replica:
    """Return a replica that is a run of its own."""
    return Replica(name, "", there_ms, there_ms, still_ms, idle_ms)


def excess(replicas: list[Replica], needed_: int) -> dict[str, Excess]:
    """Return by run what is beyond a policy that asks for so many throughout the window."""
    return {replica.run_id: over for replica, over in surplus(replicas, needed_, 600).items()}


def test_the_least_used_are_surplus_first_and_ties_go_by_name() -> None:
    """The same fleet must give the same ledger."""
    replicas = [of("d", 100), of("c", 600), of("b", 600), of("a", 600)]
    assert excess(replicas, 2) == {"a": Excess(1000, 0), "b": Excess(1000, 0)}
    assert excess(replicas, 4) == {}


def test_a_roll_out_counts_both_generations_by_their_time() -> None:
    """Two old for half of the window, two new for the other half: two replicas, of which one is needed."""
    replicas = [of(name, 300, there_ms=300) for name in ("old1", "old2", "new1", "new2")]
    assert excess(replicas, 1) == {"new1": Excess(1000, 0), "new2": Excess(1000, 0)}
    assert excess(replicas[:3], 1) == {"new1": Excess(1000, 0)}


def test_idle_time_is_taken_out_of_what_is_beyond() -> None:
    """One loss has one name."""
    assert excess([of("a", 600, idle_ms=450)], 0) == {"a": Excess(250, 750)}


def test_a_replica_is_idle_only_where_neither_count_nor_gpu_moves() -> None:
    """Without a count nothing is known to be idle."""
    assert idle_spans([(0, 50), (60, 200)], [[(10, 190)], [(0, 150)]], 60) == [(60, 150)]
    assert idle_spans([], [[(0, 100)]], 1) == []
    assert overlap_ms([(60, 150), (170, 180)], 100, 175) == 55


@given(
    st.lists(
        st.tuples(st.integers(1, 600), st.integers(0, 1000), st.integers(0, 1000), st.sampled_from("abc")), max_size=8
    ),
    st.integers(0, 8),
)
def test_no_more_is_taken_than_stood_still(drawn: list[tuple[int, int, int, str]], needed_: int) -> None:
    """Whatever the fleet: permilles stay within the whole, and a policy that asks for all takes nothing."""
    replicas = [
        Replica(run, str(number), there, there, there * still // 1000, there * still * idle // 1_000_000)
        for number, (there, still, idle, run) in enumerate(drawn)
    ]
    for found in surplus(replicas, needed_, 600).values():
        assert found.beyond_permille >= 0
        assert found.idle_permille >= 0
        assert found.beyond_permille + found.idle_permille <= 1000
    assert excess(replicas, len(replicas)) == {}
