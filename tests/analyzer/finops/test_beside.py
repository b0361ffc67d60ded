"""What costs besides GPUs is priced exactly, beside the ledger: energy once with its PUE, and nothing smeared."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.errors import ConfigError
from analyzer.finops.non_gpu_costs.costs import (
    Costs,
    Hosted,
    Written,
    checkpoint_micros,
    costs_of,
    host_micros,
    read_drawn,
    storage_micros,
)
from analyzer.finops.non_gpu_costs.energy import Drawn, TeamEnergy, energy, energy_by_team
from analyzer.finops.non_gpu_costs.text import costs_text
from analyzer.interfaces.cli.prices import costs as command
from analyzer.measures.traffic.tariff import Bill, TariffBook
from analyzer.period import Period
from analyzer.prices.non_gpu_rows import (
    CLOUD_REGIONS,
    COUNTRIES,
    Checkpoints,
    Energy,
    Host,
    Intensity,
    NonGpuPrices,
    Storage,
    intensity,
    near,
)
from analyzer.prices.price_book import PriceBook
from analyzer.text.layout import TextLayout
from collector.lake.tiers import Span, planned, roll_hours, roll_minutes
from collector.store.schemas import make_tier_tables
from collector.tier_tables import tiered
from tests.analyzer.finops.test_charging import site
from tests.analyzer.ledger.fleet import DAY, HOUR, MONDAY, Fleet

DAY_ONE = date(2026, 1, 1)
KWH = 3_600_000_000  # millijoules
GERMANY = Intensity(Fraction(380_950), "Germany, 2023")
ROW = Energy("energy", None, 0, None, "power contract", DAY_ONE, 110_000, 1_300_000, GERMANY)
ENERGY = """
[[energy]]
usd_per_kwh = 0.11
pue = 1.30
carbon = "DEU"
from = 2020-01-01
source = "power contract 12"
as_of = 2026-11-01
"""
STORAGE = """
[[storage]]
name = "scratch"
gib = 512_000
usd_per_gib_month = 0.02
from = 2020-01-01
source = "storage contract"
as_of = 2026-11-01
"""
HOSTS = """
[[host]]
usd_per_core_hour = 0.01
usd_per_gib_hour = 0.001
from = 2020-01-01
source = "cloud"
as_of = 2026-11-01

