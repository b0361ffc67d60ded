"""Input starvation: when it is said at all, what it is booked to, and when nobody may be accused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.ledger.causes.input_starvation import NOT_LOW, InputJudgement, sign
from analyzer.ledger.causes.input_starvation import detect as detect_signs
from analyzer.ledger.causes.witnesses import TABLE, WITNESSES, speaks
from analyzer.ledger.thresholds import Thresholds
from analyzer.ledger.windows import RunWindow
from analyzer.period import WINDOW_MS
from tests.analyzer.windows import GPUS, stalled, window

LIMITS = Thresholds()
# A host that tells everything and on which nothing is full: its loader hardly works.
ROOM: dict[str, Any] = {
    "cpu_busy": 200, "host_pressure_io": 5, "host_pressure_cpu": 5, "disk_busy": 100, "block_read": 40_000_000,
    "mount_read": 0, "written": 1_000_000, "disk_waited": 300, "mount_waited": 0, "network_in": 100_000, "workers": 8,
    "busiest": 60, "waiting": 0, "cores_used_milli": 2_000, "cores_milli": 96_000, "cpu_throttled": 0, "pressure_io": 5,
    "pressure_cpu": 5, "pressure_memory": 0, "host_memory_spare": 700, "decoder": 0,
    "pcie_in_kb": GPUS * WINDOW_MS * 20,
}  # fmt: skip
# What each cause looks like from the host, on a host that tells everything.
SIGNS: dict[str, dict[str, Any]] = {
    "storage": {"pressure_io": 300, "block_read": 2 * 10**9, "disk_busy": 970, "waiting": 500, "disk_waited": 9_000},
    "network_storage": {"pressure_io": 300, "waiting": 500, "mount_read": 10**9, "mount_waited": 9_000},
    "network_storage past mounts": {"network_in": 30_000_000 * GPUS, "block_read": 0, "busiest": 400},
    "host_to_device": {"pcie_in_kb": GPUS * WINDOW_MS * 3_000},
    "preprocessing": {"busiest": 960, "cores_used_milli": 60_000},
    "preprocessing by quota": {"cpu_throttled": 200, "busiest": 500, "pressure_cpu": 600},
    "preprocessing in its own process": {"workers": 0, "busiest": None, "cores_used_milli": 1_010 * GPUS},
    "loader_software": {"busiest": 450},
}
ELSEWHERE = {"decoder": {"decoder": 980}, "memory": {"pressure_memory": 600, "host_memory_spare": 20}}


def cause_of(name: str) -> str:
    """Return the cause of a name in SIGNS."""
    return name.split()[0]


def detect(windows: list[RunWindow]) -> list[InputJudgement]:
    """Judge windows that are all there is to know."""
    return detect_signs([sign(each, LIMITS) for each in windows], LIMITS)


def one(**values: Any) -> InputJudgement:
    """Judge one stalled window by itself, of a host that tells only this."""
    return detect([stalled(**values)])[0]


def known(name: str, **values: Any) -> dict[str, Any]:
    """Return what a host tells that shows this cause, and what else it tells."""
    return ROOM | SIGNS[name] | values


@pytest.mark.parametrize("name", SIGNS)
def test_a_cause_that_shows_itself_is_booked(name: str) -> None:
    """Each cause has a witness of its own, and a host that tells all of it leaves no other."""
    judged = one(**known(name))
    assert (judged.cause, judged.is_booked) == (cause_of(name), True)


@pytest.mark.parametrize("name", ["storage", "network_storage"])
def test_half_an_hour_of_several_witnesses_is_sure(name: str) -> None:
    """What lasts is no coincidence: three windows in a row are high confidence, in each of the three."""
    judged = detect([stalled(number, **known(name)) for number in range(3)])
    assert {(each.cause, each.confidence) for each in judged} == {(name, "high")}
    assert detect([stalled(number, **known(name)) for number in range(2)])[0].confidence == "medium"


@pytest.mark.parametrize("name", ELSEWHERE)
@pytest.mark.parametrize("shown", [{}, {"busiest": 450}, {"disk_busy": 900}])
def test_what_is_no_input_is_suspected_and_never_booked(name: str, shown: dict[str, int]) -> None:
    """A full decoder, or a host out of memory, explains a stand-still that looks like a slow loader."""
    judged = one(**(ROOM | ELSEWHERE[name] | shown))
    assert not judged.is_booked
    assert judged.cause == name


@pytest.mark.parametrize("pressure", [100, 300, 900])
@pytest.mark.parametrize("name", SIGNS)
def test_pressure_of_unrelated_readers_names_nothing_else(name: str, pressure: int) -> None:
    """Some task of a hundred waits for storage most of the time, wherever a little is read: that decides nothing."""
    judged = one(**known(name, pressure_io=pressure, host_pressure_io=pressure))
    assert judged.cause in (cause_of(name), None)
    assert one(**(ROOM | {"pressure_io": pressure, "host_pressure_io": pressure})).cause is None


@given(name=st.sampled_from(sorted(SIGNS)), lost=st.sets(st.sampled_from(sorted(ROOM))))
def test_without_some_of_its_sensors_a_host_accuses_no_other_cause_surely(name: str, lost: set[str]) -> None:
    """What was not reported speaks for nothing: the verdict stays, or gets weaker."""
    values = known(name) | dict.fromkeys(lost, None)
    judged = detect([stalled(number, **values) for number in range(4)])
    assert all(each.cause == cause_of(name) or each.confidence != "high" for each in judged)


@given(name=st.sampled_from(sorted(SIGNS)), workers=st.integers(1, 64))
def test_no_declared_number_decides(name: str, workers: int) -> None:
    """How many workers a loader has is a label: the same host with another says the same."""
    if SIGNS[name].get("workers") != 0:
        assert one(**known(name, workers=workers)) == one(**known(name))


@given(name=st.sampled_from(sorted(SIGNS)), gpus=st.sampled_from([1, 2, 16, 64]))
def test_more_ranks_of_the_same_kind_say_the_same(name: str, gpus: int) -> None:
    """What is counted for each GPU is the same of one and of sixty-four."""
    scaled = {"pcie_in_kb", "cores_used_milli", "cores_milli", "network_in", "block_read", "mount_read", "written"}
    values = {
        field: value * gpus // GPUS if field in scaled and value else value for field, value in known(name).items()
    }
    assert one(**values, gpus=gpus).cause == cause_of(name)


def test_of_two_causes_that_cannot_be_told_apart_neither_is_sure() -> None:
    """Workers that fill their cores and wait for a full disk: explain names the second beside the first."""
    judged = one(**known("storage", busiest=940))
    assert judged.confidence != "high"


def test_a_gpu_that_works_waits_for_nothing() -> None:
    """Under 5% of stand-still is the noise of any step, however full the workers' cores are."""
    assert detect([window(still=49, **known("preprocessing"))]) == [NOT_LOW]
    assert detect([window(still=50, **known("preprocessing"))])[0].cause == "preprocessing"


