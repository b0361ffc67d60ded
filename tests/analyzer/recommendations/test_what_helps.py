"""Changes that would help nobody are not proposed, and those that are say by how much, at the odds."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer.measures.efficiency.checkpoints import Checkpoints, Figure, withheld
from analyzer.recommendations.recommendation import ASSUMED, Saved, Share, share_of_loss
from analyzer.recommendations.types import checkpointing, hardware, idle, input_path
from analyzer.recommendations.types.checkpointing import week_of
from tests.analyzer.recommendations.sites import RUN, finding, host, run, site, sound

HOUR_MS = 3_600_000
WEEK_US = 168 * 3_600_000_000


def _saves(every: float, save: float, between: float | None, best: float | None) -> Checkpoints:
    mtbf, cadence = (withheld("too few failures") if each is None else Figure(each) for each in (between, best))
    return Checkpoints(40, "seen", Figure(every), Figure(save), 10**6, None, mtbf, cadence, "more often", 1, None, None)


def test_a_full_disk_with_a_neighbour_sends_the_run_elsewhere() -> None:
    """Where another run reads the same disk, a host that is free has room."""
    hosts = [host("n1"), host("n2", free=8)]
    shared = site(hosts, [run(each=4), run("slurm/alpha/7", each=4)])
    found = sound(input_path.other_disk(finding("starved", "storage"), shared))
    assert (found.kind, found.move and found.move.to and found.move.to.nodes) == ("local_nvme", ("n2",))
    alone = sound(input_path.other_disk(finding("starved", "storage"), site(hosts, [run()])))
    assert alone.kind == "cache_input"
    assert alone.move is not None
    assert alone.move.from_ == alone.move.to


def test_nobody_is_sent_away_where_there_is_no_other_host() -> None:
    """It would wait for ever; where there is another, that somebody holds, it waits until that is free."""
    runs = [run(each=4), run("slurm/alpha/7", each=4)]
    full = finding("starved", "storage")
    assert input_path.other_disk(full, site([host("n1")], runs)) is None
    found = sound(input_path.other_disk(full, site([host("n1"), host("n2")], runs)))
    assert found.to == "other hosts of its kind, once available"


def test_every_slow_host_leaves_the_run() -> None:
    """Of two hot hosts one that stays slows all ranks as before."""
    hosts = [host("n1"), host("n2"), host("n3"), host("n4", free=8), host("n5", free=8)]
    slow = finding("communicating", "straggler", caused_by="n2-3")
    slowed = {RUN: {"n2-3": 3_600_000, "n3-1": 1_800_000}}
    where = site(hosts, [run(nodes=("n1", "n2", "n3"))], slow_hosts={RUN: ("n2", "n3")}, slowed=slowed)
    found = sound(hardware.replace_slow_gpu(slow, where))
    assert found.title == "restart without n2,n3"
    assert found.move is not None
    assert found.move.to is not None
    assert found.move.to.nodes == ("n1", "n4", "n5")
    few = sound(hardware.replace_slow_gpu(slow, replace(where, hosts={h.node: h for h in hosts[:4]})))
    assert few.to == "other hosts of the same kind"


def test_what_waits_for_its_first_use_is_no_waste_to_give_back() -> None:
    """A session that begins in the afternoon needs its GPU; one that never worked does not."""
    lost = finding("held_idle", "never_used", milliseconds=40 * HOUR_MS)
    later, never = run(never_used_ms=HOUR_MS), run(never_used_ms=20 * HOUR_MS)
    assert idle.ask_for_fewer(lost, site([host("n1")], [later])) is None
    found = idle.ask_for_fewer(lost, site([host("n1")], [never]))
    assert found is not None
    assert found.saves == share_of_loss(ASSUMED["never_used"], 20, 40)


def test_what_ran_out_of_memory_is_not_saved_more_often() -> None:
    """It dies at the same step again, however much of it is kept."""
    lost = finding("lost_work", "failed")
    assert checkpointing.checkpoint(lost, site([host("n1")], [run(exit_status="out_of_memory")])) is None
    assert checkpointing.checkpoint(lost, site([host("n1")], [run(exit_status="failed")])) is not None


def test_saving_more_often_is_not_proposed_where_it_costs_more_than_failures() -> None:
    """One failure in a week, three minutes to save on 8 GPUs: half of the interval costs more than it keeps."""
    lost = finding("lost_work", "node_failed")
    dear = site([host("n1")], [run()], checkpoints={RUN: _saves(3_600, 190, None, None)})
    assert checkpointing.checkpoint(lost, dear) is None
    cheap = site([host("n1")], [run()], checkpoints={RUN: _saves(43_200, 5, 40_000, 632)})
    found = checkpointing.checkpoint(lost, cheap)
    assert found is not None
    assert isinstance(found.saves, Saved)
    assert found.saves.milliseconds.p5 <= found.saves.milliseconds.p20 < found.saves.milliseconds.p50


@settings(max_examples=15)
@given(st.integers(600, 86_400), st.integers(1, 300), st.integers(3_600, 10**6))
def test_weeks_are_drawn_in_order_and_the_same_each_time(every: int, save: int, between: int) -> None:
    """Quantiles rise, a seed is a seed, and to save as often as now saves nothing."""
    known = _saves(every, save, between, every / 2)
    found = week_of([(known, run())], every / 2, WEEK_US)
    assert found is not None
    assert found.p5 <= found.p20 <= found.p50 <= found.p80 <= found.p95
    assert found == week_of([(known, run())], every / 2, WEEK_US)
    same = week_of([(known, run())], float(every), WEEK_US)
    assert same is not None
    assert (same.p5, same.p50, same.p95) == (0, 0, 0)


def test_odds_of_what_is_not_known_are_not_drawn() -> None:
    """No number is made up for a run whose time is not known."""
    assert week_of([(_saves(3_600, 60, 10**5, 1_800), run(held_ms=None))], 1_800, WEEK_US) is None
    assert week_of([(_saves(3_600, 60, 10**5, None), run())], None, WEEK_US) is None


def test_a_part_of_a_share_keeps_where_it_is_from() -> None:
    """Half of the loss is half of every quantile."""
    assert share_of_loss(Share(200, 400, 600, 100, 800, source="a paper"), 1, 2) == Share(
        100, 200, 300, 50, 400, "a paper"
    )
