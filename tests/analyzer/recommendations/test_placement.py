"""From findings to changes: each names from, to, why, savings and cost, and promises no more than is lost."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.wire.units import WEEK_US
from analyzer.findings.finding import Finding
from analyzer.findings.ledger_findings import findings
from analyzer.recommendations.advise import recommendations
from analyzer.recommendations.guards import without_doubles
from analyzer.recommendations.recommendation import ASSUMED, BEYOND, Recommendation, Share, recovered, reordering
from analyzer.recommendations.site import Host, Placed, Site
from analyzer.recommendations.site_query import read_site
from analyzer.recommendations.types.moves import order_ranks
from collector.store.session import Session
from tests.analyzer.ledger.fleet import DAY, HOUR, Fleet, priced
from tests.analyzer.small_site import CROSSING_HOSTS, T, small_site


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """The small site, analysed and priced."""
    fleet = small_site()
    fleet.analyze(settings=priced(tmp_path_factory.mktemp("prices"), H100_80GB=2.60))
    with fleet.store.session() as opened:
        yield opened
    fleet.store.close()


@pytest.fixture(scope="module")
def found(session: Session) -> list[Finding]:
    """Every finding of the site's week."""
    return findings(session, T, T + WEEK_US)


@pytest.fixture(scope="module")
def advised(session: Session, found: list[Finding]) -> list[Recommendation]:
    """Every recommendation of the site's week."""
    return recommendations(session, found, T, T + WEEK_US)


INPUTS = ("preprocessing", "loader_software", "storage", "network_storage", "host_to_device")


@pytest.mark.parametrize(
    ("rule", "run"),
    [
        *((f"starved/{cause}", f"slurm/alpha/{cause}") for cause in INPUTS),
        ("communicating/cross_rack", "slurm/alpha/crossing"),
        ("communicating/straggler", "slurm/alpha/straggling"),
        ("held_idle/abandoned", "slurm/alpha/abandoned"),
        ("held_idle/never_used", "slurm/alpha/never-used"),
        ("held_idle/held_memory", "slurm/alpha/notebook"),
        ("underused/small_kernels", "slurm/alpha/trials"),
        ("underused/unbatched", "slurm/alpha/ranker-serve"),
        ("lost_work/failed", "slurm/alpha/failing"),
    ],
)
def test_every_loss_that_can_be_acted_on_has_a_change(
    found: list[Finding], advised: list[Recommendation], rule: str, run: str
) -> None:
    """A finding without a way out is a complaint: from, to, why, savings, cost of moving, and lines to paste."""
    (finding,) = [one for one in found if one.rule == rule and run in one.run_ids]
    changes = [change for change in advised if finding.id in change.finding_ids]
    assert changes
    for change in changes:
        assert all((change.from_, change.to, change.why, change.cost_to_move, change.artefact, change.losers))
        assert change.saves_micros is not None
        assert 0 < change.saves_micros.p20 <= change.saves_micros.p50 <= change.saves_micros.p80
        assert (change.cost_to_move_micros is None) is change.ends_work  # what may be lost is its owner's to say


def test_the_run_within_one_rack_is_left_alone(found: list[Finding]) -> None:
    """It is as fast as this fabric goes: its exchanges are overhead, and nobody's finding."""
    assert not [finding for finding in found if "slurm/alpha/inside" in finding.run_ids]


def test_savings_never_exceed_what_is_at_stake(found: list[Finding], advised: list[Recommendation]) -> None:
    """What likely is saved by all that stands is at most what is lost, and no change saves more than its findings."""
    stake = {finding.id: finding.at_stake_micros or 0 for finding in found}
    standing = [change for change in without_doubles(advised) if change.stands]
    likely = [change.saves_micros.p50 for change in standing if change.saves_micros]
    assert sum(likely) <= sum(stake.values())
    lost = [sum(stake[finding] for finding in change.finding_ids) for change in standing if change.saves_micros]
    assert all(saved <= most for saved, most in zip(likely, lost, strict=True))
    assert len({one for change in standing for one in change.finding_ids}) == sum(
        len(change.finding_ids) for change in standing
    )


