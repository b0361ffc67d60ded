"""Input starvation: when it is said at all, what it is booked to, and when nobody may be accused."""

from typing import Any

import pytest

from analyzer.ledger.causes.input_starvation import NOT_LOW, InputJudgement, saturated, sign
from analyzer.ledger.causes.input_starvation import detect as detect_signs
from analyzer.ledger.thresholds import Thresholds
from analyzer.ledger.windows import RunWindow
from analyzer.period import WINDOW_MS
from tests.analyzer.windows import GPUS, stalled, window

LIMITS = Thresholds()
FULL_CORE = {"workers": 8, "busiest": 960}
# What each cause looks like from the host, in the order in which causes are asked for.
SIGNS: dict[str, dict[str, Any]] = {
    "storage": {"pressure_io": 300, "block_read": 2_000_000_000},
    "network_storage": {"waiting": 500, "mount_read": 1_000_000_000},
    "host_to_device": {"pcie_in_kb": GPUS * WINDOW_MS * 3_000},
    "preprocessing": FULL_CORE,
}


def detect(windows: list[RunWindow], limits: Thresholds) -> list[InputJudgement]:
    """Judge windows that are all there is to know."""
    return detect_signs([sign(each, limits) for each in windows], limits)


def one(**values: Any) -> InputJudgement:
    """Judge one stalled window by itself."""
    return detect([stalled(**values)], LIMITS)[0]


@pytest.mark.parametrize("cause", SIGNS)
def test_a_full_part_of_the_host_is_the_cause(cause: str) -> None:
    """Each cause has signs of its own, and one window of them is enough for medium confidence."""
    assert one(**SIGNS[cause]) == InputJudgement(True, cause, "medium")


@pytest.mark.parametrize("cause", SIGNS)
def test_half_an_hour_of_the_same_cause_is_sure(cause: str) -> None:
    """What lasts is no coincidence: three windows in a row are high confidence, in each of the three."""
    judged = detect([stalled(number, **SIGNS[cause]) for number in range(3)], LIMITS)
    assert judged == [InputJudgement(True, cause, "high")] * 3


def test_a_break_in_the_half_hour_leaves_it_at_medium() -> None:
    """Two windows, another cause, and one window more are no half hour of the same."""
    signs = [FULL_CORE, FULL_CORE, SIGNS["storage"], FULL_CORE]
    judged = detect([stalled(number, **values) for number, values in enumerate(signs)], LIMITS)
    assert [judgement.confidence for judgement in judged] == ["medium"] * 4


@pytest.mark.parametrize(
    ("first", "second"),
    [("storage", "preprocessing"), ("network_storage", "preprocessing"), ("storage", "host_to_device")],
)
def test_of_two_full_parts_the_one_further_upstream_is_the_cause(first: str, second: str) -> None:
    """Workers that wait for the disk also fill their cores between reads; a faster core would not help."""
    assert saturated(stalled(**(SIGNS[second] | SIGNS[first])), LIMITS) == first


def test_a_gpu_that_works_waits_for_nothing() -> None:
    """Under 5% of stand-still is the noise of any step, however full the workers' cores are."""
    assert detect([window(still=49, **FULL_CORE)], LIMITS) == [NOT_LOW]
    assert detect([window(still=50, **FULL_CORE)], LIMITS)[0].cause == "preprocessing"


def test_a_low_gpu_alone_accuses_nobody() -> None:
    """Without a figure of the host there is a loss and no cause."""
    assert one() == InputJudgement(True, None, "low")
    assert not one().is_booked


def test_signals_that_were_not_reported_reach_no_bar() -> None:
    """None is not reported: it is neither full nor idle."""
    assert saturated(stalled(), LIMITS) is None
    assert saturated(stalled(pressure_cpu=None, busiest=None, disk_busy=None, pcie_in_kb=None), LIMITS) is None


@pytest.mark.parametrize(
    ("own", "of_host", "cause"),
    [
        ({"pressure_io": 20}, {"host_pressure_io": 900, "block_read": 10**9}, None),
        ({"pressure_cpu": 20}, {"host_pressure_cpu": 900}, None),
        ({}, {"host_pressure_io": 900, "block_read": 10**9}, "storage"),
        ({}, {"host_pressure_cpu": 900}, "preprocessing"),
        ({"pressure_io": 20}, {"disk_busy": 1000, "block_read": 10**9}, None),
        ({"waiting": 0}, {"disk_busy": 1000, "block_read": 10**9}, None),
        ({}, {"disk_busy": 1000, "block_read": 10**9}, "storage"),
    ],
)
def test_a_runs_own_figures_go_before_its_hosts(
    own: dict[str, int], of_host: dict[str, int], cause: str | None
) -> None:
    """A neighbour may fill the disk or the cores: a run whose own tasks do not wait is not short of them."""
    assert saturated(stalled(**own, **of_host), LIMITS) == cause


