"""A profile says what the ledger says, of exactly these runs: nothing is added, and silence stays unknown."""

from pathlib import Path

import pytest

from analyzer.capacity.profile.canonical_json import check
from analyzer.capacity.profile.facts import CapacityProfile, Scale
from analyzer.capacity.profile.readings import knee
from analyzer.capacity.profile.work import ProfileRequest
from analyzer.errors import LedgerError
from analyzer.prices.non_gpu_rows import intensity
from tests.analyzer.capacity.profile_small_site import profile_of, settings, small_site
from tests.analyzer.ledger.fleet import HOUR, MONDAY, Fleet

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the settings of the site lie."""
    return tmp_path_factory.mktemp("site")


@pytest.fixture(scope="module")
def fleet(folder: Path) -> Fleet:
    """Return the small site."""
    return small_site(folder)


@pytest.fixture(scope="module")
def one(fleet: Fleet, folder: Path) -> CapacityProfile:
    """Return the profile of run 1."""
    return profile_of(fleet, folder, ProfileRequest(team="nlp", runs=("1",)))


def test_amounts_are_those_of_the_ledger(fleet: Fleet, one: CapacityProfile) -> None:
    """The gate, the page and the report of the week must say one figure for one question."""
    with fleet.store.session() as session:
        told = session.row(
            "SELECT sum(milliseconds)::BIGINT, sum(cost_micros)::BIGINT FROM ledger WHERE run_id = 'slurm/alpha/1'"
        )
    assert (one.milliseconds, one.micros) == told == (7 * HOUR_MS, 7 * 2_600_000)
    assert sum(each.milliseconds for each in one.booked) == one.milliseconds
    assert sum(run.milliseconds for run in one.runs) == one.milliseconds
    assert (one.since_us, one.until_us) == (MONDAY, MONDAY + 4 * HOUR)


def test_every_run_has_its_own_part_and_team(fleet: Fleet, folder: Path) -> None:
    """A gate judges the runs that a request names: their parts are the ledger's, and add up to the whole."""
    made = profile_of(fleet, folder, ProfileRequest(runs=("1", "2", "3")))
    check(made)
    assert made.team is None
    assert {run.run_id.rpartition("/")[2]: run.team for run in made.runs} == {"1": "nlp", "2": "nlp", "3": "vision"}
    with fleet.store.session() as session:
        for run in made.runs:
            told = session.rows(
                "SELECT state, cause, sum(milliseconds)::BIGINT, sum(cost_micros)::BIGINT FROM ledger WHERE run_id = ? "
                "GROUP BY ALL HAVING sum(milliseconds) > 0 ORDER BY ALL",
                [run.run_id],
            )
            assert [(each.state, each.cause, each.milliseconds, each.micros) for each in run.booked] == told
    assert sum(each.micros or 0 for run in made.runs for each in run.booked) == made.micros


def test_another_runs_readings_are_not_in_it(one: CapacityProfile) -> None:
    """The next run on its GPU fills the memory, in the same hour: that says nothing of what this one needs."""
    assert [(each.peak_bytes, each.total_bytes) for each in one.memory] == [(50 * 2**30, 80 * 2**30)]
    assert one.energy is not None
    assert one.energy.gpu_joules == 7 * 3600 * 600
    assert one.at_zero_ratio == 0.0


def test_cooling_and_carbon_are_those_of_the_price_file(one: CapacityProfile) -> None:
    """Each hour by its own row, as the site's energy is told elsewhere; beside the price, never in it."""
    germany = intensity("DEU")
    assert one.energy is not None
    assert germany is not None
    assert one.energy.facility_joules == 7 * 3600 * 600 * 13 // 10
    grams = germany.milligrams_per_kwh * one.energy.facility_joules / 3_600_000 / 1000
    assert one.energy.carbon_grams == pytest.approx(float(grams), abs=1)
    assert one.energy.told.startswith("PUE 1.30, ")