def test_a_low_gpu_alone_accuses_nobody() -> None:
    """Without a figure of the host there is a loss and no cause."""
    assert one() == InputJudgement(True)
    assert not one().is_booked


def test_a_noisy_window_has_the_cause_of_those_about_it() -> None:
    """A sign that was missed in one window of a run is no other cause."""
    full, other = known("preprocessing"), known("storage")
    judged = detect([stalled(n, **(other if n == 2 else full)) for n in range(5)])
    assert [judgement.cause for judgement in judged] == ["preprocessing"] * 5


def test_an_hour_of_another_cause_is_seen() -> None:
    """A run's habit does not hide that its disk was slow for an hour."""
    full, other = known("preprocessing"), known("storage")
    judged = detect([stalled(n, **(other if 6 <= n < 14 else full)) for n in range(20)])
    assert [each.cause for each in judged[8:12]] == ["storage"] * 4
    assert [each.cause for each in (*judged[:4], *judged[16:])] == ["preprocessing"] * 8


def test_an_episode_is_no_habit_of_the_loader() -> None:
    """One low window of four is booked to no loader."""
    values = known("loader_software")
    judged = detect([stalled(0, **values), *(window(number, **values) for number in range(1, 4))])
    assert not judged[0].is_booked


def test_a_loader_that_rests_is_not_the_limit() -> None:
    """Its use of a core falls with the GPUs' work: its queue is full, and it waits for the run."""
    rests = [stalled(number, **known("loader_software", busiest=600)) for number in range(4)]
    rests += [stalled(number, **known("loader_software", busiest=250), still=900) for number in range(4, 8)]
    assert not any(judgement.is_booked for judgement in detect(rests))


