"""A sample's joules belong to whoever held the GPU in that sample, and every reader of them agrees."""

import csv
import io
from collections import defaultdict
from collections.abc import Iterator
from datetime import date
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TypeAlias

import pytest

from analyzer.finops.focus.charges import charges
from analyzer.finops.non_gpu_costs.costs import costs_of, read_drawn, read_drawn_by_team
from analyzer.finops.non_gpu_costs.energy import Rates
from analyzer.finops.non_gpu_costs.text import costs_text
from analyzer.measures.traffic.tariff import TariffBook
from analyzer.period import Period
from analyzer.prices.non_gpu_rows import Energy, Intensity, NonGpuPrices
from analyzer.reports.run import run_energy, run_energy_words
from analyzer.text.layout import TextLayout
from collector.store.schemas import SCHEMA_DIRECTORY
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, MONDAY, SECOND, Fleet
from tests.campaign import cases

PERIOD = Period(MONDAY, MONDAY + 4 * HOUR, "four hours", "UTC")
ROW = Energy("energy", None, 0, None, "power contract", date(2026, 1, 1), 110_000, 1_300_000,
             Intensity(Fraction(380_950), "Germany, 2023"))  # fmt: skip
Hold = tuple[str, int, int]  # run, start, end
Sample = tuple[int, int, float | None, float | None]  # start, end, joules, watts
Schedule: TypeAlias = tuple[list[Hold], list[Sample]]


def fleet_of(holds: list[Hold], samples: list[Sample], until: int = 4 * HOUR) -> Fleet:
    """Return a fleet of one GPU, analyzed."""
    return fleet_of_all([(holds, samples)], until)


def fleet_of_all(schedules: list[Schedule], until: int = 4 * HOUR) -> Fleet:
    """Return a fleet of one GPU for each schedule, g0, g1 and so on, analyzed."""
    fleet = Fleet()
    gpus = [f"g{number}" for number in range(len(schedules))]
    fleet.own("n1", gpus, owned_until=MONDAY + until)
    for gpu, (holds, samples) in zip(gpus, schedules, strict=True):
        row = {"node": "n1", "gpu_uuid": gpu, "up": True, "utilization_ratio": 0.9}
        spans = [{"started_at": MONDAY + start, "ended_at": MONDAY + end} for start, end, _, _ in samples]
        drawn = [{"energy_joules": joules, "power_watts": watts} for _, _, joules, watts in samples]
        fleet.add("gpu_samples", [row | span | what for span, what in zip(spans, drawn, strict=True)])
        for run, start, end in holds:
            fleet.hold(run, "n1", [gpu], MONDAY + start, MONDAY + end, account=f"team-{run[-1]}")
    fleet.analyze(MONDAY + DAY)
    return fleet


def drawn_by_runs(fleet: Fleet, runs: set[str]) -> dict[str | None, int]:
    """Return the millijoules of each run, of its report; and of nobody, of the costs by team."""
    with fleet.store.session() as session:
        found: dict[str | None, int] = {}
        for run in runs:
            told = run_energy(session, run, PERIOD, Rates(NonGpuPrices(energy=(ROW,)), TariffBook()))
            found[run] = 0 if told is None else told.gpu_millijoules
        read_drawn(session, PERIOD)
        by_team = read_drawn_by_team(session, PERIOD)
        found[None] = sum(one.millijoules for (_, held), each in by_team.items() if not held for one in each)
    return found


def integral(holds: list[Hold], samples: list[Sample]) -> dict[str | None, Fraction]:
    """Return the joules of each holder, millisecond by millisecond of what changes hands; sharers halve it."""
    sums: dict[str | None, Fraction] = defaultdict(Fraction)
    for start, end, joules, _ in samples:
        edges = sorted({start, end, *(at for _, a, b in holds for at in (a, b) if start < at < end)})
        for begin, until in pairwise(edges):
            runs: set[str | None] = {run for run, a, b in holds if a <= begin and b >= until}
            runs = runs or {None}
            for run in runs:
                sums[run] += Fraction(joules or 0) * (until - begin) / (end - start) / len(runs)
    return sums


