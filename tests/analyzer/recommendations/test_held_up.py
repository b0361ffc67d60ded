"""What slow hosts cost a run in all: never more than was booked, nor than the slowest clock explains, and once."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from analyzer.recommendations.proposal import (
    THROWN_AWAY,
    WAIT,
    Loss,
    Proposal,
    SlowHour,
    coincide,
    ended_ms,
    thrown_away_ms,
)
from analyzer.recommendations.recommendation import ASSUMED
from tests.analyzer.recommendations.sites import RUN, finding

HEAT: Loss = ("throttled", "thermal")
POWER: Loss = ("throttled", "power")
GPUS = 64


def slow(
    loss: Loss, milliseconds: int, longest: int = 0, node: str = "n1", hour: int = 0, gpus: int = GPUS
) -> SlowHour:
    """Return what a run on 64 GPUs lost in an hour by a host."""
    return SlowHour(RUN, hour, node, loss, gpus, longest, milliseconds)


def test_a_hot_host_costs_the_run_what_its_clocks_lost_on_every_gpu() -> None:
    """8 GPUs lost 100 s each, so that 56 others waited 100 s: 6,400 s end with it, whatever more was booked as wait."""
    clocks = slow(HEAT, 800_000, 100_000)
    assert ended_ms([clocks, slow(WAIT, 5_600_000)], HEAT, ["n1"], WAIT) == 6_400_000
    assert ended_ms([clocks, slow(WAIT, 9_000_000)], HEAT, ["n1"], WAIT) == 6_400_000
    assert ended_ms([clocks, slow(WAIT, 2_000_000)], HEAT, ["n1"], WAIT) == 2_800_000
    assert ended_ms([clocks, slow(WAIT, 5_600_000)], HEAT, ["n1"]) == 800_000


def test_of_two_hosts_as_slow_peers_wait_once() -> None:
    """They wait for the slower of both, not for one after the other."""
    both = [slow(HEAT, 800_000, 100_000), slow(HEAT, 640_000, 80_000, "n2"), slow(WAIT, 4_800_000, node="n2")]
    assert ended_ms(both, HEAT, ["n1", "n2"], WAIT) == 800_000 + 640_000 + 4_800_000
    more = [*both, slow(WAIT, 4_800_000)]
    assert ended_ms(more, HEAT, ["n1", "n2"], WAIT) == GPUS * 100_000


def test_a_wait_without_a_slow_clock_is_not_the_heat_s() -> None:
    """A GPU may be behind for another reason: to take its host out ends that too, to cool it does not."""
    hours = [slow(HEAT, 800_000, 100_000), slow(WAIT, 5_600_000), slow(WAIT, 1_000_000, hour=1)]
    assert ended_ms(hours, HEAT, ["n1"], WAIT) == 6_400_000
    assert ended_ms(hours, WAIT, ["n1"], HEAT) == 7_400_000
    assert not coincide(hours[1:], HEAT, WAIT, ["n1"])
    assert coincide(hours, HEAT, WAIT, ["n1"])
    assert not coincide(hours, HEAT, WAIT, ["n2"])


hours_of_runs = st.lists(
    st.builds(
        lambda loss, each, gpus, node, hour: slow(loss, each * gpus, 0 if loss == WAIT else each, node, hour),
        st.sampled_from([HEAT, POWER, WAIT]),
        st.integers(1, 3_600_000),
        st.integers(1, 8),
        st.sampled_from(["n1", "n2", "n3"]),
        st.integers(0, 3),
    ),
    max_size=12,
    unique_by=lambda one: (one.loss, one.node, one.hour),
)


@given(hours_of_runs, st.sets(st.sampled_from(["n1", "n2", "n3"]), min_size=1))
def test_no_more_ends_than_was_booked_and_no_less_than_the_clocks_lost(hours: list[SlowHour], nodes: set[str]) -> None:
    """What ends stands on findings: beyond their seconds there is nothing to save, and more hosts end no less."""
    clocks = sum(one.milliseconds for one in hours if one.loss == HEAT and one.node in nodes)
    waits = sum(one.milliseconds for one in hours if one.loss == WAIT and one.node in nodes)
    cooled = ended_ms(hours, HEAT, nodes, WAIT)
    out = ended_ms(hours, WAIT, nodes, HEAT)
    assert clocks == ended_ms(hours, HEAT, nodes) <= cooled <= out <= clocks + waits
    assert ended_ms(hours, HEAT, {"n1", "n2", "n3"}, WAIT) >= cooled


def test_what_was_thrown_away_counts_once_an_hour_by_the_slowest() -> None:
    """Work that a failure took is booked as lost: its slowness is known, and in no other finding."""
    thrown = [slow(THROWN_AWAY, 400_000, 50_000), slow(THROWN_AWAY, 480_000, 60_000, "n2"), slow(HEAT, 9, 9)]
    assert thrown_away_ms(thrown, ["n1", "n2"]) == GPUS * 60_000
    assert thrown_away_ms(thrown, ["n1"]) == GPUS * 50_000
    assert thrown_away_ms(thrown, ["n3"]) == 0


def test_grounds_of_two_findings_are_as_sure_as_the_lesser() -> None:
    """Their losses add up; where one has no price nobody knows what both cost."""
    cooled = Proposal("cool", "t", "f", "t", "w", (), "nobody", saves=ASSUMED["repair"])
    hot = cooled.answering(finding("throttled", "thermal"))
    waiting = replace(finding("communicating", "straggler", milliseconds=7), id="f-2", confidence="medium")
    both = hot.with_findings([waiting])
    assert (both.finding_ids, both.confidence) == (("f-1", "f-2"), "medium")
    assert both.milliseconds == (hot.milliseconds or 0) + 7
    assert both.micros == 2 * (hot.micros or 0)
    assert set(both.losses) == {HEAT, WAIT}
    assert hot.with_findings([replace(waiting, at_stake_micros=None)]).micros is None
    assert hot.with_findings([]) == hot