def test_waiting_without_any_reading_names_no_storage() -> None:
    """Pressure may come of writing or of swapping."""
    assert saturated(stalled(pressure_io=500), LIMITS) is None
    assert saturated(stalled(pressure_io=500, block_read=0, mount_read=0), LIMITS) is None


def test_the_storage_that_is_read_from_is_the_one_named() -> None:
    """Most of the bytes decide, but a local disk that is full is the limit whatever the mount brings."""
    reads = {"pressure_io": 500, "block_read": 10**8, "mount_read": 10**9}
    assert saturated(stalled(**reads), LIMITS) == "network_storage"
    assert saturated(stalled(**reads, disk_busy=950), LIMITS) == "storage"


def test_a_stage_for_processors_that_takes_turns_with_the_gpus_is_preprocessing() -> None:
    """Sixteen cores are full for the four fifths in which the GPUs stand still: over all of it neither is full."""
    packed: dict[str, Any] = {"still": 800, "busiest": 760, "cores_used_milli": 12_400, "cores_milli": 16_000}
    assert saturated(window(**packed), LIMITS) == "preprocessing"
    for less in ({"cores_used_milli": 11_500}, {"still": 649, "cores_used_milli": 10_000}, {"cores_milli": None}):
        assert saturated(window(**(packed | less)), LIMITS) is None


def test_a_quota_that_refuses_time_is_preprocessing() -> None:
    """A loader can be held back by its cgroup with cores idle beside it."""
    assert saturated(stalled(busiest=400, cpu_throttled=80), LIMITS) == "preprocessing"


def test_copies_count_as_the_limit_only_where_they_fill_the_stall() -> None:
    """Bytes that arrive beside the computation cost nothing: 1 GB a second is 2.5 within a stall of 40%, and not 6."""
    assert saturated(stalled(pcie_in_kb=GPUS * WINDOW_MS * 1_000), LIMITS) is None


def test_the_prevailing_cause_is_that_of_the_windows_without_one() -> None:
    """A sign that was missed in one window of a run is no other cause."""
    judged = detect([stalled(0, **FULL_CORE), stalled(1), stalled(2, **FULL_CORE)], LIMITS)
    assert [judgement.cause for judgement in judged] == ["preprocessing"] * 3
    assert judged[1].confidence == "medium"


def test_a_cause_of_few_windows_prevails_nowhere_else() -> None:
    """One window of five says nothing of the other four."""
    judged = detect([stalled(0, **FULL_CORE), *(stalled(number) for number in range(1, 5))], LIMITS)
    assert [judgement.cause for judgement in judged] == ["preprocessing", None, None, None, None]


def test_a_cause_seen_only_while_the_gpus_work_prevails_nowhere() -> None:
    """Full cores in windows without a loss are a run that uses what it has."""
    judged = detect([window(0, **FULL_CORE), window(1, **FULL_CORE), stalled(2)], LIMITS)
    assert judged == [NOT_LOW, NOT_LOW, InputJudgement(True, None, "low")]


def test_a_loader_at_work_with_nothing_full_is_itself_the_limit() -> None:
    """Where disk, network and cores have room and the loss is a habit, the loader does not ask for more."""
    judged = detect([stalled(number, workers=4, busiest=500) for number in range(4)], LIMITS)
    assert judged == [InputJudgement(True, "loader_software", "medium")] * 4


def test_an_episode_is_no_habit_of_the_loader() -> None:
    """One low window of four is suspected, and booked to nobody."""
    values = {"workers": 4, "busiest": 500}
    judged = detect([stalled(0, **values), *(window(number, **values) for number in range(1, 4))], LIMITS)
    assert judged[0] == InputJudgement(True, "loader_software", "low")
    assert not judged[0].is_booked


def test_a_loader_that_rests_is_not_the_limit() -> None:
    """Its use of a core falls with the GPUs' work: its queue is full, and it waits for the run."""
    rests = [stalled(number, workers=4, busiest=600) for number in range(4)]
    rests += [stalled(number, workers=4, busiest=150, still=900) for number in range(4, 8)]
    assert {judgement.confidence for judgement in detect(rests, LIMITS)} == {"low"}