def schedule_of(seed: int) -> Schedule:
    """Draw who held a GPU over four hours, some of them together, and what it drew, in rows of any length."""
    draw = Random(seed)
    holds = []
    for number in range(draw.randint(0, 5)):
        start = draw.randint(0, 14_000) * SECOND
        holds.append((f"slurm/a{seed}/{number}", start, min(4 * HOUR, start + draw.randint(1, 9_000) * SECOND)))
    samples: list[Sample] = []
    at = draw.randint(0, 600) * SECOND
    while at < 4 * HOUR and len(samples) < 60:
        end = min(4 * HOUR, at + draw.choice([10, 60, 300, 1_000, 4_000]) * SECOND)
        samples.append((at, end, float(draw.randint(0, 700_000)), None))
        at = end + draw.choice([0, 0, 0, 900]) * SECOND
    return holds, samples


@pytest.mark.parametrize("seeds", cases(400, here=25))
def test_joules_are_the_holders_of_their_sample_by_any_schedule(seeds: range) -> None:
    """Equal to the joule to a brute-force integral; runs, teams, carbon and FOCUS say the same, and none is lost.

    Each schedule is of a GPU of its own: one pass judges 25.
    """
    for batch in batched(seeds):
        _are_the_holders([schedule_of(seed) for seed in batch])


def batched(seeds: range) -> Iterator[range]:
    """Yield them 25 at a time."""
    for at in range(0, len(seeds), 25):
        yield seeds[at : at + 25]


def _are_the_holders(made: list[Schedule]) -> None:
    fleet = fleet_of_all(made)
    runs = {run for holds, _ in made for run, _, _ in holds}
    rights = [integral(*one) for one in made]
    found = drawn_by_runs(fleet, runs)
    for schedule, right in zip(made, rights, strict=True):
        for held, _, _ in schedule[0]:
            assert abs(found[held] / 1000 - right[held]) < 1, (held, schedule)
    with fleet.store.session() as session:
        by_gpu = dict(session.rows("SELECT gpu_uuid, sum(millijoules)::BIGINT FROM energy_amounts GROUP BY 1"))
        of_nobody = dict(session.rows("SELECT gpu_uuid, sum(millijoules)::BIGINT FROM energy_amounts "
                                      "WHERE run_id IS NULL GROUP BY 1"))  # fmt: skip
        for number, (_, samples) in enumerate(made):
            drawn = sum(round(1000 * (joules or 0)) for _, _, joules, _ in samples)
            assert by_gpu.get(f"g{number}", 0) == drawn, (number, made[number])
            assert abs(of_nobody.get(f"g{number}", 0) / 1000 - rights[number][None]) < 1, (number, made[number])
        assert sum(of_nobody.values()) == found[None]
        assert sum(by_gpu.values()) == sum(found.values())
        costs = costs_of(session, PERIOD, NonGpuPrices(energy=(ROW,)), "v", "USD", TariffBook())
        assert sum(one.carbon_milligrams or 0 for one in costs.energy_by_team) == sum(
            one.carbon_milligrams or 0 for one in costs.energy
        )
        by_run: dict[str | None, int] = defaultdict(int)
        for hour in range(MONDAY, MONDAY + 4 * HOUR, HOUR):
            for charge in charges(session, hour, hour + HOUR, energy=True):
                by_run[charge.run_id] += charge.millijoules or 0
    for run in (*runs, None):
        assert abs(by_run[run] - found[run]) < 1000, run


def test_ten_minutes_of_one_run_and_fifty_of_another_are_told_apart() -> None:
    """700 W then 60 W are 116.7 and 50 Wh, and by the clock they would be 28 and 139."""
    samples: list[Sample] = [
        (at, at + MINUTE, 42_000.0 if at < 10 * MINUTE else 3_600.0, None) for at in range(0, HOUR, MINUTE)
    ]
    fleet = fleet_of([("slurm/a/1", 0, 10 * MINUTE), ("slurm/a/2", 10 * MINUTE, HOUR)], samples, HOUR)
    assert drawn_by_runs(fleet, {"slurm/a/1", "slurm/a/2"}) == {
        "slurm/a/1": 420_000_000,
        "slurm/a/2": 180_000_000,
        None: 0,
    }


def test_a_row_that_crosses_the_hour_is_cut_there() -> None:
    """Half of its joules were drawn in each."""
    fleet = fleet_of([("slurm/a/1", 0, 2 * HOUR)], [(30 * MINUTE, 90 * MINUTE, 1_000.001, None)])
    with fleet.store.session() as session:
        hours = session.rows("SELECT hour, millijoules, measured_ms FROM energy_amounts ORDER BY hour")
    assert hours == [(MONDAY, 500_000, 1_800_000), (MONDAY + HOUR, 500_001, 1_800_000)]


