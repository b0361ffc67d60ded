"""The lines above a run's report and under it: what its GPUs drew, the runs before it, where its page is."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import pytest

from agent.wire.units import HOUR_US
from analyzer.findings.argue import RuledOut
from analyzer.finops.non_gpu_costs.costs import read_drawn, read_drawn_by_team
from analyzer.finops.non_gpu_costs.energy import Rates
from analyzer.interfaces.text.run_text import run_sentence, run_text
from analyzer.measures.traffic.tariff import TariffBook
from analyzer.period import Period
from analyzer.prices.non_gpu_rows import Energy, Intensity, NonGpuPrices
from analyzer.reports.reader import Reader
from analyzer.reports.run import (
    EarlierRun,
    RunDocument,
    RunEnergy,
    SharedTime,
    earlier_runs,
    run_energy,
    run_energy_words,
)
from analyzer.text.layout import TextLayout
from collector.store.session import Session
from tests.analyzer.finops.unit_cost_written import RATE, Written
from tests.analyzer.ledger.fleet import DAY, MONDAY, Fleet
from tests.analyzer.reports.example_week import TENTH
from tests.analyzer.reports.test_reading import BERLIN, EXAMPLE, changed

KWH = 3_600_000_000  # millijoules
JOULES = 18_000.0  # of one sample of a minute: 300 W
GERMANY = Intensity(Fraction(381_000), "Germany, 2023")
RUNS = ("slurm/alpha/1", "slurm/alpha/2")


@pytest.fixture
def told(session: Session) -> RunDocument:
    """Return the example run as it was drawn, with what it and its GPUs say of themselves."""
    report = Reader(session, replace(BERLIN, site_url="https://gpuledger.example"), EXAMPLE).run("81234")
    before = [
        EarlierRun(run_id, 11_280 * TENTH, micros, 3_900_000_000)
        for run_id, micros in (("slurm/alpha/80417", 2_925_000_000), ("slurm/alpha/80120", 2_886_000_000))
    ]
    energy = RunEnergy(446 * KWH, 11_280 * TENTH, 580 * KWH, 221_000_000)
    return changed(report, tokens=3_910_000_000, energy=energy, earlier=tuple(before))


def test_the_head_of_a_run_reads_as_it_was_drawn(told: RunDocument, golden: Callable[[str, str], None]) -> None:
    """Tokens with their price and that of the runs before, energy and carbon, and under it where to look next."""
    text = run_text(told, TextLayout())
    assert max(map(len, text.splitlines())) <= 80
    head, _, rest = text.partition("\n\n")
    golden("report/run_head.txt", f"{head}\n\n{rest[rest.index('ranks, timeline') :]}")


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        ({"energy": None}, ["queued 1 h 52 min before it began"]),
        ({"earlier": ()}, ["3.91 billion tokens (said by the run)  $0.75 per million"]),
        ({"earlier": (EarlierRun("a", 1, None, 1),)}, ["3.91 billion tokens (said by the run)  $0.75 per million"]),
    ],
)
def test_what_is_not_known_has_no_words(told: RunDocument, change: dict[str, object], lines: list[str]) -> None:
    """A dash, or a run before that has no price, would fill the head with what nobody knows."""
    shown = run_text(changed(told, **change), TextLayout()).splitlines()
    assert all(line in shown for line in lines)


def test_a_finding_of_a_run_says_what_was_ruled_out(told: RunDocument) -> None:
    """Whoever is told to change the loader asks first whether it is not the disk, or one slow GPU."""
    out = (RuledOut("straggler", "no rank differs"), RuledOut("checkpoints", "24.4 GPU-hours", "overhead"))
    shown = run_text(changed(told, ruled_out={"f-7kq2": out}), TextLayout())
    assert "  ruled out       straggler: no rank differs\n" in shown
    assert "24.4 GPU-hours" not in shown


@pytest.mark.parametrize(
    ("shared", "words"),
    [
        (SharedTime(8 * 3_600_000, 15 * 3_600_000), "15.0 GPU-hours of them are theirs."),
        (SharedTime(24 * 3_600_000, 0), "Others computed on its GPUs during 24.0 GPU-hours of its time."),
    ],
)
def test_a_run_beside_which_others_computed_is_not_told_to_have_had_its_gpus(
    told: RunDocument, shared: SharedTime, words: str
) -> None:
    """It was slowed threefold, and "nothing was found to change"."""
    alone = run_sentence(changed(told, findings=()))
    beside = run_sentence(changed(told, findings=(), shared=shared))
    assert alone.startswith("Nothing was found to change: it worked")
    assert beside.startswith("It worked")
    assert beside.endswith(words)
    assert run_sentence(changed(told, shared=shared)).endswith(words)


def test_a_run_that_was_not_queued_tells_its_energy_all_the_same(told: RunDocument) -> None:
    """The line of the queue bears it where there is one."""
    at_once = changed(told, facts=changed(told.facts, submitted_at=None))
    assert "energy                                 446 kWh at the GPUs, 221 kg CO2e" in run_text(at_once, TextLayout())


def test_attempts_are_told_beside_the_queue(told: RunDocument) -> None:
    """Who was put back in the queue wants to know how often."""
    twice = changed(told, facts=changed(told.facts, attempts=2))
    assert "queued 1 h 52 min; 2 attempts          446 kWh" in run_text(twice, TextLayout())


@pytest.mark.parametrize(
    ("millijoules", "milligrams", "words"),
    [
        (5_937 * KWH, 2_940_300_000, "5,937 kWh at the GPUs, 2,940 kg CO2e"),
        (44 * KWH + KWH // 2, None, "44.5 kWh at the GPUs"),
        (KWH // 4, 123_400, "0.250 kWh at the GPUs, 0.123 kg CO2e"),
    ],
)
def test_energy_is_told_as_exactly_as_its_size_asks(millijoules: int, milligrams: int | None, words: str) -> None:
    """A run of a minute is not 0 kWh, and one of a month has no use for tenths."""
    assert run_energy_words(RunEnergy(millijoules, 1000, None, milligrams), 1000) == words


def test_energy_of_a_part_of_the_time_is_the_least_that_it_can_be() -> None:
    """A GPU that told its power half of the time drew more than that."""
    assert run_energy_words(RunEnergy(KWH, 500, None, None), 1000) == "at least 1.0 kWh at the GPUs"


def two_runs() -> Fleet:
    """Return three GPU-hours of one run, and one that it shared with another, of which the last half hour was free."""
    fleet = Fleet()
    fleet.own("n1", ["g1", "g2"], purchase_option="reserved")
    for gpu in ("g1", "g2"):
        fleet.sample("n1", gpu, MONDAY, MONDAY + 2 * HOUR_US, energy_joules=JOULES)
    fleet.hold(RUNS[0], "n1", ["g1"], MONDAY, MONDAY + 2 * HOUR_US)
    fleet.hold(RUNS[0], "n1", ["g2"], MONDAY, MONDAY + HOUR_US // 7)
    fleet.hold(RUNS[1], "n1", ["g2"], MONDAY + HOUR_US // 7, MONDAY + 3 * HOUR_US // 2)
    fleet.analyze(MONDAY + DAY)
    return fleet


def test_what_runs_drew_is_what_was_drawn_while_they_held_it() -> None:
    """Runs, and what nobody held, sum to the fleet: a sample is cut where its GPU changes hands."""
    period = Period(MONDAY, MONDAY + 2 * HOUR_US, "two hours", "UTC")
    with two_runs().store.session() as session:
        own = {run_id: sum(one.millijoules for one in read_drawn(session, period, run_id)) for run_id in RUNS}
        fleet = sum(one.millijoules for one in read_drawn(session, period))
        parts = read_drawn_by_team(session, period)
    free = sum(one.millijoules for (_, is_held), each in parts.items() for one in each if not is_held)
    hour = 60 * 1000 * round(JOULES)
    assert own[RUNS[0]] == 2 * hour + hour * (HOUR_US // 7 // 1000) // 3_600_000
    assert free == hour // 2
    assert fleet == free + sum(own.values())


def test_a_runs_energy_is_priced_by_the_rows_of_its_hours() -> None:
    """The hall and the carbon are by the week's own rows; without one the energy at the GPUs is still known."""
    period = Period(MONDAY, MONDAY + 2 * HOUR_US, "two hours", "UTC")
    row = Energy("energy", None, 0, None, "hall", None, None, 1_300_000, GERMANY)  # type: ignore[arg-type]

    def told(rows: tuple[Energy, ...]) -> Rates:
        return Rates(NonGpuPrices(energy=rows), TariffBook())

    with two_runs().store.session() as session:
        bare, whole = (run_energy(session, RUNS[0], period, told(rows)) for rows in ((), (row,)))
        nobody = run_energy(session, "slurm/alpha/9", period, told((row,)))
    assert bare is not None
    assert whole is not None
    assert (bare.facility_millijoules, bare.carbon_milligrams) == (None, None)
    assert bare.gpu_millijoules == whole.gpu_millijoules
    assert whole.facility_millijoules == pytest.approx(whole.gpu_millijoules * 1.3, abs=4)
    assert whole.carbon_milligrams == pytest.approx(whole.gpu_millijoules * 1.3 * 381_000 / KWH, abs=4)
    assert bare.measured_ms == pytest.approx(7_200_000 + 3_600_000 // 7, abs=2)
    assert nobody is None


def earlier_of(written: Written, began: int) -> Sequence[EarlierRun]:
    """Return the runs before one of team nlp that began then."""
    with written.store.session() as session:
        return earlier_runs(session, "sft", "nlp", began)


def test_the_runs_before_are_the_last_two_of_the_same_name_and_team() -> None:
    """Not one that still ran when this one began, nor another team's of the same name."""
    written = Written()
    written.know(MONDAY, MONDAY + 120 * HOUR_US)
    for number, (team, start, hours) in enumerate(
        [("nlp", 0, 2), ("nlp", 10, 2), ("nlp", 20, 2), ("vision", 24, 2), ("nlp", 30, 90)]
    ):
        run_id, began = f"slurm/a/{number}", MONDAY + start * HOUR_US
        written.run(run_id, "sft", team, started_at=began, ended_at=began + hours * HOUR_US, exit_status="completed")
        written.book(run_id, range(began, began + hours * HOUR_US, HOUR_US), lambda _: 4.0)
        written.say("progress", run_id, [began], tokens=lambda _: 2_000_000)
    found = earlier_of(written, MONDAY + 40 * HOUR_US)
    assert [one.run_id for one in found] == ["slurm/a/2", "slurm/a/1"]
    assert [one.micros_per_million_tokens for one in found] == [4 * RATE, 4 * RATE]
    assert earlier_of(written, MONDAY + HOUR_US) == ()


def test_a_run_without_a_name_is_like_no_other(session: Session) -> None:
    """Runs are of a kind by their name alone."""
    assert earlier_runs(session, None, "team-nlp", MONDAY * 2) == ()


def test_a_page_is_told_where_the_site_has_pages(session: Session) -> None:
    """Without an address a link would lead nowhere."""
    site = replace(BERLIN, site_url="https://gpuledger.example")
    assert Reader(session, site, EXAMPLE).run("81234").page == "https://gpuledger.example/runs/slurm/alpha/81234"
    bare = Reader(session, BERLIN, EXAMPLE).run("81234")
    assert bare.page is None
    assert "ranks, timeline" not in run_text(bare, TextLayout())