def test_a_loader_that_works_on_through_the_stall_is_the_limit() -> None:
    """As busy while the GPUs stand still as while they work: the run waits for it."""
    works = [stalled(number, workers=4, busiest=600) for number in range(4)]
    works += [stalled(number, workers=4, busiest=580, still=900) for number in range(4, 8)]
    assert {judgement.confidence for judgement in detect(works, LIMITS)} == {"medium"}


def test_workers_that_do_nothing_are_no_loader() -> None:
    """Idle child processes are no evidence of loading."""
    assert one(workers=4, busiest=50).cause is None
    assert one(workers=4, busiest=199).cause is None


def test_a_run_without_workers_loads_by_itself() -> None:
    """Its thread spins in any wait: a full core tells something only where the GPU stands still for long."""
    full = {"workers": 0, "cores_used_milli": 1_010 * GPUS}
    assert one(**full) == InputJudgement(True, "preprocessing", "medium")
    assert one(**full, still=190) == InputJudgement(True, "loader_software", "low")
    assert one(workers=0) == InputJudgement(True, "loader_software", "low")


NETWORK = {"network_in": 25_000_000 * GPUS}


def test_input_that_comes_past_disks_and_mounts_is_fetched_from_afar() -> None:
    """Readers of object stores sleep, and nothing on the host is full: the network is what brings the input."""
    assert one(**NETWORK, workers=8, busiest=400) == InputJudgement(True, "network_storage", "medium")
    assert one(**NETWORK, workers=0) == InputJudgement(True, "network_storage", "medium")


@pytest.mark.parametrize(
    "values",
    [
        {"network_in": 15_000_000 * GPUS},  # logs and heartbeats of a busy host
        NETWORK | {"block_read": 10_000_000 * GPUS},
        NETWORK | {"mount_read": 24_000_000 * GPUS},  # the mount is told by its own readers, who wait in the kernel
        {"network_in": None},
    ],
)
def test_a_network_that_brings_no_input_is_not_blamed(values: dict[str, int | None]) -> None:
    """What is read here comes from here."""
    assert one(**values, workers=8, busiest=400).cause == "loader_software"


def test_a_full_part_of_the_host_goes_before_the_network() -> None:
    """Batches that come over the network and fill the workers' cores here are limited here."""
    assert one(**NETWORK, **FULL_CORE).cause == "preprocessing"


def test_small_input_is_not_waited_for_on_its_way_to_the_gpu() -> None:
    """A short stall makes any rate look high: 0.4 GB/s over a tenth of the time are 4 GB/s, and no pageable copy."""
    assert one(still=100, pcie_in_kb=GPUS * WINDOW_MS * 400).cause is None
    assert one(still=100, pcie_in_kb=GPUS * WINDOW_MS * 600).cause == "host_to_device"


@pytest.mark.parametrize(
    ("dips", "refills", "is_low"), [(3, 3, True), (3, 2, True), (3, 1, False), (2, 2, False), (1, 1, False)]
)
def test_fine_samples_must_show_refilled_dips_again_and_again(dips: int, refills: int, is_low: bool) -> None:
    """Three stretches of stand-still that end with a copy to the GPU are input; once is nothing."""
    assert one(dips=dips, refills=refills).is_low is is_low


def test_three_refilled_dips_without_a_host_are_a_suspicion() -> None:
    """The GPU alone says what happened and not why."""
    assert one(dips=3, refills=3) == InputJudgement(True, "loader_software", "low")


@pytest.mark.parametrize("missing", ["sm_ms", "shares_ms"])
def test_a_gpu_without_fine_figures_is_at_most_medium(missing: str) -> None:
    """An A100 reports no SM activity: what utilization alone says stays medium, however long it lasts."""
    judged = detect([stalled(number, **FULL_CORE, **{missing: 0}) for number in range(6)], LIMITS)
    assert {judgement.confidence for judgement in judged} == {"medium"}


def test_no_windows_are_no_judgement() -> None:
    """A run without any measured window is silent, not low."""
    assert detect([], LIMITS) == []


def test_pressure_of_writing_is_no_lack_of_input() -> None:
    """A checkpoint makes tasks wait for the disk as well; what is written then is more than what is read."""
    read = {"pressure_io": 300, "block_read": 1_000_000_000}
    assert one(**read, written=999_999_999).cause == "storage"
    assert one(**read, written=1_000_000_000).cause is None