def test_a_slow_host_s_clocks_and_its_peers_wait_end_together(
    found: list[Finding], advised: list[Recommendation]
) -> None:
    """Peers wait for a hot GPU as long as its clock loses: who cools it or takes it out ends both, and one does."""
    lost = {one.rule: one for one in found if "slurm/alpha/straggling" in one.run_ids}
    both = {lost["throttled/thermal"].id, lost["communicating/straggler"].id}
    changes = [change for change in advised if both & set(change.finding_ids)]
    assert {change.kind for change in changes} == {"cool", "drain_slow_gpu"}
    assert all(set(change.finding_ids) == both for change in changes)
    first, second = without_doubles(changes)
    assert {first.instead_of, second.instead_of} == {None, *(one.id for one in (first, second) if one.stands)}
    assert all(change.confidence == "low" for change in changes), "the wait is of medium confidence, the share assumed"


def test_ordering_ranks_by_rack_leaves_two_of_eight_crossings(
    found: list[Finding], advised: list[Recommendation]
) -> None:
    """Eight hosts that alternate over two racks change rack at every step of the ring; ordered, only there and back."""
    (change,) = [one for one in advised if one.kind == "reorder_ranks"]
    (finding,) = [one for one in found if one.id in change.finding_ids]
    assert change.from_ == "ranks by host: rack- 1 2 1 2 1 2 1 2"
    assert change.to == "ranks by host: rack- 1 1 1 1 2 2 2 2"
    assert change.why == "the ring changes rack 8 times; ordered by rack it does so 2 times"
    assert change.saves_milliseconds.p50 == finding.milliseconds * 875 // 1000
    hosts = " ".join([*CROSSING_HOSTS[0::2], *CROSSING_HOSTS[1::2]])
    assert f"for host in {hosts}; do\n" in change.artefact
    assert "slots=" not in change.artefact, "Slurm wants the name of a host once for each of its tasks"


def test_of_two_slow_gpus_the_slowest_is_the_one_to_replace(advised: list[Recommendation]) -> None:
    """Its peers wait for the slowest; to drain the other's host would change nothing."""
    (change,) = [one for one in advised if one.kind == "drain_slow_gpu"]
    assert "s0g1" in change.from_


def test_a_run_that_fills_its_disk_alone_keeps_its_input_in_memory(advised: list[Recommendation]) -> None:
    """Another host of the same kind has the same disk, and would be as full."""
    (change,) = [one for one in advised if one.subject == "slurm/alpha/storage"]
    assert (change.kind, change.to) == ("cache_input", "the memory of its hosts, read from disk once")


def test_ids_are_the_same_in_another_store(tmp_path: Path, advised: list[Recommendation]) -> None:
    """An id depends on what is recommended to whom, so that it can be typed next week too."""
    again = small_site()
    again.analyze(settings=priced(tmp_path, H100_80GB=1.30))
    with again.store.session() as opened:
        changes = recommendations(opened, findings(opened, T, T + DAY), T, T + DAY)
    again.store.close()
    assert {change.id for change in changes} == {change.id for change in advised}
    assert len({change.id for change in advised}) == len(advised)


def test_a_host_that_an_earlier_attempt_lost_is_no_longer_the_run_s() -> None:
    """A rank file that names the host that failed would not start."""
    fleet = Fleet()
    for node in ("n1", "n2", "n3"):
        fleet.own(node, [f"{node}g"])
    for node, attempt, start, end in (("n1", 0, T, T + HOUR), ("n2", 0, T, T + HOUR), ("n2", 1, T + 2 * HOUR, None)):
        fleet.hold("slurm/alpha/1", node, [f"{node}g"], start, end, attempt=attempt)
    fleet.hold("slurm/alpha/1", "n3", ["n3g"], T + 2 * HOUR, None, attempt=1)
    with fleet.store.session() as opened:
        placed = read_site(opened, T, T + DAY).runs["slurm/alpha/1"]
    fleet.store.close()
    assert (placed.hosts, placed.gpus) == (("n2", "n3"), 2)


def test_names_in_brackets_keep_ids_of_their_own(session: Session, found: list[Finding]) -> None:
    """Only the count of runs is left out of an id, not what people wrote into a name."""
    finding = next(one for one in found if one.rule == "starved/storage")
    named = [replace(finding, subject=subject) for subject in ("train (v2)", "train (v3)", "train")]
    assert len({change.id for change in recommendations(session, named, T, T + WEEK_US)}) == 3
    several = replace(finding, subject="train (2)", run_ids=(*finding.run_ids, "slurm/alpha/x"))
    one, two = recommendations(session, [named[2], several], T, T + WEEK_US)
    assert one.id == two.id