[[checkpoints]]
usd_per_gib_written = 0.005
from = 2020-01-01
source = "object store"
as_of = 2026-11-01
"""


def test_pue_is_applied_once() -> None:
    """A kilowatt-hour at the GPUs is 1.30 in the hall: 14.3 cents and 495 g, not 18.6 cents and 644 g."""
    (found,) = energy([Drawn("h100", 0, KWH, 3_600_000)], [ROW])
    assert (found.gpu_millijoules, found.facility_millijoules) == (KWH, KWH * 13 // 10)
    assert (found.cost_micros, found.carbon_milligrams) == (143_000, 495_235)


def test_what_is_not_told_is_unknown() -> None:
    """Without a row there is no price, no carbon and no hall; a tariff that is missing costs only the money."""
    drawn = [Drawn("h100", 0, KWH, 1), Drawn("h100", HOUR, KWH, 1)]
    (none,) = energy(drawn, [])
    assert (none.gpu_millijoules, none.facility_millijoules, none.cost_micros, none.carbon_milligrams) == (
        2 * KWH,
        None,
        None,
        None,
    )
    (no_tariff,) = energy(drawn, [replace(ROW, micros_per_kwh=None)])
    assert (no_tariff.cost_micros, no_tariff.carbon_milligrams) == (None, 2 * 495_235)
    (half,) = energy(drawn, [replace(ROW, ends_at=HOUR)])  # an hour without a row makes the sum unknown, not smaller
    assert half.cost_micros is None


def test_a_node_group_has_a_tariff_of_its_own() -> None:
    """Two halls, two contracts."""
    own = replace(ROW, name="h100", micros_per_kwh=220_000)
    found = energy([Drawn("h100", 0, KWH, 1), Drawn("a100", 0, KWH, 1), Drawn(None, 0, KWH, 1)], [ROW, own])
    assert [(one.node_group, one.cost_micros) for one in found] == [
        ("a100", 143_000),
        ("h100", 286_000),
        (None, 143_000),
    ]


@given(st.lists(st.integers(0, 10**13), min_size=1, max_size=50), st.integers(0, 50))
def test_energy_of_hours_sums_to_energy_of_days(millijoules: list[int], cut: int) -> None:
    """Whatever window is asked, its parts sum to it, to the millionth and the milligram."""
    drawn = [Drawn("h100", hour * HOUR, amount, 1) for hour, amount in enumerate(millijoules)]

    def sums(part: list[Drawn]) -> tuple[int, int]:
        found = energy(part, [ROW])
        return sum(one.cost_micros or 0 for one in found), sum(one.carbon_milligrams or 0 for one in found)

    early, late, whole = sums(drawn[:cut]), sums(drawn[cut:]), sums(drawn)
    assert (early[0] + late[0], early[1] + late[1]) == whole
    exact = Fraction(sum(millijoules) * 13 * 110_000, 10 * KWH)
    assert exact - len(millijoules) < whole[0] <= exact


@given(
    st.dictionaries(
        st.tuples(st.sampled_from(["nlp", "vision", None]), st.booleans()),
        st.lists(st.tuples(st.sampled_from(["h100", None]), st.integers(0, 4), st.integers(0, 10**10)), max_size=20),
    )
)
def test_what_teams_drew_sums_to_what_the_fleet_drew(
    told: dict[tuple[str | None, bool], list[tuple[str | None, int, int]]],
) -> None:
    """A team lead adds up the column, and finance compares it with the mail: not a millionth may be missing."""
    drawn = {
        who: [Drawn(group, hour * HOUR, amount, 1) for group, hour, amount in taken] for who, taken in told.items()
    }
    whole: dict[tuple[str | None, int], int] = {}
    for one in (one for taken in drawn.values() for one in taken):
        whole[one.node_group, one.hour] = whole.get((one.node_group, one.hour), 0) + one.millijoules
    fleet = energy([Drawn(group, hour, amount, 1) for (group, hour), amount in whole.items()], [ROW])
    teams = energy_by_team(drawn, [ROW])
    assert sum(one.millijoules for one in teams) == sum(one.gpu_millijoules for one in fleet)
    assert sum(one.cost_micros or 0 for one in teams) == sum(one.cost_micros or 0 for one in fleet)
    assert sum(one.carbon_milligrams or 0 for one in teams) == sum(one.carbon_milligrams or 0 for one in fleet)


SCRATCH = Storage("storage", "scratch", 3 * HOUR, 1000 * HOUR, "contract", DAY_ONE, 512_000_000_007, 20_001)


@given(st.integers(0, 1100), st.integers(0, 1100), st.integers(0, 1100))
def test_storage_of_windows_sums(one: int, other: int, third: int) -> None:
    """What a month costs is what its weeks cost; before it is paid for and afterwards it costs nothing."""
    start, middle, end = (hour * HOUR for hour in sorted((one, other, third)))
    parts = storage_micros(SCRATCH, start, middle) + storage_micros(SCRATCH, middle, end)
    assert parts == storage_micros(SCRATCH, start, end)
    assert storage_micros(SCRATCH, 0, 3 * HOUR) == storage_micros(SCRATCH, 1000 * HOUR, 1001 * HOUR) == 0


def test_a_month_of_storage_is_its_price() -> None:
    """730 hours of 512,000 GiB at two cents are 10,240 dollars."""
    row = Storage("storage", "scratch", 0, None, "contract", DAY_ONE, 512_000_000_000, 20_000)
    assert storage_micros(row, 0, 730 * HOUR) == 10_240_000_000


def test_checkpoints_and_hosts_have_a_price_only_where_a_row_gives_one() -> None:
    """A host whose cores are not known costs unknown; a host that no row prices is in the price of its GPUs."""
    row = Checkpoints("checkpoints", None, 0, HOUR, "store", DAY_ONE, 5_000)
    assert checkpoint_micros([Written(0, 3 << 30)], [row]) == 15_000
    assert checkpoint_micros([Written(0, 3 << 30), Written(HOUR, 1)], [row]) is None
    host = Host("host", "h100", 0, None, "cloud", DAY_ONE, 10_000, 1_000)
    known, unknown = Hosted("h100", 0, 1, 128, 2 << 40), Hosted("h100", 0, 1, None, 2 << 40)
    assert host_micros([known], [host]) == 128 * 10_000 + 2048 * 1_000
    assert host_micros([known, unknown], [host]) is None
    assert host_micros([replace(unknown, node_group="a100")], [host]) == 0


def test_the_carbon_tables_are_read_whole() -> None:
    """Each row has a figure that a grid can have, and says who measured it of what."""
    names = [line.split(",")[0] for line in COUNTRIES.read_text().splitlines()[1:]]
    names += [" ".join(line.split(",")[:2]) for line in CLOUD_REGIONS.read_text().splitlines()[1:]]
    assert len(names) == len(set(names)) == 213 + 40
    found = [intensity(name) for name in names]
    assert all(
        one is not None and 0 <= one.milligrams_per_kwh <= 1_500_000 and "codecarbon" in one.told for one in found
    )
    assert intensity("DEU") == Intensity(Fraction(380_950), "Germany, 2023; codecarbon 3.3.2")
    assert (intensity("Atlantis"), near("Germany"), near("deu"), near("gcp europe-wst4")) == (
        None,
        "DEU",
        "DEU",
        "gcp europe-west4",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ENERGY.replace("pue = 1.30\n", ""), "'pue' must be a number"),
        (ENERGY.replace("1.30", "130"), "'pue' must be 1 to 3"),
        (ENERGY.replace("DEU", "Germany"), "did you mean 'DEU'?"),
        (ENERGY.replace("DEU", "=cmd()"), "write grams_per_kwh"),
        (ENERGY + "grams_per_kwh = 3\n", "give one of 'carbon' and 'grams_per_kwh'"),
        (ENERGY.replace('carbon = "DEU"', "grams_per_kwh = -1"), "must be 0 or more"),
        (ENERGY.replace("0.11", "nan"), "must be 0 or more"),
        (ENERGY.replace("0.11", "1e300"), "more than a trillion"),
        (ENERGY.replace("usd_per", "eur_per"), "unknown key 'eur_per_kwh'"),
        (ENERGY + ENERGY.replace("12", "13"), "two rows of energy at the same time"),
        (STORAGE.replace('name = "scratch"\n', ""), "'name' is missing"),
        (STORAGE.replace("512_000", "-1"), "must be 0 or more"),
        (STORAGE + STORAGE, "two rows of storage scratch at the same time"),
        (HOSTS.replace("usd_per_core_hour = 0.01\n", ""), "'usd_per_core_hour' must be a number"),
        ("[[networks]]\n", "unknown key 'networks'"),
    ],
)
def test_a_wrong_row_is_refused_in_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    """As prices are: what is read wrongly would be believed."""
    (tmp_path / "prices.toml").write_text(text)
    with pytest.raises(ConfigError) as refusal:
        PriceBook.read(tmp_path / "prices.toml")
    assert message in str(refusal.value)


def test_costs_are_counted_from_the_store(tmp_path: Path) -> None:
    """Samples without energy are not 0, MIG instances draw what their GPU does; the ledger's version stays."""
    book = PriceBook.parse("prices.toml", (ENERGY + STORAGE + HOSTS).encode())
    assert (book.version, book.beside_version != "") == (PriceBook.parse("prices.toml", b"").version, True)
    fleet = Fleet()
    fleet.own("n1", ["g1", "g2"], purchase_option="reserved")
    fleet.sample("n1", "g1", MONDAY, MONDAY + 2 * HOUR, energy_joules=18_000.5)
    fleet.sample("n1", "g2", MONDAY, MONDAY + 2 * HOUR)
    fleet.sample("n1", "MIG-1", MONDAY, MONDAY + HOUR, energy_joules=9.0, parent_uuid="g1")
    host = {"node": "n1", "node_group": "h100", "cpu_cores": 128, "host_memory_bytes": 2 << 40}
    fleet.add("inventory", [host | {"started_at": MONDAY, "ended_at": MONDAY + HOUR}])
    fleet.hold("slurm/alpha/1", "n1", ["g1"], MONDAY, MONDAY + HOUR // 7)
    fleet.analyze(MONDAY + DAY)
    period = Period(MONDAY, MONDAY + 2 * HOUR, "two hours", "UTC")
    with fleet.store.session() as session:
        costs = costs_of(session, period, book.beside, book.beside_version, "USD", TariffBook())
    (drawn,) = costs.energy
    assert (drawn.node_group, drawn.gpu_millijoules, drawn.measured_ms) == ("h100", 120 * 18_000_500, 7_200_000)
    assert drawn.cost_micros == 2 * (60 * 18_000_500 * 13 * 110_000 // (10 * KWH))
    parts = {(one.team, one.held): one.millijoules for one in costs.energy_by_team}
    theirs = 60 * 18_000_500 * (HOUR // 7 // 1000) // 3_600_000  # their part of the hour, in whole millijoules
    assert parts == {(None, True): theirs, (None, False): 120 * 18_000_500 - theirs}
    assert (costs.hosts_micros, costs.host_hours) == (2 * (128 * 10_000 + 2048 * 1_000), 2)
    assert [one.cost_micros for one in costs.storage] == [28_054_795]  # two hours of 730, where in the month they lie
    assert (costs.written_bytes, costs.checkpoints_micros) == (None, None)


def whole() -> Costs:
    """Return costs of every kind."""
    week = Period(0, 168 * HOUR, "2026-W46", "UTC")
    gpu_ms = 100 * 3_600_000
    return Costs(
        week,
        "USD",
        "0123456789ab",
        gpu_ms,
        energy([Drawn("h100", 0, 500 * KWH, gpu_ms // 2), Drawn(None, 0, KWH, 1)], [replace(ROW, name="h100")]),
        (TeamEnergy("nlp", True, 500 * KWH, 71_500_000, 247_617_500), TeamEnergy(None, False, KWH, None, None)),
        (
            Bill("across_zones", 5 * 10**12, 100_000_000, "AWS price list", date(2026, 6, 1)),
            Bill("across_regions", 10**9, None, "no tariff of x is known"),
        ),
        (),
        10**12,
        None,
        (),
        0,
        None,
        (Host("host", None, 0, None, "cloud", DAY_ONE, 1, 1),),
    )


def test_the_text_says_what_is_known_and_what_would_make_the_rest_known() -> None:
    """No total: energy is in the price of a GPU-hour already, and what has no price is unknown, never 0."""
    said = " ".join(costs_text(whole(), TextLayout(width=160, ascii=True)).split())
    assert "h100: 500.0 kWh at the GPUs, 650.0 with the hall: $71.50, 247.6 kg CO2e" in said
    assert "PUE 1.30, 0.11 per kWh (power contract, checked 2026-01-01), 381 g/kWh (Germany, 2023)" in said
    assert "other nodes: 1.0 kWh at the GPUs; no [[energy]] row says its PUE, tariff and carbon" in said
    assert "in 50.0% of GPU time" in said
    assert "nlp 500.0 $71.50 247.6 nobody (not allocated) 1.0 - - total 501.0 - -" in said
    assert "The price per GPU-hour already includes power: it is not added." in said
    assert "$100.00" in said
    assert "storage not set: add a [[storage]] row" in said
    assert "1.0 TB written; no [[checkpoints]] row prices all of it" in said
    assert "hosts -: a host has not reported its cores and memory" in said


def test_the_columns_of_energy_add_up_as_printed() -> None:
    """Three thirds of a cent are a cent, and the table says the cent that the sentence above it says."""
    third = [TeamEnergy(name, True, 120_000_000, 3_334, 33_334) for name in ("nlp", "speech", "vision")]
    said = " ".join(
        costs_text(replace(whole(), energy_by_team=tuple(third)), TextLayout(width=160, ascii=True)).split()
    )
    assert "nlp 0.1 $0.01 0.1 speech 0.0 $0.00 0.0 vision 0.0 $0.00 0.0 total 0.1 $0.01 0.1" in said


def test_the_command_prints_both_ways(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Read from a store as it lies, with the rows of another file than the settings'."""
    site(tmp_path)
    rows = tmp_path / "rows.toml"
    rows.write_text(ENERGY)
    asked = ["2025-11-10", "--store", str(tmp_path / "store.duckdb"), "--prices", str(rows)]
    assert command(asked) == 0
    assert "all nodes: 1.8 kWh at the GPUs, 2.3 with the hall: $0.26" in capsys.readouterr().out
    assert command([*asked, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "gpuledger/costs"
    (told,) = document["energy"]
    assert told["gpu_millijoules"] == 360 * 18_000_000


def test_a_dated_row_holds_in_its_period_alone() -> None:
    """As every price does."""
    moment = int(datetime(2026, 11, 1, tzinfo=UTC).timestamp()) * 1_000_000
    beside = PriceBook.parse("p", ENERGY.replace("source", "until = 2026-11-01\nsource").encode()).beside
    assert isinstance(beside, NonGpuPrices)
    assert [row.covers(moment - 1) for row in beside.rows] == [True]
    assert [row.covers(moment) for row in beside.rows] == [False]


def test_hours_that_are_rolled_up_say_what_samples_said() -> None:
    """What an upgrade finds expired is booked from the tier; no hour may be counted from both."""
    fleet = Fleet()
    fleet.own("n1", ["g1"], purchase_option="reserved")
    fleet.sample("n1", "g1", MONDAY, MONDAY + 3 * HOUR, energy_joules=18_000.5)
    period = Period(MONDAY, MONDAY + 3 * HOUR, "three hours", "UTC")
    fleet.analyze()
    with fleet.store.session() as session:
        before = read_drawn(session, period)
        session.execute("DELETE FROM energy_amounts")
        session.execute("DELETE FROM amount_hours")
    make_tier_tables(fleet.store)
    table, rolled = tiered("gpu_samples"), Span(MONDAY, MONDAY + 2 * HOUR)
    with fleet.store.session() as session:
        for portion in planned(session, table, rolled):
            roll_minutes(session, portion)
        roll_hours(session, table, rolled)
        session.execute(f"DELETE FROM gpu_samples WHERE started_at < {MONDAY + HOUR}")
        session.execute(f"INSERT INTO retention VALUES ('gpu_samples', {MONDAY + HOUR}, 1, 'age', {MONDAY + HOUR})")
        session.execute(f"INSERT INTO tier_marks VALUES (-1, {MONDAY + 2 * HOUR})")
        assert session.row("SELECT count(*) FROM gpu_hours") == (2,)
    fleet.analyze()
    with fleet.store.session() as session:
        assert session.rows("SELECT energy FROM amount_hours ORDER BY hour") == [("tiers",), ("samples",), ("samples",)]
        assert read_drawn(session, period) == before
    assert [one.millijoules for one in before] == [60 * 18_000_500] * 3