def test_a_loader_that_works_on_through_the_stall_is_the_limit() -> None:
    """As busy while the GPUs stand still as while they work: the run waits for it."""
    works = [stalled(number, **known("loader_software", busiest=600)) for number in range(4)]
    works += [stalled(number, **known("loader_software", busiest=580), still=900) for number in range(4, 8)]
    assert {judgement.cause for judgement in detect(works)} == {"loader_software"}


def test_workers_that_do_nothing_are_no_loader() -> None:
    """Idle child processes are no evidence of loading."""
    assert one(**(ROOM | {"busiest": 50})).cause is None


def test_a_thread_that_computes_without_reading_is_its_own_work() -> None:
    """An optimizer on the CPU, an evaluation in Python: one full thread, no worker, and nothing to read."""
    quiet = ROOM | {"block_read": 0, "disk_busy": 2, "disk_waited": 0, "workers": 0, "busiest": None}
    judged = one(**(quiet | {"cores_used_milli": 1_050 * GPUS}))
    assert (judged.cause, judged.is_booked) == ("own_process", False)


@pytest.mark.parametrize(
    "values",
    [
        {"network_in": 15_000_000 * GPUS, "block_read": 0},  # logs and heartbeats of a busy host
        {"network_in": 25_000_000 * GPUS, "block_read": 13_000_000 * GPUS},
        {"network_in": 25_000_000 * GPUS, "mount_read": 24_000_000 * GPUS},  # told by the mount's own readers
    ],
)
def test_a_network_that_brings_no_input_is_not_blamed(values: dict[str, int]) -> None:
    """What is read here comes from here."""
    assert one(**known("loader_software", **values)).cause == "loader_software"


def test_small_input_is_not_waited_for_on_its_way_to_the_gpu() -> None:
    """A short stall makes any rate look high: 0.4 GB/s over a tenth of the time are 4 GB/s, and no pageable copy."""
    assert one(still=100, pcie_in_kb=GPUS * WINDOW_MS * 400).cause is None
    assert one(still=100, pcie_in_kb=GPUS * WINDOW_MS * 600).cause == "host_to_device"


def test_a_recording_of_gpus_alone_is_at_most_suspected() -> None:
    """Stand-stills that end with a copy look like input; why, only a host could say."""
    judged = one(dips=30, refills=27)
    assert judged.is_low
    assert not judged.is_booked
    assert one(dips=30, refills=3).cause is None


def test_fine_samples_lose_what_coarse_ones_lose() -> None:
    """One pause of three minutes in ten is a stand-still, whether its edges were seen or not."""
    assert one(dips=1, refills=0).is_low
    assert one().is_low


@pytest.mark.parametrize("missing", ["sm_ms", "shares_ms"])
def test_a_gpu_without_fine_figures_is_at_most_medium(missing: str) -> None:
    """An A100 reports no SM activity: what utilization alone says stays medium, however long it lasts."""
    judged = detect([stalled(number, **known("storage"), **{missing: 0}) for number in range(6)])
    assert {judgement.confidence for judgement in judged} == {"medium"}


def test_no_windows_are_no_judgement() -> None:
    """A run without any measured window is silent, not low."""
    assert detect([]) == []


def test_pressure_of_writing_is_no_lack_of_input() -> None:
    """A checkpoint makes tasks wait for the disk as well; what is written then is more than what is read."""
    read = known("storage", block_read=10**9)
    assert one(**(read | {"written": 10**8})).cause == "storage"
    assert one(**(read | {"written": 4 * 10**9})).cause is None


def test_every_row_can_win_and_every_witness_of_its_own_speaks_both_ways() -> None:
    """A row that could never win, or a witness of its own that could not speak against it, would be no row."""
    for row in TABLE:
        most = row.prior + sum(max(says for _, says in points) for points in row.cells.values())
        assert most > 0, row.cause
        assert row.own <= row.cells.keys() <= WITNESSES.keys()
        for name in row.own:
            assert any(says > 0 for _, says in row.cells[name])
            assert any(says < 0 for _, says in row.cells[name])


@given(st.sampled_from(TABLE), st.data())
def test_a_cell_is_level_beyond_its_points_and_straight_between(row: Any, data: st.DataObject) -> None:
    """No value says more than the table does."""
    points = data.draw(st.sampled_from(sorted(row.cells.values())))
    says = speaks(points, data.draw(st.integers(-(10**6), 10**9)))
    assert min(each for _, each in points) * 1000 <= says <= max(each for _, each in points) * 1000
    assert all(speaks(points, value) == each * 1000 for value, each in points)