def test_what_the_team_leaves_idle_is_told_of_all_its_runs(one: CapacityProfile) -> None:
    """Who asks for two more and has two idle must read it in the request."""
    (held,) = one.holdings
    assert (held.gpus, held.for_this_gpus) == (3.75, 1.75)
    assert held.idle_gpus == 1.875  # a quarter of an hour each counts as starting


def test_what_is_free_is_told_of_the_lowest_day(one: CapacityProfile) -> None:
    """Four of eight GPUs nobody held, and a fifth for half an hour."""
    (free,) = one.free
    assert (free.owned_gpus, free.mean_gpus, free.lowest_gpus, free.drained_gpus) == (8, 4.125, 4, 0)
    assert free.lowest_day == "2025-11-10"


def test_without_runs_the_largest_are_taken_and_it_says_so(fleet: Fleet, folder: Path) -> None:
    """Whoever reads it must know whether somebody picked the runs."""
    chosen = profile_of(fleet, folder, ProfileRequest(team="nlp", since="2025-11-10"))
    assert {run.run_id for run in chosen.runs} == {"slurm/alpha/1", "slurm/alpha/2"}
    assert chosen.chosen.startswith("the 2 runs that held most in the period: 100.0")


def test_memory_in_use_on_one_kind_proves_no_fit_on_another(folder: Path) -> None:
    """50 GiB were in use on an H100; whether an A100 with 64 holds that work, a run there would tell."""
    fleet, end = small_site(folder), MONDAY + 6 * HOUR
    fleet.own("n2", ["A-0"], "A100-64GB")
    board = {"node": "n2", "started_at": MONDAY, "ended_at": MONDAY + HOUR, "sku": "A100-64GB", "gpu_uuid": "A-0"}
    fleet.add("inventory", [board | {"memory_bytes": 64 * 2**30}])
    fleet.sample("n2", "A-0", MONDAY, end, memory_used_bytes=0)
    fleet.analyze(end, settings(folder))
    told = {each.sku: each for each in profile_of(fleet, folder, ProfileRequest(team="nlp", runs=("1",))).alternatives}
    assert (told["A100-64GB"].fits, told["A100-64GB"].tried) == (None, False)
    assert "50 GiB were in use at the peak on H100-80GB, it has 64 GiB" in told["A100-64GB"].why


def test_what_was_not_measured_is_unknown(one: CapacityProfile) -> None:
    """None is unknown: zero would pass a gate that asks for little."""
    assert one.data_path is not None
    assert one.data_path.loader_workers is None
    assert one.data_path.disk_busy_ratio is None
    assert one.communication is not None
    assert one.communication.nvlink_bytes is None
    assert one.unit_costs == ()
    assert one.scaling == ()
    assert "The fleet has no cheaper or smaller kind of GPU." in one.caveats


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (ProfileRequest(team="nobody", since="2025-11-10"), "its teams are nlp, vision"),
        (ProfileRequest(team="vision", runs=("1",)), "is of team 'nlp'"),
        (ProfileRequest(runs=("77",)), "has no run '77'"),
    ],
)
def test_what_is_not_there_is_named(fleet: Fleet, folder: Path, asked: ProfileRequest, said: str) -> None:
    """A profile of the wrong team's runs would be worse than none."""
    with pytest.raises(LedgerError, match=said):
        profile_of(fleet, folder, asked)


def test_a_run_that_is_named_twice_counts_once(fleet: Fleet, folder: Path, one: CapacityProfile) -> None:
    """By its id and by its name it is the same run."""
    assert (
        profile_of(fleet, folder, ProfileRequest(runs=("1", "sft", "slurm/alpha/1"))).milliseconds == one.milliseconds
    )


def test_the_knee_is_the_last_size_that_pays() -> None:
    """A request beyond it buys GPUs that mostly wait for each other."""
    sizes = tuple(Scale(gpus, 1, 100.0, "tokens", ratio) for gpus, ratio in ((8, 1.0), (16, 0.92), (32, 0.61)))
    assert knee(sizes) == 16
    assert knee(sizes[:2]) is None
    assert knee(()) is None