def test_power_stands_for_joules_that_no_counter_tells_and_is_said() -> None:
    """20 minutes at 400 and 500 W in turn: the trapezoid; where a counter tells some, that counts alone."""
    samples: list[Sample] = [
        (at * 5 * SECOND, (at + 1) * 5 * SECOND, None, 500.0 if at % 2 else 400.0) for at in range(240)
    ]
    fleet = fleet_of([("slurm/a/1", 0, 20 * MINUTE)], [*samples, (20 * MINUTE, 21 * MINUTE, 77.0, 300.0)])
    found = drawn_by_runs(fleet, {"slurm/a/1"})
    assert found["slurm/a/1"] == pytest.approx(540_000_000, rel=0.01)
    assert found[None] == 77_000
    with fleet.store.session() as session:
        told = run_energy(session, "slurm/a/1", PERIOD, Rates(NonGpuPrices(), TariffBook()))
        costs = costs_of(session, PERIOD, NonGpuPrices(), "v", "USD", TariffBook())
    assert told is not None
    assert "kWh at the GPUs, by power" in run_energy_words(told, 20 * 60_000)
    assert "kWh at the GPUs, by power" in " ".join(costs_text(costs, TextLayout(80, ascii=True)).split())


def test_runs_of_one_hour_get_what_each_drew() -> None:
    """24 runs of codecarbon, one sample each with what it drew: nobody has any."""
    text = (Path(__file__).parents[2] / "data" / "logs" / "emissions.csv").read_text()
    holds: list[Hold] = []
    samples: list[Sample] = []
    right, at = {}, 0
    for row in csv.DictReader(io.StringIO(text)):
        length = round(float(row["duration"]) * SECOND)
        joules = float(row["gpu_energy"]) * 3.6e6
        holds.append((f"declared/ws1/{row['run_id']}", at, at + length))
        samples.append((at, at + length, joules, float(row["gpu_power"])))
        right[f"declared/ws1/{row['run_id']}"], at = joules, at + length
    found = drawn_by_runs(fleet_of(holds, samples, at), set(right))
    assert found.pop(None) == 0
    assert {run: round(millijoules / 1000) for run, millijoules in found.items()} == {
        run: round(joules) for run, joules in right.items()
    }
    assert round(found["declared/ws1/run-05"] / 1000) == 85_407


def test_one_holder_needs_no_list_of_moments() -> None:
    """Most hours have one, and cost nothing more."""
    fleet = fleet_of([("slurm/a/1", 0, HOUR)], [(0, HOUR, 100.0, None)], HOUR)
    with fleet.store.session() as session:
        assert session.rows("SELECT run_id, millijoules FROM energy_amounts") == [("slurm/a/1", 100_000)]
        assert session.row("SELECT count(*) FROM hour_holders") == (0,)


def test_what_was_booked_before_an_upgrade_stays_divided_by_time() -> None:
    """An earlier release kept an hour's joules without their holders: what it told is what stays, to the millijoule."""
    fleet = fleet_of(
        [("slurm/a/1", 0, 10 * MINUTE), ("slurm/a/2", 10 * MINUTE, HOUR)], [(0, HOUR, 100.001, None)], HOUR
    )
    (script,) = SCHEMA_DIRECTORY.glob("0025_*.sql")
    with fleet.store.session() as session:
        session.execute("CREATE TABLE before AS SELECT hour, node, gpu_uuid, sum(millijoules)::BIGINT AS millijoules, "
                        "sum(measured_ms)::BIGINT AS measured_ms FROM energy_amounts GROUP BY ALL")  # fmt: skip
        session.execute("DROP TABLE energy_amounts")
        session.execute("DROP TABLE hour_holders")
        session.execute("ALTER TABLE before RENAME TO energy_amounts")
        for statement in script.read_text().split(";"):
            if statement.strip():
                session.execute(statement)
        rows = session.rows("SELECT run_id, millijoules, measured_ms, power_ms FROM energy_amounts ORDER BY run_id")
    assert rows == [("slurm/a/1", 16_666, 600_000, 0), ("slurm/a/2", 83_335, 3_000_000, 0)]