def test_savings_are_told_by_the_week(session: Session, found: list[Finding], advised: list[Recommendation]) -> None:
    """What was lost in half a week would be lost twice in a whole one, if nothing changes."""
    half = recommendations(session, found, T, T + WEEK_US // 2)
    whole = {change.id: change.saves_milliseconds.p50 for change in advised}
    assert all(abs(change.saves_milliseconds.p50 - 2 * whole[change.id]) <= 1 for change in half)


def test_a_suspicion_recommends_nothing(session: Session, found: list[Finding]) -> None:
    """Nobody is sent to change what was not shown to be the limit."""
    assert recommendations(session, [replace(one, suspicion=True) for one in found], T, T + WEEK_US) == []


def test_without_a_price_a_change_saves_time_and_no_guess(session: Session, found: list[Finding]) -> None:
    """None is unknown, and never 0."""
    unpriced = recommendations(session, [replace(one, at_stake_micros=None) for one in found], T, T + WEEK_US)
    assert all(change.saves_micros is None and change.saves_milliseconds.p50 > 0 for change in unpriced)
    # Nor does the site say how its GPUs are paid for.
    assert all(change.freed is None and change.billed is None for change in unpriced)


def test_one_gpu_is_no_plural(advised: list[Recommendation]) -> None:
    """People read these lines."""
    assert not [text for change in advised for text in (change.title, change.from_, change.to) if "1 GPUs" in text]


def test_the_site_knows_hosts_in_the_order_of_ranks(session: Session) -> None:
    """The ring runs along ranks, whatever the hosts are called."""
    site = read_site(session, T, T + WEEK_US)
    assert site.runs["slurm/alpha/crossing"].hosts == CROSSING_HOSTS
    assert site.hosts["z0"].gpus_free == pytest.approx(1.0)


def _site(racks: dict[str, str | None], hosts: tuple[str, ...]) -> Site:
    known = {node: Host(node, rack, "H100-80GB", 64, None, 8, 0.0) for node, rack in racks.items()}
    return Site(known, {"slurm/alpha/1": Placed("slurm/alpha/1", hosts, 8 * len(hosts), None)})


@pytest.fixture(scope="module")
def crossing(found: list[Finding]) -> Finding:
    """The finding of a run across racks, as if it were run 1."""
    return replace(next(one for one in found if one.cause == "cross_rack"), run_ids=("slurm/alpha/1",))


def test_a_host_that_the_ledger_does_not_know_is_no_failure(crossing: Finding) -> None:
    """A scheduler may call a host otherwise than its owner does: the line of racks keeps its place, as unknown."""
    site = _site({"n1": "a", "n3": "a"}, ("n1", "n2", "n3", "n4"))
    assert site.racks_of("slurm/alpha/1") == ["a", None, "a", None]
    assert order_ranks(crossing, site) is not None
    order_ranks(crossing, _site({}, ("n1", "n2")))


def test_ranks_in_order_are_moved_into_one_rack(crossing: Finding) -> None:
    """Where ordering has nothing left to give, only a rack with room helps: the one in which most of the run is."""
    hosts = ("n1", "n2", "n3")
    proposal = order_ranks(crossing, _site({"n1": "a", "n2": "b", "n3": "b"}, hosts))
    assert proposal is not None
    assert proposal.kind == "co_locate"
    assert proposal.title == "run all ranks in b"
    assert "wait for 24 GPUs there" in proposal.to


def test_a_run_that_left_no_trace_gets_no_proposal(crossing: Finding) -> None:
    """Nothing is invented for a run whose hosts are not known."""
    assert order_ranks(replace(crossing, run_ids=()), _site({}, ())) is None


@given(st.integers(1, 64), st.integers(1, 16))
def test_reordering_recovers_what_it_avoids(crossings: int, racks: int) -> None:
    """The ring must still cross once a rack: that part is not saved, and careful is below lucky."""
    share = reordering(crossings, racks)
    assert share.p20 == (1000 * (crossings - racks) // crossings if crossings > racks else 0)
    assert 0 <= share.p5 <= share.p20 <= share.p50 <= share.p80 <= share.p95 <= BEYOND


@pytest.mark.parametrize("share", ASSUMED.values(), ids=ASSUMED)
def test_no_assumption_promises_more_than_all(share: Share) -> None:
    """A change likely gives back at most what was lost; with luck a run that never begins spares its starting too."""
    assert 0 < share.p5 <= share.p20 <= share.p50 <= share.p80 <= share.p95 <= BEYOND
    assert share.p50 <= 1000


def test_a_period_without_length_is_no_failure(crossing: Finding) -> None:
    """A report of nothing has nothing to scale."""
    assert recovered(0, 0, ASSUMED["setting"]).p50 == 0
