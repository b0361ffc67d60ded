"""The comparison with Seren: distances and groups are what they are called, on a store that can be counted by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.truth.real.distribution import Distribution, distance
from bench.truth.real.files import SerenCurve
from bench.truth.real.fleet_curves import GpuCurves, cpu_curve, gpu_curves, link_idle_share
from bench.truth.real.seren import in_use, score
from tests.analyzer.ledger.fleet import HOUR, MINUTE, MONDAY, Fleet

T = MONDAY
GIB = 2**30
CURVE = SerenCurve((0.0, 50.0, 100.0), (25.0, 50.0, 100.0))


def test_a_distribution_counts_time_and_not_rows() -> None:
    """Three quarters of the time at zero are three quarters, in however many samples."""
    seen = Distribution.weighed({0.0: 30, 100.0: 10})
    assert (seen.at_or_below(-1), seen.at_or_below(0), seen.at_or_below(99), seen.at_or_below(100)) == (
        0,
        0.75,
        0.75,
        1,
    )
    assert (seen.quantile(0.5), seen.quantile(0.76)) == (0.0, 100.0)
    assert seen.above(10).at_or_below(100) == 1


def test_the_distance_is_the_most_that_curves_are_apart() -> None:
    """By hand: at 0 they differ by a half, elsewhere by less. A curve has no distance from itself."""
    first, second = Distribution.weighed({0.0: 3, 50.0: 1}), Distribution.published(CURVE)
    assert distance(first, second) == pytest.approx(0.5)
    assert distance(second, first) == pytest.approx(0.5)
    assert distance(first, first) == 0


@pytest.fixture
def fleet() -> Fleet:
    """An hour of a service at 20%, a training at 90%, and a free GPU, with one RDMA port that rests half the time."""
    made = Fleet()
    for gpu, used, memory in (("G1", 0.2, 40), ("G2", 0.9, 60), ("G3", 0.0, 0)):
        made.sample("n1", gpu, T, T + HOUR, utilization_ratio=used, memory_used_bytes=memory * GIB)
    made.hold("slurm/a/1", "n1", ["G1"], T, T + HOUR, name="ranker-serve")
    made.hold("slurm/a/2", "n1", ["G2"], T, T + HOUR)
    made.add(
        "inventory",
        [
            {"node": "n1", "gpu_uuid": gpu, "started_at": T, "ended_at": T + HOUR, "memory_bytes": 80 * GIB}
            for gpu in ("G1", "G2", "G3")
        ],
    )
    port = {"node": "n1", "device": "mlx5_0", "link_kind": "infiniband", "receive_bytes": 9}
    made.add(
        "network_samples",
        [
            port | {"started_at": at, "ended_at": at + MINUTE, "transmit_bytes": 0 if at < T + HOUR // 2 else 7}
            for at in range(T, T + HOUR, MINUTE)
        ],
    )
    return made


def test_a_group_holds_the_gpus_of_its_stages_alone(fleet: Fleet) -> None:
    """The service by its name; the whole fleet has the free GPU too, as Seren's curves have."""
    with fleet.store.session() as session:
        served, every = gpu_curves(session, frozenset({"serving"})), gpu_curves(session, None)
    assert (served.utilization.values, served.memory.values) == ((20.0,), (50.0,))
    assert (every.utilization.values, every.memory.values) == ((0.0, 20.0, 90.0), (0.0, 50.0, 75.0))
    assert every.utilization.at_or_below(0) == pytest.approx(1 / 3)


def test_in_use_are_gpus_on_which_something_lies(fleet: Fleet) -> None:
    """The free one is left out, whatever else it says; what no GPU tells has no curve, and none of zeros."""
    with fleet.store.session() as session:
        laden = gpu_curves(session, None, laden=True)
    assert (laden.utilization.values, laden.memory.values) == ((20.0, 90.0), (50.0, 75.0))
    assert laden.power is None


def test_what_is_taken_from_published_curves_is_the_share_that_holds_nothing() -> None:
    """By hand: of ten GPUs two hold nothing and a third rests; in use are eight, of which one rests."""
    memory = Distribution.weighed({0.0: 2, 50.0: 8})
    busy = Distribution.weighed({0.0: 3, 90.0: 7})
    left = in_use(GpuCurves(busy, memory, busy, busy))
    assert left.utilization.at_or_below(0) == pytest.approx(1 / 8)
    assert left.utilization.at_or_below(90) == pytest.approx(1)
    assert left.memory.at_or_below(0) == 0
    assert left.sm == left.utilization
    assert left.power is None


@given(st.dictionaries(st.integers(0, 100).map(float), st.integers(1, 9), min_size=1), st.floats(0, 0.99))
def test_what_is_left_is_a_distribution(amounts: dict[float, int], taken: float) -> None:
    """Ascending, from 0 on, and 1 in the end, whatever share is taken away."""
    left = Distribution.weighed(amounts).without_least(taken)
    assert list(left.shares) == sorted(left.shares)
    assert left.shares[0] >= 0
    assert left.shares[-1] == pytest.approx(1)


def test_processors_that_no_host_told_have_no_curve(fleet: Fleet) -> None:
    """None, which misses the bar, and no host at rest."""
    with fleet.store.session() as session:
        assert cpu_curve(session) is None


def test_a_port_is_idle_while_it_sends_nothing(fleet: Fleet) -> None:
    """Half of the hour. Where no port was measured the share is unknown, and no port is called idle."""
    with fleet.store.session() as session:
        assert link_idle_share(session) == pytest.approx(50)
    with Fleet().store.session() as session:
        assert link_idle_share(session) is None


def test_a_band_that_is_left_is_missed(fleet: Fleet) -> None:
    """A fleet that is nothing like the curve keeps no band but by its own figures."""
    names = ("gpu_util_pct", "gpu_mem_used_pct", "sm_active_pct", "gpu_power_w", "cpu_util_pct")
    curves = dict.fromkeys(names, CURVE) | {"ib_send_raw": SerenCurve((0.0, 1.0), (50.0, 100.0))}
    fleet.hold("slurm/a/3", "n1", ["G3"], T, T + HOUR, name="pretrain-7b")
    with fleet.store.session() as session:
        figures, checks = score(session, curves)
    by_name = {check.name: check.kept for check in checks}
    assert by_name["RDMA ports that send nothing, % of time"]
    assert not by_name["the whole fleet: utilization, median %"]
    assert not by_name["the whole fleet: sm, distance of the curves"]
    assert not by_name["the whole fleet: processors, distance of the curves"]
    groups = {"Seren", "serving and pretraining", "language models", "the whole fleet"}
    assert set(figures) == {name + rest for name in groups for rest in ("", ", in use")}
    assert {check.name.partition(":")[0].partition(",")[0] for check in checks if check.asked} == {
        "serving and pretraining"
    }
