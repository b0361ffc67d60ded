"""What a clock loses: by as much of the time as it is held down, and against what such a board reaches under load.

Boards at their own limit of power do what they are built for; their clock under load is below the driver's highest.
"""

from collections.abc import Callable, Iterator

import pytest

from analyzer.ledger.boards import BOARDS
from tests.analyzer.ledger.copies import OnePass
from tests.analyzer.ledger.fleet import HOUR, MONDAY, Fleet

T = MONDAY
MHZ = 1e6
Board = tuple[str, float, int, int]

one_pass = OnePass()

# Kinds, their limit as delivered, their highest clock by the driver, and their clock under an ordinary load.
ORDINARY: tuple[Board, ...] = (
    ("RTX-3090-24GB", 350.0, 2100, 1650),
    ("RTX-4090-24GB", 450.0, 3105, 2475),
    ("T4-16GB", 70.0, 1590, 930),
    ("L4-24GB", 72.0, 2040, 1200),
    ("L40S-48GB", 350.0, 2520, 1900),
    ("A100-80GB", 400.0, 1410, 1275),
    ("A100-80GB", 300.0, 1410, 1180),  # PCIe
    ("H100-80GB", 700.0, 1980, 1600),
    ("H100-80GB", 350.0, 1755, 1450),  # PCIe
    ("H200-141GB", 700.0, 1980, 1700),
    ("GB300-288GB", 1400.0, 2070, 1750),  # no row of BOARDS: the site's own boards say what is usual
)


def slowed(fleet: Fleet) -> int:
    """Return the milliseconds of a GPU-hour that are booked as throttled."""
    return sum(ms for (state, _), ms in fleet.states().items() if state == "throttled")


def _hold(fleet: Fleet, gpu: str, board: Board, values: dict[str, float], every: int = 10_000_000) -> None:
    """Let a run hold the GPU of a host, named as that, for an hour."""
    sku, limit, highest, clock = board
    made = {"gpu_uuid": gpu, "sku": sku, "power_limit_watts": limit}
    fleet.own(gpu, [gpu], sku)
    fleet.add("inventory", [{"node": gpu, **made, "started_at": T, "ended_at": T + 1}])
    fleet.hold(f"slurm/alpha/{gpu}", gpu, [gpu], T, T + HOUR)
    told: dict[str, object] = {"sm_clock_hertz": clock * MHZ, "sm_clock_reference_hertz": highest * MHZ, **values}
    fleet.sample(gpu, gpu, T, T + HOUR, every, **told)


def _slowed_each(values: Callable[[float], dict[str, float]], every: int = 10_000_000) -> dict[str, int]:
    """Return the same of each ordinary board, side by side in one store; what they are told depends on their limit."""
    fleet = Fleet()
    for number, board in enumerate(ORDINARY):
        _hold(fleet, f"{board[0]}/{number}", board, values(board[1]), every)
    fleet.analyze()
    with fleet.store.session() as session:
        rows = session.rows(
            """
            SELECT gpu_uuid, coalesce(sum(milliseconds) FILTER (state = 'throttled'), 0)::BIGINT
            FROM ledger GROUP BY gpu_uuid
            """
        )
    assert len(rows) == len(ORDINARY)
    return dict(rows)


@pytest.mark.parametrize("seconds", [10, 60])
def test_a_board_at_its_own_limit_loses_nothing(seconds: int) -> None:
    """The driver counts all of its time as held down for power, and its clock is far below the highest."""
    lost = _slowed_each(
        lambda limit: {"power_watts": 0.97 * limit, "throttle_power_seconds": float(seconds)}, seconds * 1_000_000
    )
    assert {gpu: ms for gpu, ms in lost.items() if ms} == {}


@pytest.mark.parametrize("share", [0.5, 0.69, 0.75, 0.9])
def test_moments_of_throttling_are_moments(share: float) -> None:
    """5 ms in 10 s: at most that much of the time is lost, whatever the clock."""
    lost = _slowed_each(lambda limit: {"power_watts": share * limit, "throttle_power_seconds": 0.005})
    assert {gpu: ms for gpu, ms in lost.items() if ms > 3_600_000 * 0.0005 * 2} == {}


@one_pass
def test_what_is_lost_is_weighted_by_how_long_it_was(fleet: Fleet) -> Iterator[None]:
    """Half of the time at half the clock is a quarter of the work."""
    half = {"sm_clock_hertz_min": 705 * MHZ, "power_watts": 200.0, "throttle_thermal_seconds": 4.9}
    _hold(fleet, "G1", ("A100-80GB", 400.0, 1410, 1057), half)
    yield
    assert slowed(fleet) == pytest.approx(3_600_000 * 0.49 * 0.5, rel=0.02)


@one_pass
def test_a_cap_below_what_a_board_is_built_for_costs_clock(fleet: Fleet) -> Iterator[None]:
    """315 W of 350: the clock that is lost is told against the rated one, not the driver's highest."""
    told = {"power_watts": 314.0, "throttle_power_seconds": 9.9}
    _hold(fleet, "G1", ("RTX-3090-24GB", 315.0, 2100, 1507), told)
    yield
    assert slowed(fleet) == pytest.approx(3_600_000 * (1 - 1507 / 1695), rel=0.03)


@one_pass
def test_a_board_that_is_held_back_below_its_limit_loses_its_clock(fleet: Fleet) -> Iterator[None]:
    """150 W of 300, all the time for power: that is a fault, not a limit."""
    told = {"power_watts": 150.0, "throttle_power_seconds": 10.0}
    _hold(fleet, "G1", ("V100-32GB", 300.0, 1530, 855), told)
    yield
    assert slowed(fleet) == pytest.approx(3_600_000 * (1 - 855 / 1530), rel=0.02)


@one_pass.each((700.0,), (500.0,))
def test_power_that_was_not_read_is_not_known_to_be_below_the_limit(fleet: Fleet, limit: float) -> Iterator[None]:
    """Whether a board at its limit did what it was built for, or less, nobody can say: nothing is booked."""
    _hold(fleet, "G1", ("H100-80GB", limit, 1980, 1500), {"throttle_power_seconds": 9.9})
    yield
    assert (slowed(fleet) > 0) == (limit < 700), "what is capped is, whatever it draws"


@one_pass
def test_heat_is_a_loss_at_any_power(fleet: Fleet) -> Iterator[None]:
    """A board that is too hot does not do what it is built for."""
    told = {"power_watts": 690.0, "throttle_thermal_seconds": 10.0}
    _hold(fleet, "G1", ("H100-80GB", 700.0, 1980, 990), told)
    yield
    assert slowed(fleet) == pytest.approx(1_800_000, rel=0.02)


def test_each_make_of_a_kind_has_its_own_limit() -> None:
    """Rows of one kind would else hide one another."""
    makes = [(board.sku, board.limit_watts) for board in BOARDS]
    assert len(makes) == len(set(makes))
    assert all(300 <= board.boost_megahertz <= 3000 for board in BOARDS)


@one_pass.each((0.2,), (0.4,), (0.7,))
def test_bursts_at_the_limit_within_an_interval_lose_nothing(fleet: Fleet, held: float) -> Iterator[None]:
    """A minute of which a part is at the limit draws less on average: what it drew meanwhile was all it may."""
    watts = 700 * held + 350 * (1 - held)
    told = {"power_watts": watts, "throttle_power_seconds": 60 * held}
    _hold(fleet, "G1", ("H100-80GB", 700.0, 1980, 1600), told, 60_000_000)
    yield
    assert slowed(fleet) == 0
